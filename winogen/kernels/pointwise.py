"""1x1 convolution in NHWC, filters in the lanes: pixels are read where they lie."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import Any

from winogen.kernels import pixels_family
from winogen.kernels.count import Demand, Move, input_read
from winogen.kernels.direct import Direct
from winogen.kernels.geometry import strip_size
from winogen.kernels.variant import Buffer
from winogen.kernels.work import Work, blocks
from winogen.records import Machine, Target

_WAY_BYTES = 4096  # of the first cache: it has eight or more ways
_MOST_IN_A_SET = 6  # rows, beside filters and outputs


class Pointwise(Direct):
    """As direct convolution, but for the copy of the image: there is none."""

    name = "pointwise"
    template = "pointwise.c.j2"
    title = "1x1 convolution where the pixels lie, filters in the lanes"
    ranks = (1, 2)
    phases = ()
    skips_padding = False
    widens_arrays = False  # they are read where they lie
    formats = ("real",)
    operand = "input again"  # as the moves of a block are called
    buffers_used = {"sum": "Sums that wait for others."}
    fields_used: Mapping[str, str] = {}

    def applies(self, work: Work) -> bool:
        # All that is read is inside the image: rows and columns below it are outputs of nobody.
        inside = all(
            (out - 1) * step < size
            for out, step, size in zip(work.output_size, work.stride, work.size)
        )
        one = work.filter_taps == 1 and work.padding == (0, 0)
        plain = work.layout == "NHWC" and work.deep is None
        return plain and one and inside and self._rows_stay(work)

    def _rows_stay(self, work: Work) -> bool:
        """Whether the first cache can hold a line of each row of a register block at once.

        Rows as far apart as a way of the cache is long would evict each other.
        """
        step = work.stride[1] * work.input.pixel * work.itemsize
        sets = _WAY_BYTES // gcd(step, _WAY_BYTES)  # in which rows begin
        rows = self.tuning(work.target, work.precision).with_sizes(work.sizes).rows
        return blocks(rows, sets) <= _MOST_IN_A_SET

    def context(self, compiled: Any, target: Target) -> dict[str, Any]:
        return {"row_step": "row_step", "in_place": True}

    def fields(self, work: Work) -> dict[str, Any]:
        return {}

    def buffers(self, work: Work) -> dict[str, Buffer]:
        pixels, wide = work.block[0] * work.block[1], work.tuning.vectors * work.lanes
        return {"sum": Buffer(pixels * wide * work.itemsize)}

    def filled(self, work: Work) -> Demand:
        return Demand()

    def operand_read(self, work: Work, into: Demand, times: int) -> tuple[Move, ...]:
        size = input_read(work, 0, strip_size(work)).bytes
        return (Move(self.operand, (times - 1) * size, size, private=True),) if times > 1 else ()

    def _fill(self, work: Work, machine: Machine, into: Demand, multiply: Demand) -> Any:
        return pixels_family.fetched(work, machine, multiply)
