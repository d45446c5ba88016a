"""One way to compute a problem, and the exact counts that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from winogen.codegen import transforms
from winogen.conv.problem import Layer, Problem
from winogen.conv.request import Axes, Points
from winogen.program.summation import PROGRAM


@dataclass(frozen=True)
class Choice:
    """One way to compute a problem, complete."""

    algorithm: str
    tile: Axes | None  # outputs of one tile; None without tiles
    points: tuple[Points | str | None, Points | str | None]  # a str: a name from the catalog
    edge: str
    border: str
    threads: int
    moduli: tuple[Points | None, Points | None] = (None, None)  # instead of points
    order: str = PROGRAM  # how transforms add

    @property
    def tag(self) -> str:
        """What its transforms are called in the catalog besides m and r, and along which axis if
        not along both: "", "gaussian" or "gaussian height".
        """
        tagged = {
            axis: points.split("_")[-1]
            for axis, points in zip(("height", "width"), self.points)
            if isinstance(points, str)
        }
        if not tagged:
            return ""
        ((axis, tag), *more) = tagged.items()
        return tag if more or 1 in self.tile else f"{tag} {axis}"


@dataclass(frozen=True)
class Rectangle:
    """Outputs to compute: rows row_begin..row_end-1, and columns alike.

    ``in_row`` says that all pixels count as one row, which is cut more evenly than many.
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


def multiplications(problem: Problem, choice: Choice) -> int:
    """Return the element-wise multiplications of one call, over the batch, tile waste included.

    Winograd: products of a tile · tiles · (C/groups) · M, and KH times that for `winograd1d`,
    whose tiles are rows; outputs computed directly: (C/groups) · M · KH · KW each.
    """
    if choice.tile is None:
        return problem.direct_multiplications
    outputs = problem.out_height * problem.out_width
    rim = outputs - rectangles(problem, choice)[0].size
    return _tile_products(problem, choice) + problem.direct_multiplications // outputs * rim


def rectangles(problem: Problem, choice: Choice) -> tuple[Rectangle, ...]:
    """Return the outputs that the chosen algorithm computes, then those left to `direct`.

    With edge="direct" the Winograd part ends at the last full tile; below and to the right of it
    remain at most two strips.
    """
    in_row = problem.layer.pointwise and choice.tile is None
    _, _, height, width = problem.sizes(in_row)
    if choice.tile is None or choice.edge == "discard":
        return (Rectangle(0, height, 0, width, in_row),)
    rows = height - height % choice.tile[0]
    cols = width - width % choice.tile[1]
    if not rows or not cols:
        return Rectangle(0, 0, 0, 0), Rectangle(0, height, 0, width)
    rim = (Rectangle(rows, height, 0, width), Rectangle(0, rows, cols, width))
    return (Rectangle(0, rows, 0, cols), *(part for part in rim if part.size))


def axes(layer: Layer, choice: Choice) -> tuple:
    """Return the 1D algorithms along height and width; (None, None) without tiles."""
    if choice.tile is None:
        return None, None
    # winograd1d leaves the height alone, which F(1, 1) does.
    taps_h = 1 if choice.algorithm == "winograd1d" else layer.kernel[0]
    return tuple(_transform(choice, k, taps) for k, taps in enumerate((taps_h, layer.kernel[1])))


def _transform(choice: Choice, axis: int, taps: int) -> transforms.Transform:
    m, points, moduli = choice.tile[axis], choice.points[axis], choice.moduli[axis]
    return _loaded(m, taps, points, moduli, choice.order)


@lru_cache(maxsize=1024)
def _loaded(m: int, taps: int, points, moduli, order: str) -> transforms.Transform:
    """Points as the user gave them, a name from the catalog, or None for the default points."""
    if isinstance(points, str):
        return transforms.load(m, taps, name=points, order=order)
    return transforms.load(m, taps, points, moduli=moduli, order=order)


def _products(choice: Choice, axis: int, taps: int) -> int:
    """Multiplications of one tile along an axis: one per point, more for moduli."""
    if choice.moduli[axis] is None and not isinstance(choice.points[axis], str):
        return choice.tile[axis] + taps - 1
    return _transform(choice, axis, taps).products


def _tile_products(problem: Problem, choice: Choice) -> int:
    layer, part = problem.layer, rectangles(problem, choice)[0]
    tiles = -(-part.row_end // choice.tile[0]) * -(-part.col_end // choice.tile[1])
    taps_h, taps_w = layer.kernel
    rows = taps_h if choice.algorithm == "winograd1d" else _products(choice, 0, taps_h)
    pairs = layer.filters * layer.channels // layer.groups
    return problem.batch * tiles * rows * _products(choice, 1, taps_w) * pairs
