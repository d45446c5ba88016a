"""The scheme of direct convolution on devices: arrays, views and launches, from parameters.

The padded input is cut into tiles, which overlap by what a filter sees beyond its stride. A
work-group computes some filters on a tile. Each of its items sums a chunk of the window, in vectors
of channels, for κ filters and σ windows at once: a vector of the input serves κ filters, a weight σ
windows. Where a window has several chunks, another kernel adds their sums. (Mogers, Radu, Li,
Turner, O'Boyle and Dubach, "Automatic generation of specialized direct convolutions for mobile
GPUs", GPGPU 2020, whose letters are in the comments.)

Parameters may be names: then `Collector` has the constraints afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import prod

from winogen.codegen.devices.expressions import Expr, Name, Number, expr
from winogen.conv.problem import Problem, plane_of
from winogen.errors import Unsupported
from winogen.opencl.conditions import at_most
from winogen.opencl.constraints import Collector
from winogen.opencl.maps import IndexView, Zip
from winogen.opencl.stores import (
    Interleaving,
    image_view,
    output_view,
    stored,
    weight_array,
    weight_view,
)
from winogen.records import Axis


@dataclass(frozen=True)
class DirectPoint:
    """A choice of all parameters.

    >>> DirectPoint(tile_height=5, tile_width=5, chunk=36, vector=4).as_values()["tile_height"]
    5
    """

    tile_height: int  # θ: rows of the padded input that a work-group reads
    tile_width: int
    extra_height: int = 0  # ρ: rows of zeros behind the padded input, so that tiles fit
    extra_width: int = 0
    filters: int = 1  # κ: of an item
    windows: int = 1  # σ: of an item
    vector: int = 1  # v: channels that are read at once
    chunk: int = 1  # ω/v: vectors of a window that an item sums
    local_chunks: int = 1  # items of a work-group along the chunks
    local_windows: int = 1  # ... and along the windows of a tile
    pad: int = 0  # whether a kernel writes the padded input, or padding is in the indices
    crop: int = 0  # whether a kernel crops the output, or only what stays is written
    coalesced: int = 0  # whether chunks are dealt round-robin, vector by vector
    dot: int = 0  # whether lanes are added at once, or when all is summed
    unroll: int = 0  # whether the loop over a chunk is unrolled

    def as_values(self) -> dict[str, int]:
        """Return name -> value."""
        return {name: getattr(self, name) for name in PARAMETERS}

    def __str__(self) -> str:
        """In the letters of the source; ω counts numbers."""
        sizes = (
            ("θ", f"{self.tile_height}x{self.tile_width}"),
            ("ρ", f"{self.extra_height}x{self.extra_width}"),
            ("κ", self.filters),
            ("σ", self.windows),
            ("ω", self.chunk * self.vector),
            ("v", self.vector),
            ("local", f"{self.local_chunks}x{self.local_windows}"),
        )
        said = [f"{letter} {value}" for letter, value in sizes]
        said += [name for name in ("pad", "crop", "coalesced", "dot", "unroll") if _on(self, name)]
        return ", ".join(said)


def _on(point: DirectPoint, name: str) -> bool:
    return bool(getattr(point, name))


PARAMETERS = tuple(one.name for one in fields(DirectPoint))


@dataclass(frozen=True)
class Scheme:
    """What the kernels of a problem read and write. Lengths are numbers where the point is."""

    image: IndexView  # N, height, width, G, channels: of the padded input, from the input's array
    padded: IndexView  # the same, from the array that the sums are computed from
    taps: IndexView  # G, M/G, KH, KW, channels: from the weights as they are
    # N, G, tiles, rounds, local windows, σ, rounds, local chunks, vectors of a chunk
    inputs: IndexView
    # G, M/κ, κ, rounds, local chunks, vectors of a chunk
    weights: IndexView
    partial: IndexView  # N, G, tiles, windows, M/G, chunks: where sums of chunks go
    gathered: IndexView  # N, OH, OW, M, chunks: the same
    sums: IndexView  # N, OH, OW, M: the output with what is cropped
    output: IndexView  # N, OH, OW, M: in the output's array, where phases may lie apart
    tiles: tuple[Expr, Expr]  # along height and width
    windows: tuple[Expr, Expr]  # of a tile
    chunks: Expr


def names() -> dict[str, Expr]:
    """Return all parameters as names."""
    return {name: Name(name) for name in PARAMETERS}


def numbers(point: DirectPoint) -> dict[str, Expr]:
    """Return all parameters of a point as numbers."""
    return {name: expr(value) for name, value in point.as_values().items()}


def check_supported(problem: Problem) -> None:
    """Raise Unsupported for a problem that no kernel of devices computes."""
    layer = problem.layer
    if layer.rank > 2:
        raise Unsupported(f"layout: got {layer.layout}; allowed on devices: layers of 1 or 2 axes")
    if layer.dtype not in ("float32", "float16"):
        raise Unsupported(f"dtype: got {layer.dtype}; allowed on devices: float32, float16")
    if not isinstance(problem.spread, Interleaving | None):
        raise Unsupported("input: got a phase of a transposed layer; allowed: ordinary layers")


def used(axis: Axis, outputs: int) -> int:
    """Return how much of the padded input along an axis some output sees."""
    return (outputs - 1) * axis.stride + axis.reach


def scheme(problem: Problem, parameters: Mapping[str, Expr], collector: Collector) -> Scheme:
    """Return the scheme of a problem.

    Raises InvalidValue for numbers that satisfy not all constraints, and Unsupported.
    """
    check_supported(problem)
    layer, p = problem.layer, parameters
    vector, chunk = p["vector"], p["chunk"]
    itemsize = layer.itemsize
    group_filters = layer.filters // layer.groups

    collector.vector(vector)

    # (a) the padded input, with channels last
    image = _image(problem, p)
    collector.ask(at_most(p["pad"], _reasons_to_pad(problem, p), "there is something to pad"))
    padded = image.written("padded", p["pad"])
    collector.buffer("padded", _numbers(image), p["pad"], itemsize)

    # (b) sums over windows, chunk by chunk
    inputs = _in_windows(problem, p, padded, collector)
    tiles = inputs.lengths[2], inputs.lengths[3]
    windows = inputs.lengths[4], inputs.lengths[5]
    inputs = inputs.vectors(vector).join(2).join(3).join(4).join(4)
    inputs = collector.called(collector.called(inputs, 3, "tile_windows"), 4, "window_vectors")
    every_window, every_vector = inputs.lengths[3], inputs.lengths[4]
    chunks = collector.name("chunks", every_vector // chunk)
    stride = Number(1) + p["coalesced"] * (chunks - 1)

    def in_chunks(view: IndexView, axis: int) -> IndexView:
        """Vectors as rounds of chunks, chunks that are summed at once, and vectors of a chunk."""
        split = view.reorder(axis, stride).split(axis, chunk)
        return split.called(axis, chunks).split(axis, p["local_chunks"])

    inputs = inputs.split(3, p["windows"])
    inputs = collector.called(inputs, 3, "window_groups").split(3, p["local_windows"])
    inputs = in_chunks(inputs, 6)

    taps = weight_view(problem).split(0, group_filters).transpose(0, 1, 3, 4, 2)
    taps = taps.pad(4, 0, image.lengths[4] - layer.channels // layer.groups)
    weights = taps.written("packed", 1)
    collector.buffer("packed", _numbers(taps), 1, 4)  # float32
    weights = weights.vectors(vector).join(2).join(2).called(2, every_vector)
    weights = in_chunks(weights.split(1, p["filters"]), 3)
    collector.take(Zip((inputs, weights), shared=3))

    # (c) sums of chunks; (d) what is cropped
    parts = chunks > 1
    by_axes = IndexView.of(
        "partial", problem.batch, layer.groups, *tiles, *windows, group_filters, chunks
    )
    collector.buffer("partial", _numbers(by_axes), parts)
    partial = IndexView.of(
        "partial", problem.batch, layer.groups, tiles[0] * tiles[1], every_window, group_filters,
        chunks,
    )  # fmt: skip
    # N, tiles and windows along the height, along the width, groups, filters, chunks
    gathered = by_axes.transpose(0, 2, 4, 3, 5, 1, 6, 7).join(1).join(2).join(3)
    computed = gathered.lengths[1:3]
    extra = p["extra_height"] + p["extra_width"]
    collector.ask(at_most(p["crop"], extra, "there is something to crop"))
    sums = IndexView.of("sums", problem.batch, *computed, layer.filters)
    collector.buffer("sums", _numbers(sums), p["crop"])
    collector.private(p["filters"] * p["windows"] * (vector - p["dot"] * (vector - 1)))

    tile_count = collector.name("tiles", tiles[0] * tiles[1])
    collector.launch(
        (layer.groups * weights.lengths[1], tile_count, Number(problem.batch)),
        (p["local_chunks"], p["local_windows"]),
    )
    collector.buffer("weights", Number(prod(weight_array(problem).shape)), 1, 4)
    for name, count in _given(problem).items():
        collector.buffer(name, Number(count), 1, itemsize)
    collector.all_fit()
    return Scheme(
        image=image,
        padded=padded,
        taps=taps,
        inputs=inputs,
        weights=weights,
        partial=partial,
        gathered=gathered,
        sums=sums,
        output=output_view(problem),
        tiles=tiles,
        windows=windows,
        chunks=chunks,
    )


def _image(problem: Problem, p: Mapping[str, Expr]) -> IndexView:
    """The padded input as N, height, width, groups, channels: from the input's array."""
    layer = problem.layer
    channels = layer.channels // layer.groups
    rest = expr(channels) % p["vector"]
    size = plane_of(problem.size)
    view = image_view("input", problem, layer.channels, size).split(3, channels)
    outputs = plane_of(problem.output_size)
    for at, (axis, length, count, name) in enumerate(
        zip(layer.plane, size, outputs, ("extra_height", "extra_width")), 1
    ):
        after = used(axis, count) - axis.before - length
        if layer.padding_mode == "zeros":
            view = view.pad(at, axis.before, after + p[name])
        else:
            view = view.pad(at, axis.before, after, layer.padding_mode).pad(at, 0, p[name])
    return view.pad(4, 0, p["pad"] * ((p["vector"] - rest) % p["vector"]))


