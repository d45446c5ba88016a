"""Direct convolution, pixels in the lanes: for groups of few filters and for few channels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from winogen.kernels import costs as cost
from winogen.kernels import pixels_family, tuning
from winogen.kernels.count import Demand, PanelProduct, Stages, of_buffer, panels
from winogen.kernels.geometry import STRIP_FIELDS, TAP_FIELDS, strip_pitches, strip_size
from winogen.kernels.variant import Buffer, Cycles, Variant, named
from winogen.kernels.work import Work, blocks, even, round_up
from winogen.records import Machine, Precision, Target, Tuning

# Terms of a sum up to which filters in the lanes take longer: each block of sums is transposed.
_FEW_TERMS = 64


class Pixels(Variant):
    """Rows of planes are written as they are computed."""

    name = "pixels"
    algorithm = "direct"
    template = "pixels.c.j2"
    title = "Direct convolution of few filters or channels, pixels in the lanes"
    in_lanes = "pixels"
    uses = ("rows", "vectors")
    tunable: tuple[str, ...] = (*uses, "depth")
    buffers_used = {
        "strip": "Padded input below a block.",
        "sum": "Sums that wait for others.",
        "tap": "Where the taps begin.",
    }
    fields_used: Mapping[str, str] = {**STRIP_FIELDS, **TAP_FIELDS}
    skips_padding = True

    def applies(self, work: Work) -> bool:
        few_filters = work.filters <= work.lanes // 2
        few_terms = work.taps > 1 and work.channels * work.taps <= _FEW_TERMS
        # What `planes` computes where arrays hold other numbers than are computed with.
        widened = work.precision.narrow and named("planes").applies(work)
        return work.layout == "NCHW" and (few_filters or few_terms or widened)

    def tuning(self, target: Target, precision: Precision) -> Tuning:
        return tuning.gemm(target)

    def fields(self, work: Work) -> dict[str, Any]:
        return strip_pitches(*strip_size(work), work.stride[1], work.lanes, planar=True)

    def buffers(self, work: Work) -> dict[str, Buffer]:
        lanes, size, (rows, cols) = work.lanes, work.itemsize, work.block
        # Whole vectors are read, up to two beyond what is needed.
        strip = work.channels * self.fields(work)["strip_plane"] + 2 * lanes
        return {
            "strip": Buffer(strip * size),
            "sum": Buffer(rows * work.tuning.rows * round_up(cols, lanes) * size),
            "tap": Buffer(2 * work.taps * 8),
        }

    def unit(self, work: Work) -> tuple[Any, Any, Any]:
        return 1, work.block[1], work.tuning.rows

    def packed_numbers(self, work: Work) -> int:
        return work.groups * work.filters * work.filter_taps * work.channels

    def depth(self, work: Work) -> int:
        return max(1, work.tuning.depth // work.taps)

    def count(self, work: Work) -> Stages:
        packed, buffers = self.packed_bytes(work), self.buffers(work)
        into = self.filled(work)
        times = blocks(work.filters, even(work.filters, work.tuning.rows))
        read = of_buffer("strip", times * into.bytes("strip", writes=True), buffers["strip"])
        moves = (*pixels_family.moved(work, packed, buffers), read)
        product = self.product(work)
        return (
            into,
            product.demand(pixels_family.multiplications(work, taps=self.taps_read(work)), moves),
            Demand(),
        )

    def filled(self, work: Work) -> Demand:
        """Count how the inputs of a block come to where they are multiplied."""
        strip = self.buffers(work)["strip"]
        return pixels_family.filled(work, self.packed_bytes(work), strip, work.channels)

    def product(self, work: Work) -> PanelProduct:
        """Count the product of a block."""
        (rows, cols), tuning = work.block, work.tuning
        vectors = blocks(cols, work.lanes)
        register_blocks = panels(
            work.filters, even(work.filters, tuning.rows), vectors, tuning.vectors
        )
        rounds = blocks(work.channels, self.depth(work))
        return PanelProduct(
            register_blocks, work.channels * self.taps_read(work), rounds, times=rows
        )

    def cycles(self, work: Work, machine: Machine) -> Cycles:
        share, _ = cost.busiest(work)
        into, multiply, _ = self.count(work)
        arithmetic = cost.product(work, machine, multiply.product)
        product = share * pixels_family.multiply(work, machine, multiply, arithmetic)
        stores = share * pixels_family.block_written(work, machine, multiply, False)
        input_ = share * pixels_family.fill(work, machine, into)
        return pixels_family.stored_meanwhile(machine, input_, product, stores)
