"""Where the tiles of a layer lie on a device: which pixels each reads, and which outputs it has.

Tiles are counted over all images, rows of tiles, and tiles of a row. Of a dilated axis each phase
has tiles of its own, which see every so many pixels, as if the axis were shorter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from winogen.codegen.devices.expressions import Expr, FunctionCall, Number, Select, binary, expr
from winogen.codegen.devices.statements import Let, Statement
from winogen.codegen.transform import Transform
from winogen.conv.problem import Problem
from winogen.records import Axis


@dataclass(frozen=True)
class AxisOfTiles:
    """Tiles along one axis, and what they see of it."""

    axis: Axis
    size: int  # of the input
    outputs: int
    transform: Transform
    padding_mode: str

    @property
    def phases(self) -> int:
        """Phases of the dilated axis that have outputs."""
        return min(self.axis.dilation, self.outputs)

    @property
    def count(self) -> int:
        """How many tiles there are, of all phases."""
        longest = -(-self.outputs // self.axis.dilation)
        return self.phases * -(-longest // self.transform.m)

    @property
    def computed(self) -> int:
        """Outputs of all tiles, those included that do not exist."""
        return self.count * self.transform.m

    def first_output(self, tile: Expr) -> Expr:
        """The first output of a tile."""
        step = self.transform.m * self.axis.dilation
        return tile // self.phases * step + tile % self.phases

    def first_input(self, first_output: Expr) -> Expr:
        """The first pixel that a tile sees, which may lie in the padding."""
        return first_output * self.axis.stride - self.axis.before

    def source(self, position: Expr) -> tuple[Expr, Expr]:
        """Return which pixel of the input stands at a position, and whether one does.

        Positions count from the first pixel of the input, so that those before it are negative.
        Beyond the padding there is nothing, whatever the padding mode: only outputs that do not
        exist see it.
        """
        size, axis = self.size, self.axis
        if self.padding_mode == "zeros" or not axis.before + axis.after:
            return position, (position >= 0) & (position < size)
        inside = position < size + axis.after
        if self.padding_mode == "replicate":
            return FunctionCall(
                "min", (FunctionCall("max", (position, Number(0))), Number(size - 1))
            ), inside
        before, after = (
            (-position, Number(2 * size - 2) - position)
            if self.padding_mode == "reflect"
            else (position + size, position - size)
        )
        return Select(position < 0, before, Select(position >= size, after, position)), inside


@dataclass(frozen=True)
class TileGrid:
    """All tiles of a problem, and the algorithms along height and width."""

    problem: Problem
    height: Transform
    width: Transform

    @cached_property
    def axes(self) -> tuple[AxisOfTiles, AxisOfTiles]:
        """Along the height and the width."""
        layer, problem = self.problem.layer, self.problem
        rows, cols = (
            AxisOfTiles(*along, layer.padding_mode)
            for along in zip(
                layer.plane, problem.size, problem.output_size, (self.height, self.width)
            )
        )
        return rows, cols

    @cached_property
    def count(self) -> int:
        """How many tiles there are, of all images."""
        return self.problem.batch * prod(axis.count for axis in self.axes)

    @property
    def positions(self) -> int:
        """Numbers of a transformed tile."""
        return self.height.products * self.width.products

    def place(self, tile: Expr, ending: str = "") -> tuple[list[Statement], Expr, Expr, Expr]:
        """Return what finds a tile, and its image, first row and first column of outputs.

        ``ending``: of the names that are defined.
        """
        rows, cols = self.axes
        lets = [
            Let(f"image{ending}", tile // (rows.count * cols.count)),
            Let(f"row{ending}", rows.first_output(tile // cols.count % rows.count)),
            Let(f"col{ending}", cols.first_output(tile % cols.count)),
        ]
        image, row, col = (let.read for let in lets)
        return [*lets], image, row, col


def index(shape: tuple[int, ...], *indices: Any) -> Expr:
    """Return where an element of an array lies, counted in numbers.

    >>> index((2, 3, 4), 1, 2, 3)
    Number(value=23)
    """
    total: Expr = Number(0)
    for size, one in zip(shape, indices, strict=True):
        total = total * size + expr(one)
    return total


def both(*conditions: Expr) -> Expr:
    """Return whether all conditions hold."""
    result: Expr = Number(1)
    for one in conditions:
        result = binary("&&", result, one)
    return result
