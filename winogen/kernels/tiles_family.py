"""What Winograd variants share: the buffers, the counts and the price of transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from winogen.kernels import costs as cost
from winogen.kernels.count import (
    Demand,
    Move,
    PanelProduct,
    filters_read,
    input_read,
    of_buffer,
    output_written,
    turned,
)
from winogen.kernels.geometry import is_streamed, lines_of_channels, phases, tile_strip_size
from winogen.kernels.variant import Buffer, Variant
from winogen.kernels.work import Work, blocks, joint_products, round_up
from winogen.records import NUMBERS, Machine, Precision, Target
from winogen.records.machine import LINE

_POINTER = 8
TILES_AT_ONCE = 4  # side by side, whose columns are transformed before their rows: they stay in L1


def most_at_once(target: Target) -> int:
    """Return `TILES_AT_ONCE`, or more where all constants are held from the first tile to the last.

    Short loops spend instructions to begin; as many bytes of short vectors are more tiles.

    >>> from winogen.records import TARGETS
    >>> [most_at_once(TARGETS[name]) for name in ("avx512", "neon")]
    [4, 16]
    """
    return TILES_AT_ONCE * LINE // target.vector_bytes if target.lane_constants else TILES_AT_ONCE


class Tiled(Variant):
    """Pixels become vectors of channels, columns are transformed, then rows."""

    adds_early = True
    holds_constants = True
    along = (True, True)
    buffers_used = {
        "strip": "Pixels or outputs, in vectors.",
        "columns": "Transformed columns.",
        "offset": "Where each tile goes.",
    }

    def view(self, work: Work) -> Work:
        return phases(work)

    def fixed(self, work: Work) -> dict[str, int]:
        return {"dilated": 1} if work.phased else {}

    def buffer_names(self, border: str, precision: Precision) -> dict[str, str]:
        names = dict(self.buffers_used)
        return {**names, "pointer": "Where each pixel is."} if border == "indirect" else names

    def unit(self, work: Work) -> tuple[Any, Any, Any]:
        h, w = work.transforms
        if work.layout == "NHWC":
            return h.m, w.m, work.lanes
        return 1, work.block[1] * w.m, work.lanes

    def input_size(self, work: Work) -> tuple[Any, Any]:
        return tile_strip_size(work)

    def lines(self, work: Work) -> Any:
        """Rows of tiles of a block's input."""
        return work.block[0]

    def images_read(self, work: Work) -> Any:
        """Images, or planes of volumes, whose tiles a block transforms."""
        return work.images

    def tiles_at_once(self, work: Work) -> Any:
        """Tiles side by side whose columns are transformed before their rows."""
        return most_at_once(work.target)

    def transform_buffers(self, work: Work) -> dict[str, Buffer]:
        """Return the buffers of the input and output transform."""
        h, w = work.transforms
        (rows, cols), vector = self.input_size(work), work.lanes * work.itemsize
        outputs = h.m * work.block[1] * w.m
        together = (self.tiles_at_once(work) - 1) * w.step + w.n
        named = {
            "strip": Buffer(np.maximum(rows * cols, outputs) * vector),
            "columns": Buffer(h.rows * together * vector),
            "offset": Buffer(self.lines(work) * work.block[1] * 8),
        }
        if work.border == "indirect":
            named["pointer"] = Buffer(rows * cols * _POINTER)
        return named

    def non_temporal(self, work: Work) -> bool:
        dense = work.layout == "NHWC" and lines_of_channels(work)
        return dense and is_streamed(work, self.adds_early)

    def tiles_transformed(self, work: Work) -> Demand:
        """Count the input transform of a block, up to tiles V of the numbers it is made in."""
        (h, w), buffers, images = work.transforms, self.buffers(work), self.images_read(work)
        rows, cols = self.input_size(work)
        vectors = images * blocks(work.channels, work.lanes)
        columns, tiles = self.lines(work) * cols, self.lines(work) * work.block[1]
        across, vector = tiles * h.rows, vectors * work.lanes * work.itemsize
        strip: tuple[Move, ...] = ()
        if work.layout == "NCHW":
            strip = (
                of_buffer("strip", rows * cols * vector, buffers["strip"], writes=True),
                of_buffer("strip", columns * h.n * vector, buffers["strip"]),
            )
        places = tiles * positions(work)
        return Demand(
            instructions=vectors
            * (columns * h.instructions[0] + across * w.instructions[0] + tiles * joining(work)[0]),
            stored=vectors * (columns * h.rows + places),
            turned=turned(work, images * rows * cols, work.channels),
            moves=(
                input_read(work, self.packed_bytes(work), (rows, cols)),
                *strip,
                # Transformed columns on their way to the transform of rows never leave L1.
                Move("columns", columns * h.rows * vector, 0, writes=True, private=True),
                Move("columns", across * w.n * vector, 0, private=True),
                of_buffer("V", places * vector // together(work), buffers["v"], writes=True),
            ),
        )

    def outputs_gathered(self, work: Work, name: str) -> Demand:
        """Count the output transform of a block, which reads the buffer of this name."""
        (h, w), buffers = work.transforms, self.buffers(work)
        tiles = work.images * work.block[0] * work.block[1]
        vectors = tiles * blocks(work.filters, work.lanes)
        vector = vectors * work.lanes * work.itemsize
        columns, outputs = w.rows * h.m, h.m * w.m
        strip: tuple[Move, ...] = ()
        if work.layout == "NCHW":
            strip = (
                of_buffer("strip", outputs * vector, buffers["strip"], writes=True),
                of_buffer("strip", outputs * vector, buffers["strip"]),
            )
        return Demand(
            instructions=vectors
            * (w.rows * h.instructions[2] + h.m * w.instructions[2] + joining(work)[1]),
            stored=vectors * (columns + outputs),
            turned=turned(work, tiles * outputs, work.filters),
            moves=(
                of_buffer(name, positions(work) * vector, buffers[name.lower()]),
                output_written(work, self.packed_bytes(work)),
                *strip,
            ),
        )

    def input_cycles(
        self, work: Work, machine: Machine, counted: Demand, spilled: Any = 0.0
    ) -> Any:
        """Cycles of the input transform of a block.

        Tiles take ``spilled`` cycles to be written where they do not stay in L2.
        """
        fetched = counted.bytes("input") / machine.read_rate(work.input_bytes)
        arithmetic = transforms_cycles(work, machine, counted)
        return cost.roof(arithmetic, fetched + spilled, machine.costs.shows)

    def output_cycles(
        self, work: Work, machine: Machine, counted: Demand, spilled: Any = 0.0
    ) -> Any:
        """Cycles of the output transform of a block.

        Sums take ``spilled`` cycles to be read where they did not stay in L2.
        """
        size = counted.bytes("output", writes=True)
        stores = cost.written(work, machine, size, self.non_temporal(work))
        arithmetic = transforms_cycles(work, machine, counted)
        return cost.roof(arithmetic, stores + spilled, machine.costs.shows)


def transforms_cycles(work: Work, machine: Machine, counted: Demand) -> Any:
    """Cycles of transforms along both axes, and of transpositions."""
    costs = machine.costs
    transforms = cost.transform(costs, counted.instructions, counted.stored)
    return transforms + cost.arrange(work, costs) * counted.turned


def positions(work: Work) -> Any:
    """Products of one tile."""
    return joint_products(*work.transforms)


def joining(work: Work) -> tuple[Any, Any]:
    """Instructions of a tile between pairs and the factors of their products, into them and out."""
    h, w = work.transforms
    pairs_h, pairs_w = (h.rows - h.reals) // 2, (w.rows - w.reals) // 2
    once = h.reals * pairs_w + pairs_h * w.reals
    one_in, two_in, one_out, two_out = h.joins
    twice = pairs_h * pairs_w
    return once * one_in + twice * two_in, once * one_out + twice * two_out


def together(work: Work) -> int:
    """Numbers of transformed tiles in the place of one that they are computed in."""
    return work.itemsize // NUMBERS[work.precision.tiles].itemsize


def multiplied(
    variant: Tiled,
    work: Work,
    product: PanelProduct,
    into: Demand,
    *,
    rows: Any,
    depth: int,
    taps: int = 1,
    bands: int = 1,
    rounds: int = 1,
) -> Demand:
    """Count the product of a block whose transformed tiles V and sums Y are in memory.

    ``into``: the count of the transform that wrote V. ``rows``: tiles that meet the filters in one
    product, ``depth`` numbers deep. ``taps`` that a sum goes over; ``bands`` of filters, each
    reading all of V; ``rounds``: how often sums are added to the sums in memory.
    """
    buffers, tuning, number = variant.buffers(work), work.tuning, work.itemsize // together(work)
    tiles = work.images * work.block[0] * work.block[1]
    places = positions(work) * tiles
    # One product's tiles, and the filters of one register block, are read again from nearer by.
    width = tuning.vectors * work.lanes
    v_times = blocks(work.filters, width) * taps - bands
    v_again = max(0, v_times) * places * work.channels * number
    u = filters_read(work, variant.packed_bytes(work), (buffers["v"], buffers["y"]))
    u_again = (blocks(rows, tuning.rows) * (tiles // rows) - 1) * u.bytes
    sums = places * round_up(work.filters, work.lanes) * work.itemsize
    return product.demand(
        places * taps * work.channels * work.filters,
        (
            u,
            of_buffer("V", bands * into.bytes("V", writes=True), buffers["v"]),
            Move("V again", v_again, rows * depth * number, private=True),
            Move("U again", u_again, depth * width * number, private=True),
            of_buffer("Y", (rounds - 1) * sums, buffers["y"]),
            of_buffer("Y", rounds * sums, buffers["y"], writes=True),
        ),
    )


def product_cycles(
    work: Work, machine: Machine, arithmetic: Any, filters: Any, spilled: Any, kept: Any = 0
) -> Any:  # fmt: skip
    """Cycles of a block's product: filters are read once per block, and of ``kept`` bytes of
    transformed tiles and sums what does not stay in L2 takes ``spilled`` cycles.
    """
    traffic = cost.read_beside(machine, filters, work.items, kept) + spilled
    return cost.roof(arithmetic, traffic, machine.costs.shows)
