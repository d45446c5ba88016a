"""Depthwise convolution of 8-bit integers: how a call is cut, and its memory.

As in float32, channels fill the lanes (NHWC) or neighbouring pixels do (NCHW). Numbers less their
zero points take 16 bits, so that no sum needs a correction.
"""

from __future__ import annotations

from dataclasses import replace

from winogen.kernels import quantized_count
from winogen.kernels.count import Stages, of_call
from winogen.kernels.kind import Buffer
from winogen.kernels.quantized import QuantizedWork
from winogen.kernels.work import blocks, even, round_up
from winogen.records.machine import L1_BYTES


class DepthwiseWork(QuantizedWork):
    """One call; filters are those of all groups, each of one channel."""

    depthwise = True

    @property
    def inputs(self) -> int:
        return self.filters

    @property
    def _at_once(self) -> int:
        """Outputs of a row that are computed together."""
        return self.spec.rows * (1 if self.spec.layout == "NHWC" else self.spec.lanes)

    def _pitches(self, rows: int, cols: int) -> dict[str, int]:
        high, wide = self._strip_size(rows, cols)
        lanes, stride = self.spec.lanes, self.stride[1]
        if self.spec.layout == "NHWC":
            phase, row = 0, wide * lanes
        else:
            phase = int(round_up(blocks(wide, stride), lanes))
            row = phase * stride
        return {"strip_phase": phase, "strip_row": row, "strip_rows": 0, "strip_plane": high * row}

    def _strip_bytes(self, rows: int, cols: int) -> int:
        # Behind the last outputs are read as many as are computed together.
        lanes = self.spec.lanes
        step = self.stride[1] * lanes if self.spec.layout == "NHWC" else 1
        return 4 * (self._pitches(rows, cols)["strip_plane"] + self._at_once * step + lanes)

    @property
    def flat(self) -> bool:
        """Rows are computed one by one."""
        return False

    def usual_block(self) -> tuple[int, int]:
        """Return whole rows, as many as leave their input in L1."""
        high, wide = self.output_size
        rows = high
        while rows > 1 and self._strip_bytes(rows, wide) > L1_BYTES:
            rows = int(even(high, blocks(rows, 2)))
        return rows, wide

    @property
    def items(self) -> int:
        """Parts of the work."""
        lanes = self.spec.lanes if self.spec.layout == "NHWC" else 1
        return int(self.batch * blocks(self.filters, lanes) * self.grid[0])

    @property
    def counted(self) -> int:
        """How often the work of `count`, that of all channels, is done."""
        return self.batch * self.grid[0]

    @property
    def words(self) -> int:
        """A number of one channel."""
        return 1

    def count(self) -> Stages:
        """Return what the three stages of a block do, for all channels."""
        return quantized_count.count_depthwise(replace(self, channels=self.filters))

    def demands(self) -> Stages:
        """Return what the three stages of the whole call do."""
        work = replace(self, channels=self.filters)
        return of_call(work, DepthwiseWork.count, lambda block: block.strip_size)

    @property
    def shares(self) -> int:
        """Filters are not shared."""
        return 1

    @property
    def _row(self) -> tuple[int, int, int]:
        return 0, 0, 0

    @property
    def buffers(self) -> dict[str, Buffer]:
        """The buffers of a call by name."""
        rows, cols = self.block
        lanes = self.spec.lanes if self.spec.layout == "NHWC" else 1
        # They are rounded four vectors at a time, and more are read with the last.
        sums = int(round_up(round_up(cols, self._at_once) * lanes, 4 * self.spec.lanes))
        return {
            "strip": Buffer(self._strip_bytes(rows, cols)),
            "sum": Buffer(4 * (sums + self.spec.lanes)),
            "tap": Buffer(8 * self.taps),
            **dict.fromkeys(("row", "source", "window"), Buffer(0)),
        }
