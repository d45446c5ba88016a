"""Direct convolution with pixels in the lanes, whose products are of float16."""

from __future__ import annotations

from typing import Any

from winogen.kernels import costs as cost
from winogen.kernels import halves_family as halves
from winogen.kernels import pixels_family, tuning
from winogen.kernels.count import Demand, PanelProduct, input_read, of_buffer, panels
from winogen.kernels.geometry import ROW_SEGMENT, STRIP_FIELDS, strip_pitches, strip_size
from winogen.kernels.pixels import Pixels
from winogen.kernels.variant import Buffer, Cycles
from winogen.kernels.work import Work, blocks, even
from winogen.records import Machine, Precision, Target, Tuning

# Terms of a sum up to which filters in the lanes take longer: there every pixel has words of its
# own, and each block of sums is transposed.
_FEW_TERMS = 256
_FEW_CHANNELS = 4


class PixelsFloat16(halves.OfHalves, Pixels):
    """As with pixels in the lanes, twice as many of them; all channels at once."""

    name = "pixels_float16"
    fields_used = STRIP_FIELDS
    skips_padding = False
    template = "pixels_float16.c.j2"
    title = "Direct convolution, pixels in the lanes, products of float16"
    tunable = ("rows", "vectors")
    buffers_used = {
        **Pixels.buffers_used,
        "most": halves.BUFFERS["most"],
        "rows": "Rows before they are rounded.",
        "wide": halves.BUFFERS["wide"],
    }

    def applies(self, work: Work) -> bool:
        few_filters = work.filters <= work.lanes // 2
        few = work.channels <= _FEW_CHANNELS and work.channels * work.taps <= _FEW_TERMS
        return work.layout == "NCHW" and (few_filters or (few and work.taps > 1))

    def tuning(self, target: Target, precision: Precision) -> Tuning:
        return tuning.gemm(target)

    def fields(self, work: Work) -> dict[str, Any]:
        return strip_pitches(*strip_size(work), work.stride[1], 2 * work.lanes, planar=True)

    def buffers(self, work: Work) -> dict[str, Buffer]:
        lanes, size, sizes = work.lanes, work.itemsize, work.tuning
        # Whole vectors are read, up to two beyond what is needed.
        strip = work.channels * self.fields(work)["strip_plane"] + 4 * lanes
        wide = halves.wide_sums(work, sizes.rows)
        return {
            "strip": Buffer(strip * 2),
            "sum": wide,
            "tap": Buffer(work.taps * 8),
            "most": halves.largest_numbers(work),
            "rows": Buffer(work.stride[1] * (ROW_SEGMENT + lanes) * size),
            "wide": wide,
        }

    def packed_numbers(self, work: Work) -> int:
        return 2 * super().packed_numbers(work)  # each in both halves of a word

    def depth(self, work: Work) -> int:
        return work.channels

    def fixed(self, work: Work) -> dict[str, int]:
        return super().fixed(work) | {"row_segment": ROW_SEGMENT}

    def filled(self, work: Work) -> Demand:
        rows, cols = strip_size(work)
        numbers, buffers = rows * cols * work.channels, self.buffers(work)
        moves = (
            input_read(work, self.packed_bytes(work), (rows, cols)),
            of_buffer("rows", numbers * work.itemsize, buffers["rows"], writes=True),
            of_buffer("rows", numbers * work.itemsize, buffers["rows"]),
            of_buffer("strip", numbers * 2, buffers["strip"], writes=True),
        )
        return Demand(moves=moves)

    def product(self, work: Work) -> PanelProduct:
        (rows, cols), tuning = work.block, work.tuning
        vectors, depth = blocks(cols, 2 * work.lanes), work.channels * work.taps
        found = panels(work.filters, even(work.filters, tuning.rows), vectors, tuning.vectors)
        return PanelProduct(found, depth, times=rows, ends=halves.ends(depth))

    def cycles(self, work: Work, machine: Machine) -> Cycles:
        costs = machine.costs
        share, _ = cost.busiest(work)
        into, multiply, _ = self.count(work)
        arithmetic = halves.product_cycles(machine, multiply.product, costs.call_of_one)
        product = share * pixels_family.multiply(work, machine, multiply, arithmetic)
        stores = share * pixels_family.block_written(work, machine, multiply, False)
        fetched = pixels_family.fetched(work, machine, into)
        input_ = cost.roof(pixels_family.copied(machine, into), fetched, costs.shows)
        filled = share * input_ + halves.measured(work, machine)
        return Cycles(filled, cost.roof(product, stores, costs.shows), 0.0)
