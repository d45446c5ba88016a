"""Direct convolution whose products are of float16."""

from __future__ import annotations

from winogen.kernels import costs as cost
from winogen.kernels import halves_family as halves
from winogen.kernels import pixels_family, tuning
from winogen.kernels.count import PanelProduct
from winogen.kernels.direct import Direct
from winogen.kernels.geometry import STRIP_FIELDS
from winogen.kernels.variant import Buffer, Cycles
from winogen.kernels.work import Work, blocks
from winogen.records import Machine, Precision, Target, Tuning
from winogen.records.tuning import PREFETCHING


class DirectFloat16(halves.OfHalves, Direct):
    """As direct convolution, in words of two channels."""

    name = "direct_float16"
    fields_used = STRIP_FIELDS
    ranks = (1, 2)
    skips_padding = False
    title = "Direct convolution, register-blocked, products of float16"
    uses = ("rows", "vectors", "band")
    tunable = (*uses, *PREFETCHING, "depth")
    buffers_used = {**Direct.buffers_used, **halves.BUFFERS}

    def tuning(self, target: Target, precision: Precision) -> Tuning:
        return tuning.halves(target, depth=1024)

    def buffers(self, work: Work) -> dict[str, Buffer]:
        sizes, once = work.tuning, self.depth(work) >= work.terms
        vector = sizes.vectors * work.lanes * work.itemsize
        # What is written together: as many panels as vectors have lanes, or one.
        together = sizes.rows * (work.lanes if work.layout == "NCHW" else 1)
        wide = sizes.rows if once else work.block[0] * work.block[1]
        return {
            **super().buffers(work),
            "sum": Buffer(together * vector),
            "most": halves.largest_numbers(work),
            "wide": halves.wide_sums(work, wide),
        }

    def product(self, work: Work) -> PanelProduct:
        rows, cols = work.block
        depth = work.terms * work.taps
        panels = cost.register_blocks(work, cols)
        return PanelProduct(panels, depth, times=rows, ends=halves.ends(depth))

    def cycles(self, work: Work, machine: Machine) -> Cycles:
        costs, lanes = machine.costs, work.lanes
        filled, multiplied = cost.busiest(work, lanes * work.tuning.vectors)
        into, multiply, output = self.count(work)
        (rows, cols), words = work.block, work.terms
        call = costs.call_of_one + costs.half_tap * work.taps * blocks(words, lanes)
        arithmetic = halves.product_cycles(machine, multiply.product, call)
        steps = cost.roof(arithmetic, pixels_family.again(machine, multiply), costs.shows)
        product = multiplied * pixels_family.multiply(work, machine, multiply, steps)
        # Sums are scaled and written panel by panel, from L1.
        vectors = multiplied * rows * cols * blocks(work.filters, lanes)
        written = (cost.arrange(work, costs) + costs.half_store * costs.store) * vectors
        stores = multiplied * pixels_family.block_written(
            work, machine, multiply + output, self.non_temporal(work)
        )
        filling = filled * self._fill(work, machine, into, multiply) + halves.measured(
            work, machine
        )
        if work.layout == "NHWC":
            return pixels_family.stored_meanwhile(machine, filling, product + written, stores)
        return Cycles(filling, product, cost.roof(written, stores, costs.shows))
