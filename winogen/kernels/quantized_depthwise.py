"""Depthwise convolution of 8-bit integers: how a call is cut, and its memory.

As in float32, channels fill the lanes (NHWC) or neighbouring pixels do (NCHW). Numbers less their
zero points take 16 bits, so that no sum needs a correction.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from winogen.kernels.quantized import QuantizedWork, placed
from winogen.kernels.work import blocks, even, round_up
from winogen.records.machine import L1_BYTES


class DepthwiseWork(QuantizedWork):
    """One call; filters are those of all groups, each of one channel."""

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

    @cached_property
    def block(self) -> tuple[int, int]:
        """Rows and columns of outputs: whole rows, as many as leave their input in L1."""
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
    def shares(self) -> int:
        """Filters are not shared."""
        return 1

    @cached_property
    def layout(self) -> dict[str, Any]:
        """Where the buffers lie, and how large the workspace is."""
        rows, cols = self.block
        lanes = self.spec.lanes if self.spec.layout == "NHWC" else 1
        sizes = {
            "strip": self._strip_bytes(rows, cols),
            "sum": 4 * int(round_up(cols, self._at_once) * lanes + self.spec.lanes),
            "tap": 8 * self.taps,
        }
        none = dict.fromkeys(("row", "source", "window"), 0)
        return {"row_phase": 0, "row_plane": 0, **placed({**sizes, **none})}
