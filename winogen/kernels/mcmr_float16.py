"""Multi-channel multi-region Winograd convolution whose products are of float16.

Tiles are transformed in float32, scaled by the power of two of their image and rounded. Filters are
transformed in double, scaled by a power of two each and rounded once.
"""

from __future__ import annotations

from typing import Any

from winogen.kernels import costs as cost
from winogen.kernels import halves_family as halves
from winogen.kernels import tuning
from winogen.kernels.count import Demand, PanelProduct, Stages
from winogen.kernels.mcmr import Mcmr
from winogen.kernels.tiles_family import Tiled, positions
from winogen.kernels.variant import Buffer, Cycles
from winogen.kernels.work import Work, blocks, round_up
from winogen.records import Machine, Precision, Target, Tuning
from winogen.records.tuning import PREFETCHING

# Instructions by which a vector of tiles is scaled and rounded, and by which a vector of outputs is
# scaled besides the addition of the bias: by its image and by its filter.
_ROUNDED, _UNSCALED = 2, 1


class McmrFloat16(halves.OfHalves, Mcmr):
    """As `mcmr`, with tiles and filters in words of two channels."""

    name = "mcmr_float16"
    ranks = (1, 2)
    joins = False
    title = "Multi-channel multi-region Winograd convolution, products of float16"
    uses = ("rows", "vectors", "band")
    tunable = (*uses, *PREFETCHING, "non_temporal")
    buffers_used = {**Mcmr.buffers_used, **halves.BUFFERS}

    def tuning(self, target: Target, precision: Precision) -> Tuning:
        return tuning.halves(target, non_temporal=tuning.REGIONS_NON_TEMPORAL)

    def sizes_fit(self, work: Work, tuning: Tuning) -> bool:
        return Tiled.sizes_fit(self, work, tuning)  # sums may end within a vector

    def fields(self, work: Work) -> dict[str, Any]:
        tiles = work.images * self.lines(work) * work.block[1]
        words = round_up(work.terms, work.lanes)
        return {**super().fields(work), "v_step": tiles * words + work.lanes}

    def buffers(self, work: Work) -> dict[str, Buffer]:
        return {
            **super().buffers(work),
            "most": halves.largest_numbers(work),
            "wide": halves.wide_sums(work, work.tuning.rows),
        }

    def packed_numbers(self, work: Work) -> int:
        words = work.groups * work.padded_filters * positions(work) * work.terms
        return 2 * words

    def product(self, work: Work) -> PanelProduct:
        rows, times = self.rows_of_products(work)
        panels = cost.register_blocks(work, rows)
        return PanelProduct(
            panels, work.terms, times=positions(work) * times, ends=halves.ends(work.terms)
        )

    def product_price(self, work: Work, machine: Machine, counted: PanelProduct) -> Any:
        costs = machine.costs
        call = costs.call_of_one + costs.half_tap * blocks(work.terms, work.lanes)
        return halves.product_cycles(machine, counted, call)

    def rounding(self, work: Work) -> Demand:
        vectors = work.images * self.lines(work) * work.block[1] * positions(work)
        return Demand(instructions=_ROUNDED * vectors * blocks(work.channels, work.lanes))

    def count(self, work: Work) -> Stages:
        into, multiply, output = super().count(work)
        outputs = work.images * work.block[0] * work.block[1] * blocks(work.filters, work.lanes)
        for transform in work.transforms:
            outputs = outputs * transform.m
        return into, multiply, output + Demand(instructions=_UNSCALED * outputs)

    def cycles(self, work: Work, machine: Machine) -> Cycles:
        cycles = super().cycles(work, machine)
        return cycles._replace(input=cycles.input + halves.measured(work, machine))