def _reasons_to_pad(problem: Problem, p: Mapping[str, Expr]) -> Expr:
    """More than 0 where a padded input has numbers that the input has not, or another order."""
    layer = problem.layer
    padding = sum(max(0, end) for axis in layer.plane for end in (axis.before, axis.after))
    rest = expr(layer.channels // layer.groups) % p["vector"]
    return padding + layer.planar + rest + p["extra_height"] + p["extra_width"]


def _in_windows(
    problem: Problem, p: Mapping[str, Expr], padded: IndexView, collector: Collector
) -> IndexView:
    """N, G, tiles and windows of a tile along height and width, KH, KW, channels."""
    view = padded
    for at, axis, way in zip((1, 4), problem.layer.plane, ("height", "width")):
        tile = p[f"tile_{way}"]
        view = view.slide_strict(at, tile, tile - (axis.reach - axis.stride))
        view = collector.called(view, at, f"tiles_{way}")
        view = view.slide_strict(at + 1, axis.reach, axis.stride).every(at + 2, axis.dilation)
        view = collector.called(view, at + 1, f"windows_{way}")
    # N, (tiles, windows, taps) of rows, (tiles, windows, taps) of columns, G, channels
    return view.transpose(0, 7, 1, 4, 2, 5, 3, 6, 8)


def _numbers(view: IndexView) -> Expr:
    count: Expr = Number(1)
    for length in view.lengths:
        count = count * length
    return count


def _given(problem: Problem) -> dict[str, int]:
    """Numbers of the arrays that a call brings."""
    count = prod(stored(problem).output_shape)
    given = {
        "input": prod(problem.input_shape),
        "output": count,
        "add": count * problem.epilogue.add,
        "add_after": count * problem.epilogue.add_after,
    }
    return {name: numbers for name, numbers in given.items() if numbers}
