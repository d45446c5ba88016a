"""2D Winograd, tile by tile: LANES channels are transformed, then multiplied into all sums."""

from __future__ import annotations

from typing import Any

from winogen.kernels import costs as cost
from winogen.kernels import tuning
from winogen.kernels.demand import Stages
from winogen.kernels.demand_tiles import Product, with_tiles
from winogen.kernels.geometry import gemm_filters
from winogen.kernels.tiles_family import Tiled, positions, product_cycles
from winogen.kernels.variant import Buffer, Cycles
from winogen.kernels.work import Work, blocks
from winogen.records import Machine, Precision, Target, Tuning
from winogen.records.tuning import PREFETCHING


class Winograd2d(Tiled):
    """Little memory: nothing but a few tiles, and their sums, exist at a time."""

    name = "winograd2d"
    algorithm = "winograd2d"
    template = "winograd2d.c.j2"
    title = "2D Winograd convolution, tile by tile"
    auto = False
    widens_filters = True
    uses = ("rows", "vectors", "chains", "band")
    tunable = (*uses, *PREFETCHING, "non_temporal")
    buffers_used = {
        "v": "transformed tiles of LANES channels",
        "y": "sums of all filters",
        **Tiled.buffers_used,
    }
    fields_used = {
        "v_step": "of v: from one position to the next",
        "y_step": "of y: likewise",
    }

    def sizes_fit(self, work: Work, tuning: Tuning) -> bool:
        # A chunk of channels is multiplied at a time: its filters do not follow one another.
        return super().sizes_fit(work, tuning) and not tuning.fetches("next")

    def tuning(self, target: Target, precision: Precision) -> Tuning:
        # As many channels as are transformed at a time.
        return tuning.gemm(target, depth=target.lanes(precision.real.name))

    def fields(self, work: Work) -> dict[str, Any]:
        tiles = work.block[0] * work.block[1]
        # One vector between positions keeps them off the same cache sets.
        y_step = tiles * work.padded_filters + work.lanes
        return {"v_step": tiles * work.lanes, "y_step": y_step}

    def buffers(self, work: Work) -> dict[str, Buffer]:
        steps, size = self.fields(work), positions(work) * work.itemsize
        return {
            "v": Buffer(size * steps["v_step"]),
            "y": Buffer(size * steps["y_step"]),
            **self.transform_buffers(work),
        }

    def packed_numbers(self, work: Work) -> int:
        return gemm_filters(work, positions(work))

    def cycles(self, work: Work, machine: Machine) -> Cycles:
        share, _ = cost.busiest(work)
        tiles, places = work.block[0] * work.block[1], positions(work)
        size, vectors = work.itemsize, blocks(work.channels, work.lanes)
        depth = work.tuning.depth
        arithmetic = places * cost.product(work, machine, tiles, depth, work.channels, 1)
        v_bytes = places * tiles * vectors * work.lanes * size
        y_bytes = places * tiles * work.padded_filters * size
        spills = v_bytes + y_bytes > machine.l2_bytes * 3 // 4
        product = product_cycles(
            work,
            machine,
            arithmetic,
            places * work.channels * work.padded_filters * work.precision.filter_itemsize,
            spills * (v_bytes + 2 * y_bytes) / machine.l3_rate,
        )
        input_, output = self.input_cycles(work, machine), self.output_cycles(work, machine)
        return Cycles(share * input_, share * product, share * output)

    def demands(self, work: Work) -> Stages:
        tiles, chunks = work.block[0] * work.block[1], blocks(work.channels, work.lanes)
        return with_tiles(
            work, self.packed_bytes(work), self.buffers(work),
            Product(tiles, 1, work.lanes, rounds=chunks),
            taps=1, lines=self.lines(work), extent=self.input_size(work),
        )  # fmt: skip
