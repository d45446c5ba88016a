"""2D Winograd of few channels in NHWC: tiles, then filters fill the lanes."""

from __future__ import annotations

from typing import Any

import numpy as np

from winogen.kernels import costs as cost
from winogen.kernels import tuning
from winogen.kernels.demand import Stages
from winogen.kernels.demand_tiles import in_registers
from winogen.kernels.geometry import (
    gemm_filters,
    is_streamed,
    lines_of_channels,
    tile_strip_size,
)
from winogen.kernels.pixels_family import NEAR_BYTES
from winogen.kernels.tiles_family import positions
from winogen.kernels.variant import Buffer, Cycles
from winogen.kernels.winograd2d_tiles import Winograd2dTiles, transformed_lanes
from winogen.kernels.work import Work, blocks
from winogen.records import Machine, Precision, Target, Tuning


class Winograd2dFilters(Winograd2dTiles):
    """A register block is some tiles times some vectors of filters; products are never stored."""

    name = "winograd2d_filters"
    template = "winograd2d_filters.c.j2"
    title = "2D Winograd convolution of few channels, filters in the lanes"
    layout_of = "NHWC"
    uses = ("vectors", "band", "tiles", "few")
    tunable = ("vectors", "band", "tiles", "non_temporal")

    def tuning(self, target: Target, precision: Precision) -> Tuning:
        return tuning.gemm(target, depth=16)

    def buffers(self, work: Work) -> dict[str, Buffer]:
        (h, w), block, lanes = work.transforms, work.tuning, work.lanes
        outputs = block.tiles * h.m * w.m * block.vectors
        v = lanes * positions(work) * work.channels
        return self._buffers(work, v, outputs * lanes)

    def unit(self, work: Work) -> tuple[Any, Any, Any]:
        h, w = work.transforms
        return h.m, work.tuning.tiles * w.m, work.tuning.vectors * work.lanes

    def packed_numbers(self, work: Work) -> int:
        return gemm_filters(work, positions(work))

    def non_temporal(self, work: Work) -> bool:
        return lines_of_channels(work) and is_streamed(work, self.adds_early)

    def cycles(self, work: Work, machine: Machine) -> Cycles:
        """Columns of positions pass, tile by tile: see `tiles_block` of the template."""
        costs, (h, w) = machine.costs, work.transforms
        rate = machine.vectors_per_cycle
        rows, cols = work.block
        share, _ = cost.busiest(work)
        _, input_ = transformed_lanes(work, machine)
        # For tiles * vectors products of a register block, tiles + vectors operands are loaded.
        # Additions and stores keep up with the multiply-adds unless they are more: most often they
        # have units of their own.
        filters = blocks(work.filters, work.lanes)
        tiles, vectors = work.tuning.tiles, min(work.tuning.vectors, filters)
        loads = max(1, (tiles + vectors) / (tiles * vectors))
        products = positions(work) * work.channels * loads
        columns = w.products * h.output_multiplies
        across = h.m * w.output_multiplies
        stores = h.m * (w.products + w.m)
        transform = (w.products * h.instructions[2] + h.m * w.instructions[2]) / rate
        arithmetic = np.maximum(
            costs.delays * (products + columns + across) / rate, stores + transform
        )
        # What a register block works with: U and V, and columns of sums that wait for the rows.
        vector = work.lanes * work.itemsize
        u_bytes = positions(work) * work.channels * vectors * vector
        v_bytes = u_bytes / vectors
        waiting = tiles * vectors * h.m * w.products * vector
        fetched = u_bytes / machine.l2_rate / (tiles * vectors)
        spills = u_bytes + v_bytes + waiting > NEAR_BYTES
        arithmetic = np.where(spills, cost.roof(arithmetic, fetched, costs.streamed), arithmetic)
        arithmetic = arithmetic * (rows * cols * filters)
        size = work.batch * work.output_bytes
        stored = cost.written(work, machine, size, self.non_temporal(work))
        stored = stored / cost.busy_threads(work)
        return Cycles(share * input_, cost.roof(share * arithmetic, stored, costs.streamed), 0.0)

    def demands(self, work: Work) -> Stages:
        vectors = min(work.tuning.vectors, blocks(work.filters, work.lanes))
        return in_registers(
            work, self.packed_bytes(work), self.buffers(work), tile_strip_size(work),
            block=(work.tuning.tiles, vectors), tiles_in_lanes=False,
        )  # fmt: skip
