"""Tiles transformed on a device: pixels to numbers of tiles, sums to outputs.

A work-item transforms one tile, first its columns and then its rows. In NHWC its lanes are
neighbouring channels or filters. In NCHW neighbouring work-items have neighbouring tiles, and so
may its lanes.
"""

from __future__ import annotations

from dataclasses import dataclass

from winogen.codegen.devices.expressions import (
    Expr,
    Id,
    Lane,
    Load,
    Name,
    Number,
    Vector,
    splat,
)
from winogen.codegen.devices.statements import (
    Assign,
    Declare,
    DeviceArray,
    DeviceKernel,
    DeviceRoutine,
    ForLoop,
    If,
    Let,
    Statement,
    Store,
    TransformCall,
)
from winogen.codegen.transform import Transform as Algorithm
from winogen.kernels.work import round_up
from winogen.opencl.epilogue import DeviceEpilogue
from winogen.opencl.indices import Bounds
from winogen.opencl.maps import ReadPlace
from winogen.opencl.stores import output_view
from winogen.opencl.tiles import TileGrid, both, index


def call_of(algorithm: Algorithm, kind: str, lanes: int) -> str:
    """The name of a transform of an algorithm, of vectors of so many lanes."""
    return f"{algorithm.name}_{kind}" + (f"_{lanes}" if lanes > 1 else "")


def routine(algorithm: Algorithm, kind: str, lanes: int) -> DeviceRoutine:
    """A transform of an algorithm that kernels call: "input" or "output"."""
    return DeviceRoutine(call_of(algorithm, kind, lanes), algorithm.programs[kind], lanes)


def loop(name: str, count: int, *body: Statement, unroll: bool = True) -> ForLoop:
    """A loop over 0, 1, ... of a count that is small."""
    return ForLoop(name, Number(0), Number(count), Number(1), body, unroll)


def spread(items: int, first: int, second: int) -> tuple[int, int]:
    """Return a work-group of up to so many items, as long along the first axis as that is.

    >>> spread(64, 3, 1000), spread(64, 500, 2)
    ((4, 16), (64, 1))
    """
    along = 1
    while along < min(items, first):
        along *= 2
    across = 1
    while across < second and 2 * along * across <= items:
        across *= 2
    return along, across


def launched(
    body: list[Statement], items: int, first: tuple[Expr, int], second: tuple[Expr, int]
) -> tuple[list[Statement], tuple[int, int], tuple[int, int]]:
    """Return a body for those items alone that have work, and the items and groups of two axes.

    ``first``, ``second``: what each item has along an axis, and how many there are.
    """
    group = spread(items, first[1], second[1])
    counts = round_up(first[1], group[0]), round_up(second[1], group[1])
    exists = both(
        *(
            name < real
            for (name, real), count in zip((first, second), counts, strict=True)
            if count > real
        )
    )
    if counts != (first[1], second[1]):
        body = [If(exists, tuple(body))]
    return body, counts, group


def group_id(groups: int) -> Expr:
    """The group of channels of a work-item, where the third axis counts them."""
    return Id("global", 2) if groups > 1 else Number(0)


