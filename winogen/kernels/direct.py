"""Direct convolution, filters in the lanes: the GEMM walks over the strip tap by tap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from winogen.kernels import costs as cost
from winogen.kernels import pixels_family, tuning
from winogen.kernels.count import Demand, Move, PanelProduct, Stages, of_buffer, turned
from winogen.kernels.geometry import (
    ROW_SEGMENT,
    STRIP_FIELDS,
    TAP_FIELDS,
    is_streamed,
    lines_of_channels,
    skips_columns,
    steps_of_columns,
    strip_pitches,
    strip_size,
    taps_inside,
)
from winogen.kernels.variant import Buffer, Cycles, Variant
from winogen.kernels.work import Work, blocks, round_up
from winogen.records import PRODUCT_FORMATS, Machine, Precision, Target, Tuning
from winogen.records.tuning import PREFETCHING


def in_words(precision: Precision) -> bool:
    """Whether what is multiplied comes in words of neighbouring channels."""
    return precision.format.together > 1


class Direct(Variant):
    """Register blocks of output pixels x filters; applies to every layer."""

    name = "direct"
    algorithm = "direct"
    template = "direct.c.j2"
    title = "Direct convolution, register-blocked, filters in the lanes"
    ranks: tuple[int, ...] = (1, 2, 3)
    phases: tuple[str, ...] = ("one", "all")
    adds_early = True
    widens_filters = True
    in_lanes = "filters"
    operand = "strip"  # the buffer that the product reads
    uses: tuple[str, ...] = ("rows", "vectors", "chains", "band")
    tunable: tuple[str, ...] = (*uses, *PREFETCHING, "depth", "non_temporal")
    buffers_used = {
        "strip": "Padded input below a block.",
        "sum": "Sums that wait for others.",
        "tap": "Where the taps begin.",
    }
    fields_used: Mapping[str, str] = {
        **STRIP_FIELDS,
        **TAP_FIELDS,
        "skips_columns": "Whether panels end where taps change.",
    }
    skips_padding = True
    formats: tuple[str, ...] = tuple(
        one.name for one in PRODUCT_FORMATS.values() if one.summing == "kept"
    )

    def buffer_names(self, border: str, precision: Precision) -> dict[str, str]:
        names = super().buffer_names(border, precision)
        return {**names, "rows": "Rows that become words."} if in_words(precision) else names

    def applies(self, work: Work) -> bool:
        return work.deep is None or not in_words(work.precision)

    def tuning(self, target: Target, precision: Precision) -> Tuning:
        return tuning.gemm(target, prefetch_streams=tuning.NEXT_BLOCK)

    def fields(self, work: Work) -> dict[str, Any]:
        skips = {"skips_columns": skips_columns(work)} if self.skips_padding else {}
        return self._pitches(work) | skips

    def _pitches(self, work: Work) -> dict[str, Any]:
        planar = work.layout == "NCHW" and not in_words(work.precision)
        return strip_pitches(*strip_size(work), work.stride[1], work.lanes, planar)

    def buffers(self, work: Work) -> dict[str, Buffer]:
        lanes, size = work.lanes, work.itemsize
        planar, words = work.layout == "NCHW", in_words(work.precision)
        planes = work.channels if planar and not words else blocks(work.terms, lanes)
        pixels = work.block[0] * work.block[1]
        # The channels of a vector of words, some columns at a time.
        rows = 2 * lanes * work.stride[1] * (ROW_SEGMENT + lanes) if planar else 0
        return {
            **({"rows": Buffer(rows * size)} if words else {}),
            # Whole vectors are read, up to two beyond what is needed.
            "strip": Buffer((planes * self._pitches(work)["strip_plane"] + 2 * lanes) * size),
            "sum": Buffer(pixels * work.tuning.vectors * lanes * size),
            "tap": Buffer(4 * work.taps * 8),
        }

    def unit(self, work: Work) -> tuple[Any, Any, Any]:
        # A register block, or a row of the outputs of a vector of filters.
        vectors = work.tuning.vectors if work.layout == "NHWC" else 1
        return 1, np.maximum(work.block[1], work.tuning.rows), vectors * work.lanes

    def packed_numbers(self, work: Work) -> int:
        together = work.precision.format.together
        return work.groups * work.padded_filters * work.filter_taps * together * work.terms

    def depth(self, work: Work) -> int:
        together = work.precision.format.together * work.taps * work.lanes
        return work.lanes * max(1, work.tuning.depth // together)

    def shares(self, work: Work) -> Any:
        return cost.shared_filters(work, work.lanes * work.tuning.vectors)

    def non_temporal(self, work: Work) -> bool:
        dense = work.layout == "NHWC" and lines_of_channels(work)
        return dense and is_streamed(work, self.adds_early)

    def count(self, work: Work) -> Stages:
        # Of the packed filters, those of taps that some output reads the image with.
        packed = self.packed_bytes(work) * work.taps // work.filter_taps
        into = self.filled(work)
        filters, *read, output = pixels_family.moved(work, packed, self.buffers(work))
        moves = (
            filters,
            pixels_family.read_again(work, packed),
            *read,
            *self.operand_read(work, into, blocks(work.filters, work.tuning.vectors * work.lanes)),
        )
        products = pixels_family.multiplications(work, taps=self.taps_read(work))
        multiply = self.product(work).demand(products, moves)
        if work.layout == "NHWC":
            return into, multiply + Demand(moves=(output,)), Demand()
        vectors = turned(work, work.block[0] * work.block[1], work.filters)
        return into, multiply, Demand(turned=vectors, moves=(output,))

    def operand_read(self, work: Work, into: Demand, times: int) -> tuple[Move, ...]:
        """Count how so many blocks of filters read what the stage ``into`` wrote for them."""
        size = into.bytes(self.operand, writes=True)
        return (of_buffer(self.operand, times * size, self.buffers(work)[self.operand]),)

    def taps_read(self, work: Work) -> float:
        taps = super().taps_read(work)
        if self.skips_padding and skips_columns(work):
            taps = taps / work.kernel[1] * taps_inside(work, 1)
        return taps

    def filled(self, work: Work) -> Demand:
        """Count how the inputs of a block come to where they are multiplied."""
        channels = work.channels if work.layout == "NCHW" else work.padded_channels
        words = in_words(work.precision)
        channels = round_up(work.terms, work.lanes) if words else channels
        strip = self.buffers(work)["strip"]
        filled = pixels_family.filled(work, self.packed_bytes(work), strip, channels)
        if not words:
            return filled
        # Two vectors of numbers become one of words.
        rows, cols = strip_size(work)
        return filled + Demand(turned=2 * turned(work, rows * cols, work.terms))

    def product(self, work: Work) -> PanelProduct:
        """Count the product of a block."""
        rows, cols = work.block
        rounds, form = blocks(work.terms, self.depth(work)), work.precision.format
        fused, slow = work.target.multiplying(form), dict(form.slow)
        more = (slow.get(work.target.core, 1) if fused else form.instructions) - 1
        panels = cost.register_blocks(work, cols)
        return PanelProduct(
            panels, work.terms * self.taps_read(work), rounds, times=rows, more=more
        )

    def cycles(self, work: Work, machine: Machine) -> Cycles:
        costs = machine.costs
        filled, multiplied = cost.busiest(work, work.lanes * work.tuning.vectors)
        into, multiply, output = self.count(work)
        input_ = self._fill(work, machine, into, multiply)
        arithmetic = cost.product(work, machine, multiply.product)
        if self.skips_padding and skips_columns(work) and (cols := taps_inside(work, 1)):
            # Thin panels take longer than their steps.
            arithmetic = arithmetic * max(1.0, steps_of_columns(work) * work.kernel[1] / cols)
        steps = cost.roof(arithmetic, pixels_family.again(machine, multiply), costs.shows)
        if work.layout == "NHWC":
            steps = steps + costs.run * multiply.product.rows
        product = multiplied * pixels_family.multiply(work, machine, multiply, steps)
        stores = multiplied * pixels_family.block_written(
            work, machine, multiply + output, self.non_temporal(work)
        )
        if work.layout == "NHWC":
            return pixels_family.stored_meanwhile(machine, filled * input_, product, stores)
        exchanged = multiplied * cost.arrange(work, costs) * output.turned
        return Cycles(filled * input_, product, cost.roof(exchanged, stores, costs.shows))

    def fixed(self, work: Work) -> dict[str, int]:
        return {"row_segment": ROW_SEGMENT} if in_words(work.precision) else {}

    def _fill(self, work: Work, machine: Machine, into: Demand, multiply: Demand) -> Any:
        """Cycles to bring the inputs of a block to where they are multiplied."""
        if not in_words(work.precision):
            return pixels_family.fill(work, machine, into)
        vectors = into.bytes("strip", writes=True) // (work.lanes * work.itemsize)
        made = vectors * (2 * cost.arrange(work, machine.costs) + 3 * machine.costs.store)
        fetched = pixels_family.fetched(work, machine, into)
        return cost.roof(made, fetched, machine.costs.shows)
