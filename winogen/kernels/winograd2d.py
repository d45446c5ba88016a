"""2D Winograd, tile by tile: LANES channels are transformed, then multiplied into all sums."""

from __future__ import annotations

from typing import Any

from winogen.kernels import costs as cost
from winogen.kernels import tuning
from winogen.kernels.count import PanelProduct, Stages
from winogen.kernels.geometry import gemm_filters
from winogen.kernels.tiles_family import Tiled, multiplied, positions, product_cycles
from winogen.kernels.variant import Buffer, Cycles
from winogen.kernels.work import Work, blocks
from winogen.records import Machine, Precision, Target, Tuning
from winogen.records.tuning import PREFETCHING


class Winograd2d(Tiled):
    """Little memory: nothing but a few tiles, and their sums, exist at a time."""

    name = "winograd2d"
    algorithm = "winograd2d"
    template = "winograd2d.c.j2"
    ranks = (2,)
    title = "2D Winograd convolution, tile by tile"
    auto = False
    widens_filters = True
    uses = ("rows", "vectors", "chains", "band")
    tunable = (*uses, *PREFETCHING, "non_temporal")
    buffers_used = {
        "v": "Transformed tiles of LANES channels.",
        "y": "Sums of all filters.",
        **Tiled.buffers_used,
    }
    fields_used = {
        "v_step": "From one position of v to the next.",
        "y_step": "From one position of y to the next.",
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

    def product(self, work: Work) -> PanelProduct:
        """Count the products of a block, one for each position of the tiles."""
        tiles = work.block[0] * work.block[1]
        rounds = blocks(work.channels, work.tuning.depth)
        return PanelProduct(
            cost.register_blocks(work, tiles), work.channels, rounds, times=positions(work)
        )

    def count(self, work: Work) -> Stages:
        into, product = self.tiles_transformed(work), self.product(work)
        multiply = multiplied(
            self,
            work,
            product,
            into,
            rows=work.block[0] * work.block[1],
            depth=work.lanes,
            rounds=blocks(work.channels, work.lanes),
        )
        return into, multiply, self.outputs_gathered(work, "Y")

    def cycles(self, work: Work, machine: Machine) -> Cycles:
        share, _ = cost.busiest(work)
        into, multiply, output = self.count(work)
        rounds = blocks(work.channels, work.lanes)
        sums, filters = multiply.bytes("Y", writes=True), multiply.bytes("U")
        # Tiles and filters of a chunk of channels pass by before the next chunk is added to Y. So Y
        # leaves L2 in every round, unless all have room; it is read and written from afar then.
        passing = (into.bytes("V", writes=True) + filters) / rounds
        spills = sums / rounds + passing > machine.l2_room
        product = product_cycles(
            work,
            machine,
            cost.product(work, machine, multiply.product),
            filters,
            spills * 2 * sums / machine.l3_rate,
        )
        input_ = self.input_cycles(work, machine, into)
        output_ = self.output_cycles(work, machine, output)
        return Cycles(share * input_, share * product, share * output_)
