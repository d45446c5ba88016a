"""Direct convolution whose products are of float16."""

from __future__ import annotations

from typing import Any

from winogen.kernels import costs as cost
from winogen.kernels import halves_family as halves
from winogen.kernels import pixels_family, tuning
from winogen.kernels.count import Demand, Product, turned
from winogen.kernels.direct import Direct
from winogen.kernels.geometry import strip_pitches, strip_size
from winogen.kernels.variant import Buffer, Cycles
from winogen.kernels.work import Work, blocks, round_up
from winogen.records import Machine, Precision, Target, Tuning
from winogen.records.tuning import PREFETCHING


class DirectFloat16(halves.OfHalves, Direct):
    """As direct convolution, in words of two channels."""

    name = "direct_float16"
    title = "Direct convolution, register-blocked, products of float16"
    uses = ("rows", "vectors", "band")
    tunable = (*uses, *PREFETCHING, "depth")
    buffers_used = {
        **Direct.buffers_used,
        "most": "the largest numbers of the images",
        "rows": "rows that become words",
        "wide": "sums of float16, widened",
    }

    def tuning(self, target: Target, precision: Precision) -> Tuning:
        return tuning.gemm(target, prefetch_streams=tuning.NEXT_BLOCK, depth=1024)

    def fields(self, work: Work) -> dict[str, Any]:
        return strip_pitches(*strip_size(work), work.stride[1], work.lanes, planar=False)

    def buffers(self, work: Work) -> dict[str, Buffer]:
        lanes, size, words = work.lanes, work.itemsize, halves.words(work)
        width = work.tuning.vectors * lanes
        planar = work.layout == "NCHW"
        # What is written together: as many panels as vectors have lanes, or one.
        together = work.tuning.rows * (lanes if planar else 1)
        once = self.depth(work) >= words
        wide = work.tuning.rows if once else work.block[0] * work.block[1]
        rows = 2 * lanes * work.stride[1] * (halves.ROW_SEGMENT + lanes) if planar else 0
        strip = blocks(words, lanes) * self.fields(work)["strip_plane"] + 2 * lanes
        return {
            "strip": Buffer(strip * size),
            "sum": Buffer(together * width * size),
            "tap": Buffer(work.taps * 8),
            "most": halves.largest_numbers(work),
            "rows": Buffer(rows * size),
            "wide": Buffer(2 * wide * width * size),
        }

    def packed_numbers(self, work: Work) -> int:
        return work.groups * work.padded_filters * work.taps * 2 * halves.words(work)

    def depth(self, work: Work) -> int:
        # In words of two terms.
        return int(work.lanes * max(1, work.tuning.depth // (2 * work.taps * work.lanes)))

    def schedule(self, work: Work) -> tuple[int, int]:
        return halves.schedule(work, int(work.items * self.shares(work)))

    def filled(self, work: Work) -> Demand:
        rows, cols = strip_size(work)
        words, packed = halves.words(work), self.packed_bytes(work)
        strip, channels = self.buffers(work)["strip"], round_up(words, work.lanes)
        filled = pixels_family.filled(work, packed, strip, channels)
        # Two vectors of numbers become one of words.
        return filled + Demand(turned=2 * turned(work, rows * cols, words))

    def product(self, work: Work) -> Product:
        rows, cols = work.block
        depth = halves.words(work) * work.taps
        panels = cost.register_blocks(work, cols)
        return Product(panels, depth, times=rows, ends=halves.ends(depth))

    def cycles(self, work: Work, machine: Machine) -> Cycles:
        costs, lanes = machine.costs, work.lanes
        filled, multiplied = cost.busiest(work, lanes * work.tuning.vectors)
        into, multiply, output = self.count(work)
        (rows, cols), words = work.block, halves.words(work)
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
        filling = filled * self._fill(work, machine, into) + halves.measured(work, machine)
        if work.layout == "NHWC":
            return pixels_family.stored_meanwhile(machine, filling, product + written, stores)
        return Cycles(filling, product, cost.roof(written, stores, costs.shows))

    def _fill(self, work: Work, machine: Machine, into: Demand) -> Any:
        """Cycles to fill the strip of a block with words."""
        vectors = into.bytes("strip", writes=True) // (work.lanes * work.itemsize)
        arrange, store = cost.arrange(work, machine.costs), machine.costs.store
        made = vectors * (2 * arrange + 3 * store)
        fetched = pixels_family.fetched(work, machine, into)
        return cost.roof(made, fetched, machine.costs.shows)
