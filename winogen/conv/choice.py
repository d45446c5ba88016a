"""One way to compute a problem, and the exact counts that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

from winogen.codegen import joining, keeping, shipped, transforms
from winogen.codegen.transform import Transform
from winogen.conv.problem import Layer, Problem, Sizes, plane_of
from winogen.kernels import general
from winogen.kernels.work import joint_products
from winogen.program.summation import PROGRAM
from winogen.records import AXES, Points, Precision
from winogen.records import Sizes as Tuned
from winogen.toolchain import derived

keeping.keep_by(derived.kept)  # programs of other points than those that ship


@dataclass(frozen=True)
class Cut:
    """How a kernel call is cut into blocks, see `winogen.conv.cuts`."""

    block: tuple[int, int]  # rows and columns of tiles, or of output pixels
    images: int = 1  # that share a block of whole maps
    split: bool = False  # whether threads share every block


@dataclass(frozen=True)
class Choice:
    """One way to compute a problem, complete.

    The last fields leave it to the variant and the cost model unless they are set, as they are
    where something was measured.
    """

    algorithm: str
    tile: Sizes | None = None  # outputs of one tile along each axis; None without tiles
    points: tuple[Points | None, ...] = ()  # of each axis, None: the default points; (): of all
    edge: str = "discard"
    border: str = "unswitch"
    threads: int = 1
    order: str = PROGRAM  # how transforms add
    sizes: Tuned = ()  # fields of `Tuning` that replace the variant's own, sorted by name
    cut: Cut | None = None  # of the first kernel call; None: the fastest by prediction
    parameters: Any = None  # of the variant itself; None: its usual ones
    variant: str = ""  # of the algorithm's family; "": the first that applies
    precision: Precision | None = None  # None: all numbers are of the type of the arrays

    @property
    def tag(self) -> str:
        """What its transforms are called in the catalog besides m and r, and along which axis if
        not along all with tiles: "", "gaussian" or "gaussian height".
        """
        names = AXES[-len(self.points) :]
        along = [
            (points.tag if points else "", name)
            for points, name, m in zip(self.points, names, self.tile or ())
            if m > 1
        ]
        tagged = [(tag, name) for tag, name in along if tag]
        if not tagged:
            return ""
        (tag, _), *_ = tagged
        named = [] if len(tagged) == len(along) else [name for _, name in tagged]
        return " ".join([tag, *named])


@dataclass(frozen=True)
class Rectangle:
    """Outputs to compute: rows row_begin..row_end-1, and columns alike.

    ``in_row``: all pixels count as one row, which is cut more evenly than many.
    """

    row_begin: int
    row_end: int
    col_begin: int
    col_end: int
    in_row: bool = False

    @property
    def size(self) -> int:
        """How many outputs it has."""
        return max(0, self.row_end - self.row_begin) * max(0, self.col_end - self.col_begin)

    @property
    def bounds(self) -> tuple[int, int, int, int]:
        """Rows begin and end, columns begin and end."""
        return self.row_begin, self.row_end, self.col_begin, self.col_end


def multiplications(problem: Problem, choice: Choice) -> int:
    """Return the element-wise multiplications of one call, over the batch, tile waste included.

    Winograd: products of a tile · tiles · (C/groups) · M, and KH times that for `winograd1d`,
    whose tiles are rows; outputs computed directly: (C/groups) · M · KH · KW each. With three axes,
    tiles are planes, KD times that.
    """
    if choice.tile is None:
        return problem.direct_multiplications
    outputs = prod(plane_of(problem.output_size))
    rim = outputs - rectangles(problem, choice)[0].size
    return _tile_products(problem, choice) + problem.direct_multiplications // outputs * rim


def rectangles(problem: Problem, choice: Choice) -> tuple[Rectangle, ...]:
    """Return the outputs of a plane of the chosen algorithm, then those left to `direct`.

    With edge="direct" the Winograd part ends at the last full tile; below and to the right of it
    remain at most two strips.
    """
    layer = problem.layer
    # Of a channel of its own each output is a product, not a sum: rows share the filter instead.
    alone = layer.planar and layer.channels == layer.filters == layer.groups
    in_row = layer.pointwise and not alone and choice.tile is None and problem.spread is None
    _, (height, width) = problem.sizes(in_row)
    if choice.tile is None or choice.edge == "discard":
        return (Rectangle(0, height, 0, width, in_row),)
    tall, wide = plane_of(choice.tile)
    rows, cols = height - height % tall, width - width % wide
    if not rows or not cols:
        return Rectangle(0, 0, 0, 0), Rectangle(0, height, 0, width)
    rim = (Rectangle(rows, height, 0, width), Rectangle(0, rows, cols, width))
    return (Rectangle(0, rows, 0, cols), *(part for part in rim if part.size))


def calls(problem: Problem, choice: Choice) -> list[tuple[Rectangle, Choice]]:
    """Return the kernel calls: what each computes, and how; the rim of Winograd tiles is direct."""
    inner, *rim = rectangles(problem, choice)
    if not rim:
        return [(inner, choice)] if inner.size else []
    # The rim is computed with the arrays' own type: that is less work to prepare, and exact.
    direct = Choice("direct", threads=choice.threads)
    return [
        (part, way)
        for part, way in ((inner, choice), *((part, direct) for part in rim))
        if part.size
    ]


def axes(layer: Layer, choice: Choice) -> tuple[Any, Any]:
    """Return the 1D algorithms along height and width; (None, None) without tiles.

    An axis that stays as it is is left alone by F(1, 1), as is a height that is not there.
    """
    if choice.tile is None:
        return None, None
    numbers = choice.precision or Precision.of(layer.dtype)
    return _axes(
        layer.kernel,
        layer.stride,
        choice.algorithm,
        choice.tile,
        choice.points,
        choice.order,
        general(choice.algorithm, numbers).joins,
    )


@lru_cache(maxsize=4096)
def _axes(
    kernel: Sizes,
    stride: Sizes,
    algorithm: str,
    tile: Sizes,
    points: tuple[Points | None, ...],
    order: str,
    joins: bool,
) -> tuple[Any, Any]:
    sets = points or (None,) * len(tile)
    height, width = (
        transform_of(m, taps, axis, order, step) if transformed else transform_of(1, 1, None, order)
        for m, taps, step, axis, transformed in zip(
            plane_of(tile),
            plane_of(kernel),
            plane_of(stride),
            plane_of(sets, None),
            general(algorithm).along,
        )
    )
    return joining.joined(height, width) if joins else (height, width)


@lru_cache(maxsize=1024)
def transform_of(
    m: int, taps: int, points: Points | None, order: str, stride: int = 1
) -> Transform:
    """Return F(m, taps) of these points or moduli, of an entry of the catalog, or the default."""
    if points is None:
        return transforms.load(m, taps, order=order, stride=stride)
    if points.kind == "catalog":
        name = shipped.entry_name(m, taps, points.tag)
        return transforms.load(m, taps, name=name, order=order)
    if points.kind == "moduli":
        return transforms.load(m, taps, moduli=points.items, order=order)
    return transforms.load(m, taps, points.items, order=order)


def _tile_products(problem: Problem, choice: Choice) -> int:
    assert choice.tile is not None
    layer, part = problem.layer, rectangles(problem, choice)[0]
    tall, wide = plane_of(choice.tile)
    tiles = -(-part.row_end // tall) * -(-part.col_end // wide) * prod(problem.output_size[:-2])
    pairs = layer.filters * layer.channels // layer.groups
    variant = general(choice.algorithm)
    along = variant.transforms_along(layer.rank)
    products = prod(
        _products(choice, axis, taps, layer.stride[axis]) if transformed else taps
        for axis, (taps, transformed) in enumerate(zip(layer.kernel, along))
    )
    if variant.joins and any(points and points.kind != "points" for points in choice.points):
        height, width = axes(layer, choice)
        products = products // (height.products * width.products) * joint_products(height, width)
    return problem.batch * tiles * products * pairs


def _products(choice: Choice, axis: int, taps: int, stride: int) -> int:
    """Multiplications of one tile along an axis: one per point, more for moduli."""
    assert choice.tile is not None
    m, points = choice.tile[axis], choice.points[axis] if choice.points else None
    if stride == 1 and (points is None or (points.kind == "points" and not points.iterated)):
        return m + taps - 1
    return transform_of(m, taps, points, choice.order, stride).products
