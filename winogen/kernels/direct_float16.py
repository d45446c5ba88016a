"""Direct convolution whose products are of float16."""

from __future__ import annotations

from winogen.kernels import costs as cost
from winogen.kernels import halves_family as halves
from winogen.kernels import pixels_family, tuning
from winogen.kernels.direct import Direct
from winogen.kernels.variant import Buffer, Cycles
from winogen.kernels.work import Work, blocks
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

    def applies(self, work: Work) -> bool:
        return halves.EXTENSION in work.target.extensions

    def fixed(self, work: Work) -> dict[str, int]:
        return halves.FIXED

    def tuning(self, target: Target, precision: Precision) -> Tuning:
        return tuning.gemm(target, prefetch_streams=tuning.NEXT_BLOCK, depth=1024)

    def buffers(self, work: Work) -> dict[str, Buffer]:
        lanes, size, words = work.lanes, work.itemsize, halves.words(work)
        pitches = self.fields(work)
        planes = words if work.layout == "NCHW" else blocks(words, lanes)
        pixels = work.block[0] * work.block[1]
        width = work.tuning.vectors * lanes
        rows = 2 * (pitches["strip_row"] + lanes) if work.layout == "NCHW" else 0
        at_once = work.tuning.rows if self.depth(work) >= words else pixels
        return {
            **super().buffers(work),
            "most": halves.largest_numbers(work),
            "strip": Buffer((planes * pitches["strip_plane"] + 2 * lanes) * size),
            "rows": Buffer(rows * size),
            "sum": Buffer(pixels * width * size),
            "wide": Buffer(2 * at_once * width * size),
        }

    def packed_numbers(self, work: Work) -> int:
        return work.groups * work.padded_filters * work.taps * 2 * halves.words(work)

    def depth(self, work: Work) -> int:
        # In words of two terms.
        return int(work.lanes * max(1, work.tuning.depth // (2 * work.taps * work.lanes)))

    def schedule(self, work: Work) -> tuple[int, int]:
        parts = int(work.items * self.shares(work))
        return 2, max(parts, work.batch * halves.BANDS)

    def cycles(self, work: Work, machine: Machine) -> Cycles:
        costs, lanes = machine.costs, work.lanes
        filled, multiplied = cost.busiest(work, lanes * work.tuning.vectors)
        channels = work.channels if work.layout == "NCHW" else work.padded_channels
        input_, _ = pixels_family.fill(work, machine, channels, self.copies_of(work))
        rows, cols = work.block
        arithmetic = rows * halves.product(work, costs, cols, work.taps)
        steps = cost.roof(arithmetic, pixels_family.panels(work, machine), costs.shows)
        product = multiplied * pixels_family.multiply(work, machine, steps)
        stores = multiplied * pixels_family.block_written(work, machine, self.non_temporal(work))
        vectors = rows * cols * blocks(work.filters, lanes)
        turned = multiplied * (cost.arrange(work, costs) + costs.store) * vectors
        output = cost.roof(turned, stores, costs.shows)
        return Cycles(filled * input_ + halves.measured(work, machine), product, output)
