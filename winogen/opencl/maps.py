"""Layout operations: what an array looks like to a kernel, composed into one index map.

An operation changes the lengths of the axes, and says where an index into the result lies in what
it was applied to. An `IndexView` is an array and the operations on it, from the array outwards: an
index into the view goes back through all of them to an address. No number is moved. After Hagedorn
and others, "High performance stencil code generation with Lift", CGO 2018; the rewrite rules of
that paper are left out on purpose, for a kernel here is one scheme with parameters.

>>> from winogen.codegen.devices.expressions import Name
>>> from winogen.opencl.indices import Bounds, function_of
>>> row, column = Name("row"), Name("column")
>>> blocks = IndexView.of("x", 4, 6).split(1, 3).transpose(1, 0, 2)   # 2 halves of 4 rows of 3
>>> [length.value for length in blocks.lengths]
[2, 4, 3]
>>> place = blocks.at(1, row, column, bounds=Bounds({row: 4, column: 3}))
>>> function_of(place.index)({"row": 2, "column": 1})
16

Lengths may be expressions of parameters that are not decided yet: then nobody can ask for an
address, but `IndexView.conditions` says what the parameters must satisfy. So a scheme is written
once, and its constraints follow from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from winogen.codegen.devices.expressions import Expr, Load, Number, Select, Splat, expr
from winogen.opencl.conditions import PointCondition, same
from winogen.opencl.indices import Bounds, divides, equal, simplified
from winogen.opencl.operations import (
    NO,
    YES,
    Called,
    Every,
    First,
    Indices,
    JoinAxes,
    Lengths,
    Operation,
    PadAxis,
    Reorder,
    Reverse,
    Slide,
    Split,
    Transpose,
    Vectors,
    WrittenIndex,
    known,
)


@dataclass(frozen=True)
class ReadPlace:
    """Where a number or a vector lies in an array, and whether it does: else it is zero."""

    array: str
    index: Expr
    inside: Expr = YES
    lanes: int = 1

    @property
    def aligned(self) -> bool:
        """Whether the index is certainly a multiple of the lanes."""
        return self.lanes > 1 and divides(self.lanes, self.index)

    @property
    def safe_index(self) -> Expr:
        """The index, or 0 where nothing lies: so nothing outside of the array is read."""
        return self.index if self.inside == YES else Select(self.inside, self.index, NO)

    def or_zero(self, loaded: Expr) -> Expr:
        """Return what was loaded from the safe index, or zeros where nothing lies."""
        if self.inside == YES:
            return loaded
        zero = Number(0.0) if self.lanes == 1 else Splat(Number(0.0), self.lanes)
        return Select(self.inside, loaded, zero)

    @property
    def load(self) -> Expr:
        """What is there. Nothing outside of the array is read."""
        return self.or_zero(Load(self.array, self.safe_index, self.lanes, self.aligned))


@dataclass(frozen=True)
class IndexView:
    """An array and the layout operations on it; immutable, every operation returns another.

    An operation raises InvalidValue for lengths that are known not to satisfy its conditions.
    ``given`` are conditions of what the array was made from.
    """

    array: str
    shape: Lengths
    operations: tuple[Operation, ...] = ()
    given: tuple[PointCondition, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, array: str, *shape: Any) -> IndexView:
        """Return an array as it is, in the order of its axes in memory."""
        return cls(array, tuple(map(expr, shape)))

    @cached_property
    def _stages(self) -> tuple[Lengths, ...]:
        """The lengths before each operation, and behind the last."""
        stages = [self.shape]
        for operation in self.operations:
            stages.append(operation.lengths(stages[-1]))
        return tuple(stages)

    @property
    def lengths(self) -> Lengths:
        """Of every axis; numbers, or expressions of parameters."""
        return self._stages[-1]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The lengths as numbers, where all parameters are decided."""
        return tuple(map(known, self.lengths))

    @property
    def conditions(self) -> tuple[PointCondition, ...]:
        """What the operations ask of their lengths, in their order."""
        pairs = zip(self.operations, self._stages)
        asked = (one for operation, of in pairs for one in operation.conditions(of))
        return (*self.given, *asked)

    @property
    def lanes(self) -> int:
        """The lanes of what is read at once."""
        vectors = [one for one in self.operations if isinstance(one, Vectors)]
        return known(vectors[0].lanes) if vectors else 1

    @property
    def adjacent(self) -> Expr:
        """The condition that neighbours along the last axis are neighbours in memory."""
        axis: int | None = len(self.shape) - 1
        holds: Expr = YES
        for operation, of in zip(self.operations, self._stages):
            if isinstance(operation, WrittenIndex):
                last = len(of) - 1
                holds = operation.when | (holds if axis == last else NO)
                axis = last
            elif axis is not None:
                axis, more = operation.unit(axis)
                holds = holds & more
        return holds if axis == len(self.lengths) - 1 else NO

    def at(self, *index: Any, bounds: Bounds | None = None) -> ReadPlace:
        """Return where the number of this index lies. ``bounds``: of the names in it."""
        bounds = bounds or Bounds()
        at: Indices = tuple(map(expr, index))
        inside: Expr = YES
        for operation, of in reversed([*zip(self.operations, self._stages)]):
            at, here = operation.back(of, at, bounds)
            inside = here & inside
        address = expr(0)
        for one, length in zip(at, self.shape):
            address = address * length + one
        return ReadPlace(self.array, simplified(address), inside, self.lanes)

    def _with(self, operation: Operation) -> IndexView:
        for condition in operation.conditions(self.lengths):
            condition.check()
        return replace(self, operations=(*self.operations, operation))

    def pad(self, axis: int, before: Any, after: Any, mode: str = "zeros") -> IndexView:
        """Return it with numbers before and after an axis; see `PadAxis`."""
        if expr(before) == NO == expr(after):
            return self
        return self._with(PadAxis(axis, expr(before), expr(after), mode))

    def slide(self, axis: int, size: Any, step: Any = 1) -> IndexView:
        """Return windows along an axis. What is left over behind the last is in none."""
        return self._with(Slide(axis, expr(size), expr(step)))

    def slide_strict(self, axis: int, size: Any, step: Any = 1) -> IndexView:
        """Return windows along an axis that leave nothing over."""
        return self._with(Slide(axis, expr(size), expr(step), strict=True))

    def every(self, axis: int, step: Any) -> IndexView:
        """Return every so many-th of an axis."""
        return self if expr(step) == YES else self._with(Every(axis, expr(step)))

    def first(self, axis: int, count: Any) -> IndexView:
        """Return the first of an axis."""
        return self if self.lengths[axis] == expr(count) else self._with(First(axis, expr(count)))

    def split(self, axis: int, size: Any) -> IndexView:
        """Return an axis in pieces."""
        return self._with(Split(axis, expr(size)))

    def join(self, axis: int) -> IndexView:
        """Return an axis and the next as one."""
        return self._with(JoinAxes(axis))

    def transpose(self, *order: int) -> IndexView:
        """Return the axes in another order."""
        return self._with(Transpose(order))

    def reorder(self, axis: int, stride: Any) -> IndexView:
        """Return an axis read in steps; see `Reorder`."""
        return self if expr(stride) == YES else self._with(Reorder(axis, expr(stride)))

    def reverse(self, axis: int) -> IndexView:
        """Return an axis from its end to its beginning."""
        return self._with(Reverse(axis))

    def vectors(self, lanes: Any) -> IndexView:
        """Return the last axis as vectors. Its numbers must be neighbours in memory."""
        near = equal(lanes, 1) | self.adjacent
        asked = PointCondition("vectors lie in one piece", near)
        return replace(self._with(Vectors(expr(lanes))), given=(*self.given, asked))

    def called(self, axis: int, name: Expr) -> IndexView:
        """Return it with a name for the length of an axis."""
        return self if self.lengths[axis] == name else self._with(Called(axis, name))

    def written(self, array: str, when: Any) -> IndexView:
        """Return the same numbers, in an array of their own where ``when`` is 1."""
        when = expr(when)
        if when == NO:
            return self
        if when == YES:
            return IndexView(array, self.lengths, given=self.conditions)
        return self._with(WrittenIndex(when))


@dataclass(frozen=True)
class Zip:
    """Views side by side: their last ``shared`` axes have the same lengths, and one index."""

    views: tuple[IndexView, ...]
    shared: int

    @property
    def conditions(self) -> tuple[PointCondition, ...]:
        """Those of the views, and that the lengths are the same."""
        first, *others = self.views
        ends = first.lengths[-self.shared :]
        pairs = (pair for one in others for pair in zip(ends, one.lengths[-self.shared :]))
        alike = tuple(same(a, b, "what is zipped is of one length") for a, b in pairs)
        return (*(asked for one in self.views for asked in one.conditions), *alike)
