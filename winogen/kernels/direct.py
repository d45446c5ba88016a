"""Direct convolution, filters in the lanes: the GEMM walks over the strip tap by tap."""

from __future__ import annotations

from typing import Any

import numpy as np

from winogen.kernels import costs as cost
from winogen.kernels import pixels_family, tuning
from winogen.kernels.count import Demand, Product, Stages, of_buffer, turned
from winogen.kernels.geometry import (
    STRIP_FIELDS,
    gemm_filters,
    is_streamed,
    lines_of_channels,
    strip_pitches,
    strip_size,
)
from winogen.kernels.variant import Buffer, Cycles, Variant
from winogen.kernels.work import Work, blocks
from winogen.records import Machine, Precision, Target, Tuning
from winogen.records.tuning import PREFETCHING


class Direct(Variant):
    """Register blocks of output pixels x filters; applies to every layer."""

    name = "direct"
    algorithm = "direct"
    template = "direct.c.j2"
    title = "Direct convolution, register-blocked, filters in the lanes"
    adds_early = True
    widens_filters = True
    in_lanes = "filters"
    operand = "strip"  # the buffer that the product reads
    uses: tuple[str, ...] = ("rows", "vectors", "chains", "band")
    tunable: tuple[str, ...] = (*uses, *PREFETCHING, "depth", "non_temporal")
    buffers_used = {
        "strip": "padded input below a block",
        "sum": "sums that wait",
        "tap": "where the taps begin",
    }
    fields_used = STRIP_FIELDS

    def tuning(self, target: Target, precision: Precision) -> Tuning:
        return tuning.gemm(target, prefetch_streams=tuning.NEXT_BLOCK)

    def fields(self, work: Work) -> dict[str, Any]:
        planar = work.layout == "NCHW"
        return strip_pitches(*strip_size(work), work.stride[1], work.lanes, planar)

    def buffers(self, work: Work) -> dict[str, Buffer]:
        lanes, size = work.lanes, work.itemsize
        planes = work.channels if work.layout == "NCHW" else blocks(work.channels, lanes)
        pixels = work.block[0] * work.block[1]
        return {
            # Whole vectors are read, up to two beyond what is needed.
            "strip": Buffer((planes * self.fields(work)["strip_plane"] + 2 * lanes) * size),
            "sum": Buffer(pixels * work.tuning.vectors * lanes * size),
            "tap": Buffer(work.taps * 8),
        }

    def unit(self, work: Work) -> tuple[Any, Any, Any]:
        # A register block, or a row of the outputs of a vector of filters.
        vectors = work.tuning.vectors if work.layout == "NHWC" else 1
        return 1, np.maximum(work.block[1], work.tuning.rows), vectors * work.lanes

    def packed_numbers(self, work: Work) -> int:
        return gemm_filters(work, taps=work.taps)

    def depth(self, work: Work) -> int:
        return work.lanes * max(1, work.tuning.depth // (work.taps * work.lanes))

    def shares(self, work: Work) -> Any:
        return cost.shared_filters(work, work.lanes * work.tuning.vectors)

    def non_temporal(self, work: Work) -> bool:
        dense = work.layout == "NHWC" and lines_of_channels(work)
        return dense and is_streamed(work, self.adds_early)

    def count(self, work: Work) -> Stages:
        packed, buffers = self.packed_bytes(work), self.buffers(work)
        into = self.filled(work)
        operand = into.bytes(self.operand, writes=True)
        times = blocks(work.filters, work.tuning.vectors * work.lanes)
        filters, output = pixels_family.moved(work, packed, buffers)
        moves = (
            filters,
            pixels_family.read_again(work, packed),
            of_buffer(self.operand, times * operand, buffers[self.operand]),
        )
        multiply = self.product(work).demand(pixels_family.multiplications(work), moves)
        if work.layout == "NHWC":
            return into, multiply + Demand(moves=(output,)), Demand()
        vectors = turned(work, work.block[0] * work.block[1], work.filters)
        return into, multiply, Demand(turned=vectors, moves=(output,))

    def filled(self, work: Work) -> Demand:
        """Count how the inputs of a block come to where they are multiplied."""
        channels = work.channels if work.layout == "NCHW" else work.padded_channels
        strip = self.buffers(work)["strip"]
        return pixels_family.filled(work, self.packed_bytes(work), strip, channels)

    def product(self, work: Work) -> Product:
        """Count the product of a block."""
        rows, cols = work.block
        rounds = blocks(work.channels, self.depth(work))
        panels = cost.register_blocks(work, cols)
        return Product(panels, work.channels * work.taps, rounds, times=rows)

    def cycles(self, work: Work, machine: Machine) -> Cycles:
        costs = machine.costs
        filled, multiplied = cost.busiest(work, work.lanes * work.tuning.vectors)
        into, multiply, output = self.count(work)
        input_ = pixels_family.fill(work, machine, into)
        arithmetic = cost.product(work, machine, multiply.product)
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