@dataclass(frozen=True)
class Gather:
    """The pixels of tiles, read and transformed.

    ``lanes``: neighbouring channels of a pixel, in NHWC; or with ``tiles_in_lanes`` neighbouring
    tiles, in NCHW.
    """

    tiles: TileGrid
    input: DeviceArray
    lanes: int = 1
    tiles_in_lanes: bool = False

    @property
    def routines(self) -> tuple[DeviceRoutine, ...]:
        """What it calls."""
        axes = self.tiles.height, self.tiles.width
        return tuple(dict.fromkeys(routine(one, "input", self.lanes) for one in axes))

    def columns(self, tile: Expr, channel: Expr, exists: Expr) -> list[Statement]:
        """Return what reads a tile of a channel, counted over all groups, and transforms columns.

        They become the array ``columns``: P_h rows of n_w numbers. A tile that does not exist is
        zero.
        """
        tiles, lanes = self.tiles, self.lanes
        (rows, cols), height = tiles.axes, tiles.height
        n_h, n_w = tiles.height.n, tiles.width.n
        d = Declare("pixels", (n_h,), lanes)
        e = Declare("column", (height.products,), lanes)
        out = Declare("columns", (height.products, n_w), lanes)
        q, j, a = Name("q"), Name("j"), Name("a")
        # What is read by itself: all lanes at once, or those of one tile after the other.
        apart = lanes if self.tiles_in_lanes else 1
        single = Declare("pixel", (apart,))
        begin: list[Statement] = []
        columns: list[Statement] = []
        pixels: list[Statement] = [single] if apart > 1 else []
        for lane in range(apart):
            end = f"_{lane}" if apart > 1 else ""
            placed, image, row, col = tiles.place(tile + lane, end)
            top = Let(f"top{end}", rows.first_input(row))
            left = Let(f"left{end}", cols.first_input(col))
            begin += [*placed, top, left]
            x = Let(f"x{end}", left.read + q * cols.axis.dilation)
            y = Let(f"y{end}", top.read + j * rows.axis.dilation)
            (from_row, row_inside), (from_col, col_inside) = (
                rows.source(y.read),
                cols.source(x.read),
            )
            is_tile = tile + lane < tiles.count if apart > 1 else exists
            whole = Let(f"is_column{end}", both(is_tile, col_inside))
            columns += [x, whole]
            at = self._at(image, from_row, from_col, channel)
            target, count = (single[lane], 1) if apart > 1 else (d[j], lanes)
            read = Assign(target, Load(self.input.name, at, count))
            pixels += [y, Assign(target, splat(0, count))]
            pixels.append(If(both(whole.read, row_inside), (read,)))
        if apart > 1:
            pixels.append(Assign(d[j], Vector(tuple(single[lane] for lane in range(apart)))))
        return [
            *begin,
            out,
            loop(
                "q",
                n_w,
                *columns,
                d,
                e,
                loop("j", n_h, *pixels),
                TransformCall(call_of(height, "input", lanes), d.name, e.name),
                loop("a", height.products, Assign(out[a, q], e[a])),
            ),
        ]

    def row(self, a: Expr) -> list[Statement]:
        """Return what transforms row ``a`` of the columns to the array ``numbers``: P_w of them."""
        width, lanes = self.tiles.width, self.lanes
        columns = Declare("columns", (self.tiles.height.products, width.n), lanes)
        line, v = Declare("line", (width.n,), lanes), Declare("numbers", (width.products,), lanes)
        q = Name("q")
        return [
            line,
            v,
            loop("q", width.n, Assign(line[q], columns[a, q])),
            TransformCall(call_of(width, "input", lanes), line.name, v.name),
        ]

    def _at(self, image: Expr, row: Expr, col: Expr, channel: Expr) -> Expr:
        problem = self.tiles.problem
        (height, width), channels = problem.size, problem.layer.channels
        if problem.layer.planar:
            return index((problem.batch, channels, height, width), image, channel, row, col)
        return index((problem.batch, height, width, channels), image, row, col, channel)


@dataclass(frozen=True)
class Scatter:
    """Sums of tiles, transformed to outputs, finished and stored.

    ``lanes``: neighbouring filters, in NHWC; or with ``tiles_in_lanes`` neighbouring tiles, in
    NCHW.
    """

    tiles: TileGrid
    output: DeviceArray
    finish: DeviceEpilogue
    lanes: int = 1
    tiles_in_lanes: bool = False

    @property
    def routines(self) -> tuple[DeviceRoutine, ...]:
        """What it calls."""
        axes = self.tiles.height, self.tiles.width
        return tuple(dict.fromkeys(routine(one, "output", self.lanes) for one in axes))

    def column(self, b: Expr, sums: list[Statement]) -> list[Statement]:
        """Return what transforms column ``b`` of a tile to the array ``columns``, m_h x P_w.

        ``sums`` write the column, P_h sums, to the array ``sum``.
        """
        tiles, lanes = self.tiles, self.lanes
        e = Declare("column", (tiles.height.m,), lanes)
        i = Name("i")
        return [
            Declare("sum", (tiles.height.products,), lanes),
            e,
            *sums,
            TransformCall(call_of(tiles.height, "output", lanes), "sum", e.name),
            loop("i", tiles.height.m, Assign(self.columns[i, b], e[i])),
        ]

    @property
    def columns(self) -> Declare:
        """The tile when its columns are transformed."""
        return Declare("columns", (self.tiles.height.m, self.tiles.width.products), self.lanes)

    def rows(self, tile: Expr, filter: Expr) -> list[Statement]:
        """Return what transforms the rows of the columns, finishes and stores them.

        ``tile``, ``filter``: the first of the lanes, the filter counted over all groups.
        """
        tiles, lanes = self.tiles, self.lanes
        (rows, cols), width = tiles.axes, tiles.width
        line = Declare("line", (width.products,), lanes)
        outputs = Declare("outputs", (width.m,), lanes)
        i, k, b = Name("i"), Name("k"), Name("b")
        apart = lanes if self.tiles_in_lanes else 1
        begin: list[Statement] = []
        in_rows: list[Statement] = []
        stores: list[Statement] = []
        for lane in range(apart):
            end = f"_{lane}" if apart > 1 else ""
            placed, image, row, col = tiles.place(tile + lane, end)
            begin += placed
            y = Let(f"y{end}", row + i * rows.axis.dilation)
            x = Let(f"x{end}", col + k * cols.axis.dilation)
            place = self._place(image, y.read, x.read, filter)
            at = Let(f"at{end}", place.index)
            sums: Expr = Lane(outputs[k], lane) if apart > 1 else outputs[k]
            finished, value = self.finish(sums, filter, at.read)
            exists = [tile + lane < tiles.count] if apart > 1 and tiles.count % apart else []
            inside = both(*exists, y.read < rows.outputs, x.read < cols.outputs, place.inside)
            in_rows.append(y)
            stores += [x, If(inside, (at, *finished, Store(self.output.name, at.read, value)))]
        return [
            *begin,
            loop(
                "i",
                tiles.height.m,
                *in_rows,
                line,
                outputs,
                loop("b", width.products, Assign(line[b], self.columns[i, b])),
                TransformCall(call_of(width, "output", lanes), line.name, outputs.name),
                loop("k", width.m, *stores),
            ),
        ]

    def _place(self, image: Expr, row: Expr, col: Expr, filter: Expr) -> ReadPlace:
        problem, layer = self.tiles.problem, self.tiles.problem.layer
        if problem.spread is not None:
            own = layer.filters // layer.groups
            bounds = Bounds({Name("filter"): own, Id("global", 2): layer.groups})
            return output_view(problem).at(image, row, col, filter, bounds=bounds)
        (height, width), filters = problem.output_size, problem.layer.filters
        if problem.layer.planar:
            at = index((problem.batch, filters, height, width), image, filter, row, col)
        else:
            at = index((problem.batch, height, width, filters), image, row, col, filter)
        return ReadPlace(self.output.name, at)


