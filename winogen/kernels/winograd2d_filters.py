"""2D Winograd of few channels in NHWC: tiles, then filters fill the lanes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from winogen.kernels import costs as cost
from winogen.kernels import tuning
from winogen.kernels.count import Demand, Stages
from winogen.kernels.geometry import (
    STRIP_FIELDS,
    gemm_filters,
    is_streamed,
    lines_of_channels,
)
from winogen.kernels.pixels_family import NEAR_BYTES
from winogen.kernels.tiles_family import positions
from winogen.kernels.variant import Buffer, Cycles
from winogen.kernels.winograd2d_tiles import Winograd2dTiles
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
    fields_used = STRIP_FIELDS

    def tuning(self, target: Target, precision: Precision) -> Tuning:
        if target.registers < 32:
            # Sums of a column of one tile, for as many vectors as share what is loaded of V.
            block = tuning.gemm(target, depth=16, tiles=1, vectors=3, band=15)
            return replace(block, provenance="measured on AMD EPYC (Zen 3, AVX2), 2026-11")
        return tuning.gemm(target, depth=16)

    def fields(self, work: Work) -> dict[str, Any]:
        return self._pitches(work)

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

    def count(self, work: Work) -> Stages:
        filled = blocks(work.filters, work.lanes)
        block = work.tuning.tiles, min(work.tuning.vectors, filled)
        vectors = work.block[0] * work.block[1] * filled
        return (
            self.transformed(work),
            self.summed(work, vectors, block, blocks(filled, block[1])),
            Demand(),
        )

    def cycles(self, work: Work, machine: Machine) -> Cycles:
        """Columns of positions pass, tile by tile: see `tiles_block` of the template."""
        costs, (h, w) = machine.costs, work.transforms
        rate = machine.vectors_per_cycle
        share, _ = cost.busiest(work)
        into, multiply, _ = self.count(work)
        filters = blocks(work.filters, work.lanes)
        tiles, vectors = work.tuning.tiles, min(work.tuning.vectors, filters)
        blocks_ = work.block[0] * work.block[1] * filters
        # Additions and stores keep up with the multiply-adds unless they are more: most often they
        # have units of their own.
        multiplies = w.products * h.output_multiplies + h.m * w.output_multiplies
        # Sums of a column beyond the registers are loaded and stored for every step.
        sums = tiles * vectors * h.products
        room = work.target.registers - vectors - 1
        spilled = multiply.steps * np.maximum(0, 1 - room / sums)
        loads = multiply.loads + spilled
        multiplied = np.maximum(multiply.steps, loads) + blocks_ * multiplies
        stores = multiply.stored + spilled + blocks_ * h.m * w.m
        arithmetic = np.maximum(
            costs.delays * multiplied / rate, stores + multiply.instructions / rate
        )
        # What a register block works with: U and V, and columns of sums that wait for the rows.
        vector = work.lanes * work.itemsize
        u_bytes = positions(work) * work.channels * vectors * vector
        v_bytes = u_bytes / vectors
        waiting = tiles * vectors * h.m * w.products * vector
        fetched = blocks_ * u_bytes / machine.l2_rate / (tiles * vectors)
        spills = u_bytes + v_bytes + waiting > NEAR_BYTES
        arithmetic = np.where(spills, cost.roof(arithmetic, fetched, costs.streamed), arithmetic)
        size = work.batch * work.output_bytes
        stored = cost.written(work, machine, size, self.non_temporal(work))
        stored = stored / cost.busy_threads(work)
        input_ = share * self.transform_cycles(work, machine, into)
        return Cycles(input_, cost.roof(share * arithmetic, stored, costs.streamed), 0.0)
