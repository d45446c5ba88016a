"""Loops over arrays of any number of axes, as data: what plain C computes between layers.

An operator names axes as the model does. Where the numbers lie in memory follows when a network is
planned: each operand is then a beginning and a step for each axis (`winogen.network.binding`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

Shape = tuple[int, ...]
MOST_AXES = 8  # of a nest of loops in C
_ROUNDING = 2.0**-24  # of a float32, relative


@dataclass(frozen=True, eq=False)
class Operand:
    """An array that is read: a constant, or the value of a graph in one of `winogen.onnx.forms`."""

    shape: Shape  # in the model
    value: str = ""
    form: str = ""
    constant: np.ndarray | None = None

    @classmethod
    def of(cls, numbers: Any) -> Operand:
        """Return a constant."""
        array = np.ascontiguousarray(numbers, np.float32).reshape(np.shape(numbers))
        return cls(array.shape, constant=array)


class Along(NamedTuple):
    """A loop that goes along an axis of an array, from ``start`` on or to the places of a table."""

    turns: int
    axis: int
    step: int = 1
    start: int = 0
    table: tuple[int, ...] | None = None


def all_of(shape: Shape) -> list[Along]:
    """Return the loops over all numbers of an array in their order."""
    return [Along(count, axis) for axis, count in enumerate(shape)]


@dataclass(frozen=True, eq=False)
class Each:
    """A function of the numbers at the same place of operands, which are broadcast."""

    function: str  # of `winogen.network.functions`
    operands: tuple[Operand, ...]
    shape: Shape
    error: float = 2 * _ROUNDING


class Piece(NamedTuple):
    """The numbers of an operand in the order of some loops, and where they go in that order."""

    operand: Operand
    origin: tuple[Along, ...]
    target: tuple[Along, ...]


@dataclass(frozen=True, eq=False)
class Move:
    """Numbers moved, after ``fill`` was written everywhere, if there is one."""

    pieces: tuple[Piece, ...]
    shape: Shape
    fill: float | None = None
    error: float = 0.0

    @property
    def operands(self) -> tuple[Operand, ...]:
        """What is read."""
        return tuple(piece.operand for piece in self.pieces)


@dataclass(frozen=True, eq=False)
class Reduce:
    """All numbers along some axes as one."""

    function: str
    operand: Operand
    axes: tuple[int, ...]
    shape: Shape  # with the axes left out, or of size 1
    error: float = 2 * _ROUNDING

    @property
    def operands(self) -> tuple[Operand, ...]:
        """What is read."""
        return (self.operand,)


@dataclass(frozen=True, eq=False)
class Normalise:
    """Numbers by what those along some axes are together: "softmax", "log_softmax" or "moments".

    "moments": less their mean, by their deviation, then times a scale, and a shift added. ``split``
    is how both arrays are gone through: the loops that ``axes`` names, and the others, of groups.
    """

    function: str
    operand: Operand
    view: tuple[Along, ...]
    axes: tuple[int, ...]  # of the view
    shape: Shape
    scale: Operand | None = None
    shift: Operand | None = None
    parameters: tuple[Along | None, ...] = ()  # how loops of the view go along scale and shift
    epsilon: float = 0.0  # added to the variance
    error: float = 16 * _ROUNDING

    @property
    def operands(self) -> tuple[Operand, ...]:
        """What is read."""
        return tuple(one for one in (self.operand, self.scale, self.shift) if one is not None)


@dataclass(frozen=True, eq=False)
class Product:
    """Products of matrices, of the last two axes; those before them are broadcast."""

    operands: tuple[Operand, Operand]
    shape: Shape
    across: tuple[bool, bool] = (False, False)  # whether the matrices are transposed

    @property
    def error(self) -> float:
        """Of sums in their order."""
        shape = self.operands[0].shape
        return _ROUNDING * sqrt(shape[-2] if self.across[0] else shape[-1])


@dataclass(frozen=True, eq=False)
class Resample:
    """Numbers along an axis as weighted sums of others along it.

    ``begin``: where those that are computed begin in the output, whose others are ``fill``.
    """

    operand: Operand
    axis: int
    places: np.ndarray  # (outputs, taps)
    weights: np.ndarray  # (outputs, taps)
    shape: Shape
    begin: Shape
    fill: float | None = None
    error: float = 4 * _ROUNDING

    @property
    def operands(self) -> tuple[Operand, ...]:
        """What is read."""
        return (self.operand,)


class Halves(NamedTuple):
    """Of each output along an axis the two inputs that it lies between, and the share of each."""

    places: np.ndarray  # (outputs, 2)
    shares: np.ndarray  # (outputs, 2), float32


@dataclass(frozen=True, eq=False)
class Bilinear:
    """Maps (N, C, H, W) enlarged or made smaller, in the order of sums of onnxruntime.

    Results are its own, bit by bit, so that those of codes become the same codes.
    """

    operand: Operand
    rows: Halves
    columns: Halves
    shape: Shape
    begin: Shape  # as of `Resample`
    fill: float | None = None
    error: float = 4 * _ROUNDING

    @property
    def operands(self) -> tuple[Operand, ...]:
        """What is read."""
        return (self.operand,)


Loops = Each | Move | Reduce | Normalise | Product | Resample | Bilinear


def values_of(loops: Loops) -> tuple[str, ...]:
    """Return the values of the graph that are read, each once."""
    return tuple(dict.fromkeys(one.value for one in loops.operands if one.constant is None))


def is_of_images(loops: Loops) -> bool:
    """Return whether of arrays of one image, the first axis, all that is computed is of that image.

    Then several images are computed one by one.
    """
    if isinstance(loops, Move):
        first = Along(1, 0)
        return all(
            (*one.origin, None)[0] == (*one.target, None)[0] == first for one in loops.pieces
        )
    if isinstance(loops, (Each, Product)):
        rank = len(loops.shape)
        given = [one.shape for one in loops.operands if one.constant is None]
        least = 1 if isinstance(loops, Each) else 3
        return rank >= least and all(len(one) == rank and one[0] == 1 for one in given)
    if isinstance(loops, Resample):
        return loops.axis > 0
    return isinstance(loops, Bilinear) or 0 not in loops.axes


# ---- where numbers lie -------------------------------------------------------------------------


class Run(NamedTuple):
    """A loop in C: how many turns, and how far each goes in every array, in numbers."""

    turns: int
    steps: tuple[int, ...]


def merged(runs: Sequence[Run]) -> list[Run]:
    """Return the same loops with those joined that go on where an inner one ends.

    >>> merged([Run(2, (12, 0)), Run(3, (4, 0)), Run(1, (9, 9)), Run(4, (1, 0))])
    [Run(turns=24, steps=(1, 0))]
    """
    found: list[Run] = []
    for run in runs:
        if run.turns == 1:
            continue
        if found and all(o == run.turns * s for o, s in zip(found[-1].steps, run.steps)):
            found[-1] = Run(found[-1].turns * run.turns, run.steps)
        else:
            found.append(run)
    return found or [Run(1, (0,) * len(runs[0].steps) if runs else (0,))]


class Walk(NamedTuple):
    """A loop over one array: turns, how far each goes, or a table of how many steps."""

    turns: int
    step: int
    table: tuple[int, ...] | None = None


def walked(loops: Sequence[Along], steps: Sequence[int]) -> tuple[int, list[Walk]]:
    """Return where loops over an array with these steps begin, and how they go.

    Neighbours are joined, and tables that are none are left out.
    """
    begin, found = 0, list[Walk]()
    for one in loops:
        stride = steps[one.axis] if steps else 0
        count, table, step = one.turns, one.table, one.step * stride
        begin += one.start * stride
        if table is not None:
            apart = np.unique(np.diff(table))
            if apart.size <= 1:  # as a step
                begin += table[0] * stride
                step, table = (int(apart[0]) if apart.size else 0) * stride, None
            else:
                step = stride
        if count == 1:
            continue
        last = found[-1] if found else None
        if last is not None and last.table is None and table is None and last.step == count * step:
            found[-1] = Walk(last.turns * count, step)
        else:
            found.append(Walk(count, step, table))
    return begin, found or [Walk(1, 0)]


def paired(one: Sequence[Walk], other: Sequence[Walk]) -> tuple[list[Walk], list[Walk]]:
    """Return two walks of as many turns whose last loops have the same count, as large as possible.

    >>> one, other = paired([Walk(6, 4), Walk(4, 1)], [Walk(4, 1), Walk(6, 4)])
    >>> [walk.turns for walk in one], [walk.turns for walk in other]
    ([6, 2, 2], [4, 3, 2])
    """
    common = int(np.gcd(one[-1].turns, other[-1].turns))
    ends = []
    for walk in (one, other):
        *outer, last = walk
        if last.turns > common:
            if last.table is not None:
                outer, last = [*outer, last], Walk(1, 0)
                common = 1
            else:
                outer += [Walk(last.turns // common, last.step * common)]
                last = Walk(common, last.step)
        ends.append([*outer, last])
    if common == 1:  # single numbers: all loops outside
        ends = [[w for w in walk if w.turns > 1] + [Walk(1, 0)] for walk in (one, other)]
    return ends[0], ends[1]
