"""Regions: a block of tiles is transformed whole, and multiplied position by position."""

from __future__ import annotations

from typing import Any

import numpy as np

from winogen.kernels import costs as cost
from winogen.kernels import tuning
from winogen.kernels.count import Demand, PanelProduct, Stages
from winogen.kernels.few_filters import fills_lanes
from winogen.kernels.geometry import gemm_filters
from winogen.kernels.pixels_family import NEAR_BYTES
from winogen.kernels.tiles_family import Tiled, multiplied, positions, product_cycles
from winogen.kernels.variant import Buffer, Cycles
from winogen.kernels.work import Work, blocks
from winogen.records import Machine, Precision, Target, Tuning
from winogen.records.tuning import PREFETCHING

_LEAST_CHANNELS = 4  # and filters; with less, vectors are mostly empty


class Regions(Tiled):
    """What mcmr and winograd1d have in common: all but which rows meet in a product."""

    spans_images = True
    shares_blocks = True
    widens_filters = True
    uses: tuple[str, ...] = ("rows", "vectors", "chains", "band")
    tunable: tuple[str, ...] = (*uses, *PREFETCHING, "depth", "non_temporal")
    buffers_used = {
        "v": "Transformed tiles.",
        "y": "Sums of a band of filters.",
        **Tiled.buffers_used,
        "tap": "Where the taps begin.",
    }
    fields_used = {
        "v_step": "From one position of v to the next.",
        "y_step": "From one position of y to the next.",
    }

    def suits(self, work: Work) -> bool:
        # Half of every vector would be empty, where the dot products of `direct` fill them.
        empty = 2 * work.filters <= work.lanes and not cost.leaves_half(work)
        return min(work.channels, work.filters) >= _LEAST_CHANNELS and not (
            empty and fills_lanes(work)
        )

    def fixed(self, work: Work) -> dict[str, int]:
        halves = {"halves": 1} if cost.leaves_half(work) else {}
        return halves | super().fixed(work)

    def tuning(self, target: Target, precision: Precision) -> Tuning:
        return tuning.regions(target, precision)

    def taps_of(self, work: Work) -> int:
        """Taps that the product sums over."""
        return 1

    def depth(self, work: Work) -> int:
        return self.summation(work.tuning, work.channels)["block"]

    def summation(self, tuning: Tuning, channels: int) -> dict[str, int]:
        # Longer chains round more: where few channels leave tiles large, they are half as long.
        few = channels <= tuning.many_channels
        return {"block": tuning.depth // (2 if few else 1), "chains": tuning.chains}

    def sizes_fit(self, work: Work, tuning: Tuning) -> bool:
        # Sums end with a chunk of channels, which is a vector.
        block = self.summation(tuning, work.channels)["block"]
        return super().sizes_fit(work, tuning) and block > 0 and block % work.lanes == 0

    def fields(self, work: Work) -> dict[str, Any]:
        lanes, images, cols = work.lanes, work.images, work.block[1]
        read = self.images_read(work)
        band = np.minimum(work.tuning.band * lanes, work.padded_filters)
        # One vector between positions keeps them off the same cache sets.
        return {
            "v_step": read * self.lines(work) * cols * work.padded_channels + lanes,
            "y_step": images * work.block[0] * cols * band + lanes,
        }

    def buffers(self, work: Work) -> dict[str, Buffer]:
        steps, size = self.fields(work), positions(work) * work.itemsize
        return {
            "v": Buffer(size * steps["v_step"], shared=work.split),
            "y": Buffer(size * steps["y_step"]),
            **self.transform_buffers(work),
            "tap": Buffer(self.taps_of(work) * (2 if work.deep else 1) * 8),
        }

    def packed_numbers(self, work: Work) -> int:
        return gemm_filters(work, positions(work), self.taps_of(work))

    def shares(self, work: Work) -> Any:
        return np.where(work.split, work.threads, 1)

    def schedule(self, work: Work) -> tuple[int, int]:
        # All transform, and when they have ended all multiply; then comes the next block.
        shares = int(self.shares(work))
        return (2 * int(work.items), shares) if shares > 1 else (1, int(work.items))

    def rows_of_products(self, work: Work) -> tuple[Any, Any]:
        """Rows of one product, and how many products a position has."""
        raise NotImplementedError(f"{self.name}: rows_of_products")

    def product(self, work: Work) -> PanelProduct:
        """Count the products of a block, one or some for each position of the tiles."""
        rows, times = self.rows_of_products(work)
        panels = cost.register_blocks(work, rows, cost.leaves_half(work))
        rounds = blocks(work.channels, self.depth(work))
        return PanelProduct(
            panels, work.channels * self.taps_of(work), rounds, times=positions(work) * times
        )

    def product_price(self, work: Work, machine: Machine, counted: PanelProduct) -> Any:
        """Cycles of the products of a block."""
        return cost.product(work, machine, counted)

    def rounding(self, work: Work) -> Demand:
        """Count what is done to transformed tiles before they are multiplied."""
        return Demand()

    def count(self, work: Work) -> Stages:
        into, taps = self.tiles_transformed(work), self.taps_of(work)
        multiply = multiplied(
            self,
            work,
            self.product(work),
            into,
            rows=self.rows_of_products(work)[0],
            depth=work.channels * taps,
            taps=taps,
            bands=blocks(blocks(work.filters, work.lanes), work.tuning.band),
        )
        return into + self.rounding(work), multiply, self.outputs_gathered(work, "Y")

    def cycles(self, work: Work, machine: Machine) -> Cycles:
        into, multiply, output = self.count(work)
        alone = machine.costs.barrier == np.inf
        transforming, multiplying = self._busiest(work, alone)
        v_bytes, filters = into.bytes("V", writes=True), multiply.bytes("U")
        band = min(blocks(work.filters, work.lanes), work.tuning.band)
        bands = blocks(blocks(work.filters, work.lanes), work.tuning.band)
        y_bytes = multiply.bytes("Y", writes=True) // blocks(work.filters, work.lanes) * band
        spilled = self.spilled(work, machine, filters, v_bytes, y_bytes)
        v_read, y_read = (
            part * n / machine.l3_rate for part, n in zip(spilled, (v_bytes, y_bytes))
        )
        input_ = transforming * self.input_cycles(work, machine, into, 2 * v_read)
        product = product_cycles(
            work, machine, self.product_price(work, machine, multiply.product), filters,
            bands * (v_read + 2 * y_read) + read_from_l2(machine, multiply), v_bytes + y_bytes,
        )  # fmt: skip
        # Threads that share a block wait for each other, and read what the others have transformed.
        foreign = v_bytes * (1 - 1 / work.threads) / machine.l3_rate
        each = 0 if alone else foreign + 2 * machine.costs.barrier
        waits = work.items * work.split * each
        output_ = multiplying * self.output_cycles(work, machine, output, bands * y_read)
        return Cycles(input_, multiplying * product + waits, output_)

    def spilled(
        self, work: Work, machine: Machine, filters: Any, v_bytes: Any, y_bytes: Any
    ) -> tuple[Any, Any]:
        """The parts of tiles and of sums that do not stay in L2 until they are read.

        Tiles of a position wait until all are written and the positions before are multiplied, and
        sums until the positions behind are: the first tiles stay, and the last sums. What is
        written elsewhere is read first.
        """
        room, passing = machine.l2_room, filters + y_bytes
        v_part = np.clip((v_bytes + passing - room) / passing, 0, 1)
        return v_part, np.maximum(0, 1 - room / (v_bytes + passing))

    def filled(self, work: Work) -> Any:
        """The share of an image's tiles in the tiles of its blocks, where blocks are whole."""
        return 1

    def _busiest(self, work: Work, alone: bool) -> tuple[Any, Any]:
        """Blocks that the busiest thread transforms and multiplies: with split, a share of each.

        ``alone``: it transforms all of a block that it multiplies a share of.
        """
        whole, threads = blocks(work.items, work.threads), work.threads
        channels, filters = blocks(work.channels, work.lanes), blocks(work.filters, work.lanes)
        width = work.tuning.vectors  # of a block of filters, which stays whole
        most = np.minimum(filters, width * blocks(blocks(filters, width), threads))
        shares = work.items * blocks(channels, threads) / channels, work.items * most / filters
        if alone:  # its pieces lie side by side, in a block or two where there are few
            few, many = np.minimum(work.items, threads), np.maximum(work.items, threads)
            shares = np.minimum(work.items, whole + (many % few > 0)), shares[1]
        # A thread that has some of the blocks may have none of the smaller ones, at the edges.
        filled = self.filled(work)
        whole = whole * (filled if threads == 1 else 1)
        transformed, multiplied = (np.where(work.split, share * filled, whole) for share in shares)
        return transformed, multiplied


def read_from_l2(machine: Machine, multiply: Demand) -> Any:
    """Cycles in which panels of tiles read filters again that have no room in L1."""
    again = next(move for move in multiply.moves if move.what == "U again")
    return again.bytes / machine.l2_rate if again.size > NEAR_BYTES else 0