def transform_input(gather: Gather, transformed: DeviceArray, items: int) -> DeviceKernel:
    """Return the kernel that writes the transformed tiles.

    ``transformed``: (positions, groups, tiles, channels) in NHWC, (positions, groups, channels,
    tiles) in NCHW, with tiles and channels that do not exist, which become zero. ``items``: the
    most of a group.
    """
    tiles, lanes = gather.tiles, gather.lanes
    layer = tiles.problem.layer
    channels = layer.channels // layer.groups
    positions, groups, across, along = transformed.shape
    group, tile, channel = group_id(groups), Name("tile"), Name("channel")
    first, second = Id("global", 0), Id("global", 1)
    if layer.planar:
        lets = [Let("tile", first * lanes), Let("channel", second)]
        place, room = (channel, tile), (along, across)
    else:
        lets = [Let("channel", first * lanes), Let("tile", second)]
        place, room = (tile, channel), (across, along)
    exists = both(
        tile < tiles.count if tiles.count < room[0] else Number(1),
        channel < channels if channels < room[1] else Number(1),
    )
    b, a = Name("b"), Name("a")
    at = index(transformed.shape, a * tiles.width.products + b, group, *place)
    numbers = Declare("numbers", (tiles.width.products,), lanes)
    body: list[Statement] = [
        *lets,
        *gather.columns(tile, group * channels + channel, exists),
        loop(
            "a",
            tiles.height.products,
            *gather.row(a),
            loop("b", tiles.width.products, Store(transformed.name, at, numbers[b], True)),
        ),
    ]
    body, counts, size = launched(body, items, (first, along // lanes), (second, across))
    return DeviceKernel(
        "transform_input",
        f"Pixels of tiles, transformed: {positions} numbers of each.",
        (gather.input,),
        (transformed,),
        (*counts, groups),
        (*size, 1),
        tuple(body),
    )


def transform_output(scatter: Scatter, sums: DeviceArray, items: int) -> DeviceKernel:
    """Return the kernel that writes the outputs.

    ``sums``: (positions, groups, tiles, filters) in NHWC, (positions, groups, filters, tiles) in
    NCHW, with tiles and filters that do not exist. ``items``: the most of a group.
    """
    tiles, lanes = scatter.tiles, scatter.lanes
    layer = tiles.problem.layer
    filters = layer.filters // layer.groups
    group, tile, filter = group_id(layer.groups), Name("tile"), Name("filter")
    first, second = Id("global", 0), Id("global", 1)
    if layer.planar:
        lets = [Let("tile", first * lanes), Let("filter", second)]
        place, counts = (filter, tile), (-(-tiles.count // lanes), filters)
    else:
        lets = [Let("filter", first * lanes), Let("tile", second)]
        place, counts = (tile, filter), (filters // lanes, tiles.count)
    a, b = Name("a"), Name("b")
    at = index(sums.shape, a * tiles.width.products + b, group, *place)
    column = Declare("sum", (tiles.height.products,), lanes)
    read = loop("a", tiles.height.products, Assign(column[a], Load(sums.name, at, lanes, True)))
    body: list[Statement] = [
        *lets,
        scatter.columns,
        loop("b", tiles.width.products, *scatter.column(b, [read])),
        *scatter.rows(tile, group * filters + filter),
    ]
    body, items_of, size = launched(body, items, (first, counts[0]), (second, counts[1]))
    return DeviceKernel(
        "transform_output",
        "Sums of tiles, transformed to outputs, finished and stored.",
        (sums, *scatter.finish.arrays),
        (scatter.output,),
        (*items_of, layer.groups),
        (*size, 1),
        tuple(body),
    )
