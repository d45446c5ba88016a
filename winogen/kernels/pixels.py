"""Direct convolution, pixels in the lanes: for groups of few filters and for few channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from winogen.kernels import costs as cost
from winogen.kernels import pixels_family, tuning
from winogen.kernels.demand import Stages, without_tiles
from winogen.kernels.geometry import STRIP_FIELDS, strip_pitches, strip_size
from winogen.kernels.variant import Buffer, Cycles, Variant, named
from winogen.kernels.work import Work, blocks, even, round_up
from winogen.loops.registers import loads_per_fma
from winogen.records import Machine, Precision, Target, Tuning

# Terms of a sum up to which filters in the lanes take longer: each block of sums is transposed.
_FEW_TERMS = 64


class Pixels(Variant):
    """Rows of planes are written as they are computed."""

    name = "pixels"
    algorithm = "direct"
    template = "pixels.c.j2"
    title = "Direct convolution of few filters or channels, pixels in the lanes"
    in_lanes = "pixels"
    uses = ("rows", "vectors")
    tunable: tuple[str, ...] = (*uses, "depth")
    buffers_used = {
        "strip": "padded input below a block",
        "sum": "sums that wait",
        "tap": "where the taps begin",
    }
    fields_used = STRIP_FIELDS

    def applies(self, work: Work) -> bool:
        few_filters = work.filters <= work.lanes // 2
        few_terms = work.taps > 1 and work.channels * work.taps <= _FEW_TERMS
        # What `planes` computes where arrays hold other numbers than are computed with.
        widened = work.precision.narrow and named("planes").applies(work)
        return work.layout == "NCHW" and (few_filters or few_terms or widened)

    def tuning(self, target: Target, precision: Precision) -> Tuning:
        return tuning.gemm(target)

    def fields(self, work: Work) -> dict[str, Any]:
        return strip_pitches(*strip_size(work), work.stride[1], work.lanes, planar=True)

    def buffers(self, work: Work) -> dict[str, Buffer]:
        lanes, size, (rows, cols) = work.lanes, work.itemsize, work.block
        # Whole vectors are read, up to two beyond what is needed.
        strip = work.channels * self.fields(work)["strip_plane"] + 2 * lanes
        return {
            "strip": Buffer(strip * size),
            "sum": Buffer(rows * work.tuning.rows * round_up(cols, lanes) * size),
            "tap": Buffer(work.taps * 8),
        }

    def unit(self, work: Work) -> tuple[Any, Any, Any]:
        return 1, work.block[1], work.tuning.rows

    def packed_numbers(self, work: Work) -> int:
        return work.groups * work.filters * work.taps * work.channels

    def depth(self, work: Work) -> int:
        return max(1, work.tuning.depth // work.taps)

    def cycles(self, work: Work, machine: Machine) -> Cycles:
        costs, (rows, cols) = machine.costs, work.block
        blocks_paid, _ = cost.busiest(work)
        input_, _ = pixels_family.fill(work, machine, work.channels)
        panels = blocks(work.filters, work.tuning.rows)
        step = np.maximum(blocks(work.filters, panels), costs.latency)
        calls = rows * blocks(cols, work.tuning.vectors * work.lanes) * panels
        steps = work.channels * work.taps * step
        arithmetic = calls * (steps + costs.call(1) + 2 * costs.sum(1) * step)
        product = blocks_paid * pixels_family.multiply(work, machine, arithmetic)
        stores = blocks_paid * pixels_family.block_written(work, machine, False)
        return pixels_family.stored_meanwhile(machine, blocks_paid * input_, product, stores)

    def demands(self, work: Work) -> Stages:
        panel = even(work.filters, work.tuning.rows)
        width = min(work.tuning.vectors, blocks(work.block[1], work.lanes))
        return without_tiles(
            work,
            self.packed_bytes(work),
            self.buffers(work)["strip"],
            pixels_in_lanes=True,
            loads=loads_per_fma(panel, width),
            at_once=panel,
        )
