"""1x1 convolution in NCHW: planes are read and written where they lie."""

from __future__ import annotations

from typing import Any

import numpy as np

from winogen.kernels import costs as cost
from winogen.kernels import pixels_family
from winogen.kernels.count import Demand, Move, PanelProduct, Stages, panels
from winogen.kernels.pixels_family import NEAR_BYTES
from winogen.kernels.variant import Buffer, Cycles, Variant
from winogen.kernels.work import Work, blocks, round_up
from winogen.records import Machine, Precision, Target, Tuning

# A twentieth of the lanes may be idle: maps of a few pixels are better off with filters there.
_LEAST_FILLED = 0.95


class Planes(Variant):
    """All pixels form one row, whose vectors meet every filter."""

    name = "planes"
    algorithm = "direct"
    template = "planes.c.j2"
    widens_arrays = False  # they are read where they lie
    title = "1x1 convolution where the planes lie, pixels in the lanes"
    in_lanes = "pixels"
    read_by_panels = "input again"  # as the moves of a block are called
    uses = ("rows", "vectors")
    tunable = (*uses, "depth")
    buffers_used = {"edge": "The last pixels of each plane.", "sum": "Sums that wait for others."}

    def applies(self, work: Work) -> bool:
        cols = work.out[1]
        filled = cols >= _LEAST_FILLED * round_up(cols, work.lanes)
        in_row = work.pointwise and work.size[0] == 1
        return work.layout == "NCHW" and in_row and filled and work.filters > work.lanes // 2

    def tuning(self, target: Target, precision: Precision) -> Tuning:
        wide = target.registers >= 32 and target.vector_bytes >= 64
        return Tuning("measured on AMD EPYC (Zen 4), 2026-11", rows=8 if wide else 4, vectors=3)

    def buffers(self, work: Work) -> dict[str, Buffer]:
        lanes, size = work.lanes, work.itemsize
        return {
            "edge": Buffer(work.channels * lanes * size),
            "sum": Buffer(work.tuning.rows * work.tuning.vectors * lanes * size),
        }

    def packed_numbers(self, work: Work) -> int:
        return work.groups * round_up(work.filters, work.tuning.rows) * work.channels

    def shares(self, work: Work) -> Any:
        return cost.shared_filters(work, work.tuning.rows)

    def count(self, work: Work) -> Stages:
        moves = pixels_family.moved(work, self.packed_bytes(work), {})
        panels_of_filters = blocks(work.filters, work.tuning.rows)
        if panels_of_filters > 1:  # each of them goes through all pixels of the block
            size = work.block[0] * work.block[1] * work.channels * work.itemsize
            again = Move(self.read_by_panels, (panels_of_filters - 1) * size, size, private=True)
            moves = (*moves, again)
        product = self.product(work)
        return Demand(), product.demand(pixels_family.multiplications(work), moves), Demand()

    def product(self, work: Work) -> PanelProduct:
        """Count the product of a block."""
        tuning, vectors = work.tuning, blocks(work.block[0] * work.block[1], work.lanes)
        register_blocks = panels(work.filters, tuning.rows, vectors, tuning.vectors)
        terms = work.channels * work.taps
        return PanelProduct(register_blocks, terms, blocks(terms, self.depth(work)))

    def cycles(self, work: Work, machine: Machine) -> Cycles:
        filled, multiplied = cost.busiest(work, work.tuning.rows)
        into, counted, _ = self.count(work)
        brought = self.brought(work, machine, into, counted)
        arithmetic = cost.roof(
            cost.product(work, machine, counted.product),
            self.read_again(machine, counted),
            machine.costs.shows,
        )
        product = multiplied * pixels_family.multiply(work, machine, counted, arithmetic)
        stores = multiplied * pixels_family.block_written(work, machine, counted, False)
        # Lines of many planes are open at once: about as much as a transposition, and measured so.
        pixels = work.block[0] * work.block[1]
        apart = cost.arrange(work, machine.costs) * pixels * blocks(work.filters, work.lanes)
        output = cost.roof(multiplied * apart, stores, machine.costs.shows)
        return Cycles(filled * brought, product, output)

    def brought(self, work: Work, machine: Machine, into: Demand, counted: Demand) -> Any:
        """Cycles to bring the pixels of a block to where they are multiplied."""
        return pixels_family.fetched(work, machine, counted)

    def read_again(self, machine: Machine, counted: Demand) -> Any:
        """Cycles in which panels of filters read the pixels of a block, unless these stay in L1."""
        read = (move for move in counted.moves if move.what == self.read_by_panels)
        return sum(
            np.where(move.size <= NEAR_BYTES, 0, move.bytes / machine.read_rate(move.size))
            for move in read
        )
