"""2D Winograd of few channels in NCHW: tiles fill the lanes from the input to the output."""

from __future__ import annotations

from typing import Any

import numpy as np

from winogen.kernels import costs as cost
from winogen.kernels.demand import Stages
from winogen.kernels.demand_tiles import in_registers
from winogen.kernels.geometry import (
    STRIP_FIELDS,
    is_streamed,
    strip_pitches,
    tile_strip_size,
    whole_lines,
)
from winogen.kernels.tiles_family import positions
from winogen.kernels.variant import Buffer, Cycles, Variant
from winogen.kernels.work import Work, blocks, round_up
from winogen.records import Machine, Precision, Target, Tuning

_UNROLLED_CHANNELS = (1, 3, 4)  # as images have them: compiled in
_LEAST_FILTERS = 8  # fewer do not pay for the input transform


class Winograd2dTiles(Variant):
    """Products never leave the registers; on the way out rows need only be interleaved."""

    name = "winograd2d_tiles"
    algorithm = "winograd2d"
    template = "winograd2d_tiles.c.j2"
    title = "2D Winograd convolution of few channels, tiles in the lanes"
    along = (True, True)
    largest_tile = 4  # larger ones are less accurate and, for all that they save, not faster
    layout_of = "NCHW"
    uses: tuple[str, ...] = ("pair",)
    tunable: tuple[str, ...] = ("pair", "non_temporal")
    buffers_used = {
        "v": "transformed tiles",
        "y": "outputs of whole tiles",
        "strip": "padded input below a block",
    }
    fields_used = STRIP_FIELDS

    def applies(self, work: Work) -> bool:
        few = work.channels <= self.tuning(work.target, work.precision).few
        return work.layout == self.layout_of and few and not work.depthwise

    def suits(self, work: Work) -> bool:
        return work.filters >= _LEAST_FILTERS

    def fixed(self, work: Work) -> dict[str, int]:
        return {"channels": work.channels} if work.channels in _UNROLLED_CHANNELS else {}

    def tuning(self, target: Target, precision: Precision) -> Tuning:
        return Tuning("measured on AMD EPYC (Zen 4), 2026-11", pair=2, depth=16)

    def fields(self, work: Work) -> dict[str, Any]:
        return strip_pitches(*tile_strip_size(work), work.transforms[1].m, work.lanes, planar=True)

    def buffers(self, work: Work) -> dict[str, Buffer]:
        (h, w), cols, lanes = work.transforms, work.block[1], work.lanes
        wide = round_up(cols, lanes)
        v = wide * positions(work) * work.channels
        return self._buffers(work, v, work.tuning.pair * h.m * wide * w.m + lanes)

    def _buffers(self, work: Work, v: Any, y: Any) -> dict[str, Buffer]:
        # Whole vectors are read, up to two beyond what is needed.
        strip = work.channels * self.fields(work)["strip_plane"] + 2 * work.lanes
        numbers = {"v": v, "y": y, "strip": strip}
        return {name: Buffer(count * work.itemsize) for name, count in numbers.items()}

    def unit(self, work: Work) -> tuple[Any, Any, Any]:
        h, w = work.transforms
        return h.m, work.block[1] * w.m, work.tuning.pair

    def packed_numbers(self, work: Work) -> int:
        return work.groups * work.filters * work.channels * positions(work)

    def non_temporal(self, work: Work) -> bool:
        return whole_lines(work) and is_streamed(work, self.adds_early)

    def cycles(self, work: Work, machine: Machine) -> Cycles:
        costs, (h, w) = machine.costs, work.transforms
        share, _ = cost.busiest(work)
        groups, input_ = transformed_lanes(work, machine)
        # Products need not be stored, columns must. Rows are interleaved if their tiles are powers
        # of two, else written one by one.
        products = costs.instruction * positions(work) * work.channels
        columns = w.products * cost.transform(costs, h.instructions[2], h.m)
        across = h.m * cost.transform(costs, w.instructions[2], 0)
        m = w.m
        placing = np.where(m & (m - 1), work.lanes / 2, (np.log2(m) + 1) / 4)
        arithmetic = groups * work.filters * (products + columns + across + h.m * m * placing)
        # Outputs are written row of tiles by row of tiles, in bursts.
        stores: Any = work.batch * work.output_bytes
        if self.non_temporal(work):
            stores = stores / machine.memory_rate
        else:
            stores = stores / machine.read_rate(costs.displaced * work.output_bytes)
        multiply = share * arithmetic + stores / cost.busy_threads(work)
        return Cycles(share * input_, multiply, 0.0)

    def demands(self, work: Work) -> Stages:
        return in_registers(
            work, self.packed_bytes(work), self.buffers(work), tile_strip_size(work),
            block=(1, min(work.tuning.pair, work.filters)), tiles_in_lanes=True,
        )  # fmt: skip


def transformed_lanes(work: Work, machine: Machine) -> tuple[Any, Any]:
    """Groups of tiles in a block that fill the lanes, and the cycles of their input transform."""
    (h, w), rate = work.transforms, machine.vectors_per_cycle
    rows, cols = work.block
    groups = rows * blocks(cols, work.lanes)
    in_rows, in_cols = tile_strip_size(work)
    columns = w.n * (h.instructions[0] / rate + h.n / 2)
    across = h.products * (w.instructions[0] / rate + w.products)
    return groups, work.channels * (in_rows * in_cols / 2 + groups * (columns + across))
