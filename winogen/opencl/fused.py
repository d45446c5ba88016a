"""Winograd convolution of few channels in one kernel, without memory between its steps.

A work-group transforms all channels of some tiles to memory that it shares. Then each item computes
sums of one tile and filter, column by column of the tile, and transforms them.
"""

from __future__ import annotations

from winogen.codegen.devices.expressions import (
    Expr,
    FunctionCall,
    Id,
    Lane,
    Load,
    Name,
    Number,
    splat,
)
from winogen.codegen.devices.statements import (
    Assign,
    Barrier,
    Declare,
    DeviceArray,
    DeviceKernel,
    ForLoop,
    If,
    Let,
    Shared,
    Statement,
    Store,
)
from winogen.opencl.tiles import index
from winogen.opencl.transforming import Gather, Scatter, group_id, loop

NAME = "convolve_tiles"


def convolve_tiles(
    gather: Gather, scatter: Scatter, packed: DeviceArray, at_once: int, items: int
) -> DeviceKernel:
    """Return the kernel, whose groups have ``items`` items and ``at_once`` tiles.

    ``packed``: (positions, groups, channels, filters).
    """
    tiles = gather.tiles
    planar = tiles.problem.layer.planar
    positions, groups, channels, filters = packed.shape
    group, item = group_id(groups), Id("local", 0)
    first = Id("group", 0) * at_once
    # The neighbours of a task are the neighbours in memory.
    s, tile = Name("s"), first + Name("s")
    a, b, c = Name("a"), Name("b"), Name("c")
    width = tiles.width.products
    shared = (positions, channels, at_once)
    pixels = channels // gather.lanes
    task = Name("task")
    if planar:
        place = Let("s", task % at_once), Let("channel", task // at_once)
    else:
        place = Let("s", task // pixels), Let("channel", task % pixels * gather.lanes)
    channel, filter = Name("channel"), Name("filter")
    numbers = Declare("numbers", (width,), gather.lanes)
    stored = [
        Store("transformed", index(shared, a * width + b, channel + k, s), one)
        for k, one in enumerate(_lanes(numbers[b], gather.lanes))
    ]
    transform: list[Statement] = [
        *place,
        *gather.columns(tile, group * channels + channel, tile < tiles.count),
        loop("a", tiles.height.products, *gather.row(a), loop("b", width, *stored)),
    ]
    lanes = scatter.lanes
    vectors = filters // lanes
    if planar:
        place = Let("s", task % at_once), Let("filter", task // at_once)
    else:
        place = Let("s", task // vectors), Let("filter", task % vectors * lanes)
    sums = Declare("sum", (tiles.height.products,), lanes)
    rows = range(tiles.height.products)

    def added(row: int) -> Assign:
        position = row * width + b
        factor = Load(packed.name, index(packed.shape, position, group, c, filter), lanes, True)
        number = splat(Load("transformed", index(shared, position, c, s)), lanes)
        return Assign(sums[row], FunctionCall("fma", (number, factor, sums[row])))

    summed: list[Statement] = [
        *(Assign(sums[row], splat(0, lanes)) for row in rows),
        ForLoop("c", Number(0), Number(channels), Number(1), tuple(map(added, rows))),
    ]
    finish: list[Statement] = [
        scatter.columns,
        loop("b", width, *scatter.column(b, summed), unroll=False),
        *scatter.rows(tile, group * filters + filter),
    ]
    if tiles.count % at_once:
        finish = [If(tile < tiles.count, tuple(finish))]
    blocks = -(-tiles.count // at_once)

    def share(count: int, body: list[Statement]) -> ForLoop:
        return ForLoop("task", item, Number(count), Number(items), tuple(body))

    return DeviceKernel(
        NAME,
        f"All of it for {at_once} tiles: transformed, multiplied, and transformed back.",
        (gather.input, packed, *scatter.finish.arrays),
        (scatter.output,),
        (blocks * items, 1, groups),
        (items, 1, 1),
        (
            share(at_once * pixels, transform),
            Barrier(),
            share(at_once * vectors, [*place, *finish]),
        ),
        (Shared("transformed", positions * channels * at_once),),
    )


def _lanes(value: Expr, lanes: int) -> list[Expr]:
    return [Lane(value, lane) for lane in range(lanes)] if lanes > 1 else [value]
