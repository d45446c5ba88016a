"""What the stages of Winograd kernels ask of the machine: see `winogen.kernels.demand`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from winogen.kernels.costs import leaves_half
from winogen.kernels.demand import (
    Demand,
    Move,
    Stages,
    filters_read,
    input_read,
    of_buffer,
    output_written,
    transposition,
)
from winogen.kernels.variant import Buffer
from winogen.kernels.work import Pair, Work, blocks
from winogen.loops.registers import loads_per_fma


class Product(NamedTuple):
    """How a kernel multiplies transformed tiles V with filters U to sums Y, all of them in memory.

    ``rows`` tiles meet ``columns`` filters in one register block's panel of U, ``depth`` numbers
    deep. A position has ``lines`` such products for each block of filters.
    """

    rows: int  # tiles of one product
    lines: int  # products of a position of a block
    depth: int  # channels (times taps) that meet at a time
    rounds: int = 1  # how often sums are added to those in memory
    bands: int = 1  # of filters, for each of which all of V is read
    halves: bool = False  # whether the last filters may get half a vector
    together: int = 1  # numbers of tiles in the place of one, that a multiply-add takes at once


def transformed(
    work: Work,
    packed: int,
    buffers: Mapping[str, Buffer],
    lines: int,
    extent: Pair,
    vectors: int,
    together: int = 1,
) -> Demand:
    """Return the demand of the input transform.

    ``lines``: rows of tiles of a block's input; ``extent``: rows and columns of that input;
    ``together``: numbers of V in the place of one.
    """
    h, w = work.transforms
    tiles_h, tiles_w = grid_of_tiles(work)
    own = work.block[0] * h.m, work.block[1] * w.m
    rows, cols = (
        tiles * t.m + cuts * (whole - step)
        for tiles, t, cuts, whole, step in zip(
            (tiles_h, tiles_w), work.transforms, work.grid, extent, own
        )
    )
    lines = tiles_h + work.grid[0] * (lines - work.block[0])
    maps = work.batch * work.groups
    columns = lines * cols * h.instructions[0]
    across = lines * tiles_w * h.products * w.instructions[0]
    instructions = maps * vectors * (columns + across)
    instructions += transposition(work, maps * rows * cols, work.channels)
    vector = maps * vectors * work.lanes * work.itemsize  # of all maps and channels
    strip: tuple[Move, ...] = ()
    if work.layout == "NCHW":
        strip = (
            of_buffer("strip", rows * cols * vector, buffers["strip"], writes=True),
            of_buffer("strip", lines * cols * h.n * vector, buffers["strip"]),
        )
    moves = (
        input_read(work, packed, extent, own),
        *strip,
        *_through_columns(lines * cols * vector, lines * tiles_w * vector, work.transforms),
        of_buffer(
            "V",
            lines * tiles_w * h.products * w.products * vector // together,
            buffers["v"],
            writes=True,
        ),
    )
    return Demand(instructions=instructions, moves=moves)


def _through_columns(columns: int, tiles: int, transforms: tuple[Any, Any]) -> tuple[Move, Move]:
    """Transformed columns on their way to the transform of rows: they never leave L1.

    ``columns``, ``tiles``: bytes of a vector for each of them.
    """
    h, w = transforms
    return (
        Move("columns", columns * h.products, 0, writes=True, private=True),
        Move("columns", tiles * h.products * w.n, 0, private=True),
    )


def gathered(
    work: Work, packed: int, name: str, sums: Buffer, strip: Buffer, vectors: int
) -> Demand:
    """Return the demand of the output transform, which reads ``sums`` and writes outputs."""
    (h, w), (tiles_h, tiles_w) = work.transforms, grid_of_tiles(work)
    tiles = work.batch * work.groups * tiles_h * tiles_w
    columns, across = w.products * h.instructions[2], h.m * w.instructions[2]
    instructions = tiles * vectors * (columns + across)
    instructions += transposition(work, tiles * h.m * w.m, work.filters)
    vector = tiles * vectors * work.lanes * work.itemsize
    moves = [of_buffer(name, vector * h.products * w.products, sums), output_written(work, packed)]
    if work.layout == "NCHW":
        size = vector * h.m * w.m
        moves += (of_buffer("strip", size, strip, writes=True), of_buffer("strip", size, strip))
    return Demand(instructions=instructions, moves=tuple(moves))


def with_tiles(
    work: Work,
    packed: int,
    buffers: Mapping[str, Buffer],
    product: Product,
    *,
    taps: int,
    lines: int,
    extent: Pair,
) -> Stages:
    """Return the demands of a kernel that keeps transformed tiles and their sums in memory.

    ``packed``: bytes of the filters; ``taps`` that a product sums over; ``lines`` and ``extent`` as
    for `transformed`.
    """
    h, w = work.transforms
    size, lanes, tuning = work.itemsize, work.lanes, work.tuning
    tiles_h, tiles_w = grid_of_tiles(work)
    places = work.batch * work.groups * h.products * w.products * tiles_h * tiles_w
    vectors = blocks(work.filters, lanes)
    into = transformed(
        work, packed, buffers, lines, extent, blocks(work.channels, lanes), product.together
    )
    # Per number of V, or word of them: a multiply-add for each vector of filters.
    filled = vectors - (0.5 if product.halves and leaves_half(work) else 0)
    steps = places * taps * work.channels * filled / product.together
    panels = blocks(product.rows, tuning.rows)
    width = min(tuning.vectors, vectors)
    loads = steps * loads_per_fma(blocks(product.rows, panels), width)
    columns = tuning.vectors * lanes
    v_moved = next(move.bytes for move in into.moves if move.what == "V")
    # One product's tiles, and the filters of one register block, are read again from nearer by.
    v_times = blocks(work.filters, columns) * taps - product.bands
    number = size // product.together
    v_near = product.rows * product.depth * number
    u_near = product.depth * columns * number
    u = filters_read(work, packed, (buffers["v"], buffers["y"]))
    y_moved = places * vectors * lanes * size
    moves = [
        u,
        of_buffer("V", product.bands * v_moved, buffers["v"]),
        Move("V again", max(0, v_times) * places * work.channels * number, v_near, private=True),
        Move("U again", (panels * product.lines - 1) * u.bytes, u_near, private=True),
        of_buffer("Y", (product.rounds - 1) * y_moved, buffers["y"]),
        of_buffer("Y", product.rounds * y_moved, buffers["y"], writes=True),
    ]
    products = places * taps * work.channels * work.filters
    multiply = Demand(products, steps, 0.0, loads, tuple(move for move in moves if move.bytes))
    return into, multiply, gathered(work, packed, "Y", buffers["y"], buffers["strip"], vectors)


def per_channel(work: Work, packed: int, buffers: Mapping[str, Buffer], extent: Pair) -> Stages:
    """Return the demands of a depthwise layer, whose tiles are multiplied where they lie."""
    vectors = blocks(work.channels, work.lanes)
    into = transformed(work, packed, buffers, work.block[0], extent, vectors)
    output = gathered(work, packed, "V", buffers["v"], buffers["strip"], vectors)
    read = output.moves[0]
    h, w = work.transforms
    tiles_h, tiles_w = grid_of_tiles(work)
    tiles = work.batch * tiles_h * tiles_w * h.products * w.products
    written = of_buffer("V", read.bytes, buffers["v"], writes=True)
    moves = filters_read(work, packed, (buffers["v"],)), read, written
    multiply = Demand(tiles * work.channels, tiles * vectors, moves=moves)
    return into, multiply, output


def in_registers(
    work: Work, packed: int, buffers: Mapping[str, Buffer], extent: Pair, *, block: Pair,
    tiles_in_lanes: bool,
) -> Stages:  # fmt: skip
    """Return the demands of a kernel of few channels, whose products are never stored.

    ``block``: tiles (or vectors of them) and filters (or vectors of them) in the registers. The
    output transform is part of the multiplication.
    """
    (h, w), (rows, cols), lanes = work.transforms, work.block, work.lanes
    tiles_h, tiles_w = grid_of_tiles(work)
    maps, places = work.batch * work.groups, h.products * w.products
    groups = maps * tiles_h * int(work.grid[1]) * blocks(cols, lanes)
    into = w.n * h.instructions[0] + h.products * w.instructions[0]
    v_bytes = groups * lanes * places * work.channels * work.itemsize
    own = rows * h.m, cols * w.m
    input_ = Demand(
        instructions=groups * work.channels * into,
        moves=(
            input_read(work, packed, extent, own),
            of_buffer("V", v_bytes, buffers["v"], writes=True),
        ),
    )
    if tiles_in_lanes:
        vectors, times = groups * work.filters, blocks(work.filters, block[1])
    else:
        filled = blocks(work.filters, lanes)
        vectors, times = maps * tiles_h * tiles_w * filled, blocks(filled, block[1])
    steps = vectors * places * work.channels
    after = w.products * h.instructions[2] + h.m * w.instructions[2]
    u = filters_read(work, packed, (buffers["v"],))
    moves = (
        u,
        Move("U again", u.bytes * (rows - 1), packed, private=True),
        Move("V", times * v_bytes, v_bytes // max(1, maps * tiles_h), private=True),
        output_written(work, packed),
    )
    products = maps * tiles_h * tiles_w * places * work.channels * work.filters
    multiply = Demand(
        products,
        steps,
        vectors * after,
        steps * loads_per_fma(*block),
        tuple(move for move in moves if move.bytes),
    )
    return input_, multiply, Demand()


def grid_of_tiles(work: Work) -> Pair:
    """Rows and columns of tiles of an image."""
    high, wide = (blocks(size, t.m) for size, t in zip(work.out, work.transforms))
    return high, wide
