"""Depthwise convolution in NHWC of few channels: the numbers of a row fill the lanes."""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from typing import Any

from winogen.kernels import costs as cost
from winogen.kernels import depthwise, pixels_family
from winogen.kernels.count import Stages
from winogen.kernels.geometry import extent
from winogen.kernels.variant import Buffer, Cycles, Variant
from winogen.kernels.work import Work, blocks, round_up
from winogen.records import Machine, Precision, Target, Tuning

# The part of the lanes that may be filled if channels fill them, for rows of numbers to be better.
_FILLED = 0.75
# Bytes of filters of a layer with several per channel: they must stay in the first cache.
_MOST_FILTERS = 24 << 10


class DepthwiseRows(Variant):
    """A row of pixels is a row of a plane whose taps lie as far apart as a pixel has numbers."""

    name = "depthwise_rows"
    algorithm = "direct"
    template = "depthwise_rows.c.j2"
    title = "Depthwise convolution of few channels, pixels of a row in the lanes"
    uses = ("rows", "vectors")
    rows_at_once = 16
    buffers_used = {
        "strip": "Padded input below a block.",
        "sum": "Rows of outputs.",
        "bias": "The bias of a period of vectors.",
        "tap": "Where the taps of a row begin.",
    }
    fields_used = {
        "strip_phase": "From one phase of the strip to the next.",
        "strip_row": "From one row of the strip to the next.",
    }

    def applies(self, work: Work) -> bool:
        if work.layout != "NHWC" or work.channels > 1 or work.groups == 1:
            return False
        seen = self.view(work)
        if work.filters == 1:  # channels might fill the lanes instead
            few = seen.filters < 2 * work.lanes
            return few and seen.filters <= _FILLED * round_up(seen.filters, work.lanes)
        tuned = replace(seen, tuning=self.tuning(work.target, work.precision))
        return self.packed_numbers(tuned) * work.itemsize <= _MOST_FILTERS

    def view(self, work: Work) -> Work:
        filters = work.groups * work.filters
        return replace(work, groups=1, channels=work.groups, filters=filters)

    def tuning(self, target: Target, precision: Precision) -> Tuning:
        return Tuning("measured on Intel Xeon (Emerald Rapids), 2026-11", rows=4, vectors=3)

    def fields(self, work: Work) -> dict[str, Any]:
        _, cols = extent(work)
        # Vectors are read beyond the end of a row: one more, of zeros.
        phase = round_up(blocks(cols, work.stride[1]) * work.filters, work.lanes) + work.lanes
        return {"strip_phase": phase, "strip_row": phase * work.stride[1]}

    def buffers(self, work: Work) -> dict[str, Buffer]:
        lanes, size = work.lanes, work.itemsize
        rows, _ = extent(work)
        row = round_up(work.block[1] * work.filters, lanes)
        return {
            "strip": Buffer(rows * self.fields(work)["strip_row"] * size),
            # Whole vectors are read behind the last pixel.
            "sum": Buffer((work.tuning.rows * row + lanes) * size),
            "bias": Buffer(self._tap_numbers(work) * size),
            "tap": Buffer(work.kernel[1] * 8),
        }

    def unit(self, work: Work) -> tuple[Any, Any, Any]:
        return work.tuning.rows, work.block[1], work.filters

    def packed_numbers(self, work: Work) -> int:
        return work.taps * self._tap_numbers(work)

    def count(self, work: Work) -> Stages:
        (rows, cols), buffers = work.block, self.buffers(work)
        return depthwise.count(
            work,
            self.packed_bytes(work),
            buffers,
            channels=work.filters,
            vectors=rows * blocks(cols * work.filters, work.lanes),
        )

    def cycles(self, work: Work, machine: Machine) -> Cycles:
        share, _ = cost.busiest(work)
        into, multiply, _ = self.count(work)
        product = share * machine.costs.depthwise * multiply.steps
        stores = share * pixels_family.block_written(work, machine, multiply, False)
        input_ = share * pixels_family.fill(work, machine, into)
        return pixels_family.stored_meanwhile(machine, input_, product, stores)

    def _tap_numbers(self, work: Work) -> int:
        """Numbers packed for a tap: vectors of a period, and the vectors a block reads behind
        it."""
        period = work.filters // gcd(work.filters, work.lanes)
        return (period + work.tuning.vectors - 1) * work.lanes
