"""Layout operations: what an array looks like to a kernel, composed into one index map.

An operation changes the lengths of the axes, and says where an index into the result lies in what
it was applied to. A `View` is an array and the operations on it, from the array outwards: an index
into the view goes back through all of them to an address. No number is moved. After Hagedorn and
others, "High performance stencil code generation with Lift", CGO 2018; the rewrite rules of that
paper are left out on purpose, for a kernel here is one scheme with parameters.

>>> from winogen.codegen.devices.expressions import Name
>>> from winogen.opencl.indices import Bounds, function_of
>>> row, column = Name("row"), Name("column")
>>> blocks = View.of("x", 4, 6).split(1, 3).transpose(1, 0, 2)   # 2 halves of 4 rows of 3
>>> [length.value for length in blocks.lengths]
[2, 4, 3]
>>> place = blocks.at(1, row, column, bounds=Bounds({row: 4, column: 3}))
>>> function_of(place.index)({"row": 2, "column": 1})
16

Lengths may be expressions of parameters that are not decided yet: then nobody can ask for an
address, but `View.conditions` says what the parameters must satisfy. So a scheme is written once,
and its constraints follow from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any

from winogen.codegen.devices.expressions import (
    Call,
    Expr,
    Load,
    Number,
    Select,
    Splat,
    expr,
)
from winogen.opencl.conditions import Condition, at_least, divisible, same
from winogen.opencl.indices import Bounds, divides, equal, quotient, remainder, simplified

Lengths = tuple[Expr, ...]
Indices = tuple[Expr, ...]
YES, NO = Number(1), Number(0)


class Operation:
    """A layout operation, without the array that it is applied to."""

    axis: int

    def lengths(self, of: Lengths) -> Lengths:
        """Return the lengths of the result."""
        raise NotImplementedError

    def conditions(self, of: Lengths) -> tuple[Condition, ...]:
        """Return what has to hold of the lengths."""
        return ()

    def back(self, of: Lengths, index: Indices, bounds: Bounds) -> tuple[Indices, Expr]:
        """Return the index in what it is applied to, and whether a number is there at all."""
        raise NotImplementedError

    def unit(self, axis: int) -> tuple[int | None, Expr]:
        """Return along which axis of the result neighbours stay neighbours, and if what holds.

        ``axis``: along which they are such before.
        """
        raise NotImplementedError


def _put(values: tuple[Expr, ...], axis: int, size: int, *new: Expr) -> tuple[Expr, ...]:
    """The same with others instead of the ``size`` from an axis on."""
    return (*values[:axis], *new, *values[axis + size :])


@dataclass(frozen=True)
class Pad(Operation):
    """Adds numbers before and after an axis: zeros, or of the array as a padding mode says.

    A negative ``after`` leaves out the end.
    """

    axis: int
    before: Expr
    after: Expr
    mode: str = "zeros"

    def lengths(self, of: Lengths) -> Lengths:
        return _put(of, self.axis, 1, of[self.axis] + self.before + self.after)

    def back(self, of: Lengths, index: Indices, bounds: Bounds) -> tuple[Indices, Expr]:
        at, size = simplified(index[self.axis] - self.before), _known(of[self.axis])
        inside = YES
        low, high = _known(self.before) > 0, _known(self.after) > 0
        if self.mode == "zeros":
            inside = (at >= 0 if low else YES) & (at < size if high else YES)
        elif self.mode == "reflect":
            at = Select(at < 0, 0 - at, at) if low else at
            at = Select(at >= size, 2 * (size - 1) - at, at) if high else at
        elif self.mode == "replicate":
            at = Call("max", (at, NO)) if low else at
            at = Call("min", (at, Number(size - 1))) if high else at
        else:  # circular
            at = Select(at < 0, at + size, at) if low else at
            at = Select(at >= size, at - size, at) if high else at
        return _put(index, self.axis, 1, at), inside

    def unit(self, axis: int) -> tuple[int | None, Expr]:
        if axis != self.axis:
            return axis, YES
        return axis, equal(self.before, 0) & equal(self.after, 0)


@dataclass(frozen=True)
class Slide(Operation):
    """Windows along an axis, which may overlap: an axis of windows, then one of their numbers.

    ``strict``: no number is left over behind the last window.
    """

    axis: int
    size: Expr
    step: Expr
    strict: bool = False

    def lengths(self, of: Lengths) -> Lengths:
        windows = (of[self.axis] - self.size) // self.step + 1
        return _put(of, self.axis, 1, windows, self.size)

    def conditions(self, of: Lengths) -> tuple[Condition, ...]:
        length = of[self.axis]
        fits = at_least(length, self.size, "a window fits"), at_least(self.step, 1, "a step is one")
        rest = divisible(length - self.size, self.step, "windows leave no rest")
        return (*fits, rest) if self.strict else fits

    def back(self, of: Lengths, index: Indices, bounds: Bounds) -> tuple[Indices, Expr]:
        at = index[self.axis] * self.step + index[self.axis + 1]
        return _put(index, self.axis, 2, at), YES

    def unit(self, axis: int) -> tuple[int | None, Expr]:
        return axis + (axis >= self.axis), YES


@dataclass(frozen=True)
class Every(Operation):
    """The first of an axis and every so many-th after it: the taps of a dilated filter."""

    axis: int
    step: Expr

    def lengths(self, of: Lengths) -> Lengths:
        return _put(of, self.axis, 1, (of[self.axis] - 1) // self.step + 1)

    def back(self, of: Lengths, index: Indices, bounds: Bounds) -> tuple[Indices, Expr]:
        return _put(index, self.axis, 1, index[self.axis] * self.step), YES

    def unit(self, axis: int) -> tuple[int | None, Expr]:
        return axis, (equal(self.step, 1) if axis == self.axis else YES)


@dataclass(frozen=True)
class First(Operation):
    """The first ``count`` of an axis: what a crop leaves."""

    axis: int
    count: Expr

    def lengths(self, of: Lengths) -> Lengths:
        return _put(of, self.axis, 1, self.count)

    def conditions(self, of: Lengths) -> tuple[Condition, ...]:
        return (at_least(of[self.axis], self.count, "a crop leaves what there is"),)

    def back(self, of: Lengths, index: Indices, bounds: Bounds) -> tuple[Indices, Expr]:
        return index, YES

    def unit(self, axis: int) -> tuple[int | None, Expr]:
        return axis, YES


@dataclass(frozen=True)
class Split(Operation):
    """An axis as pieces of ``size``: an axis of pieces, then one of their numbers."""

    axis: int
    size: Expr

    def lengths(self, of: Lengths) -> Lengths:
        return _put(of, self.axis, 1, of[self.axis] // self.size, self.size)

    def conditions(self, of: Lengths) -> tuple[Condition, ...]:
        return (divisible(of[self.axis], self.size, "pieces are equal"),)

    def back(self, of: Lengths, index: Indices, bounds: Bounds) -> tuple[Indices, Expr]:
        at = index[self.axis] * self.size + index[self.axis + 1]
        return _put(index, self.axis, 2, at), YES

    def unit(self, axis: int) -> tuple[int | None, Expr]:
        return axis + (axis >= self.axis), YES


@dataclass(frozen=True)
class Join(Operation):
    """An axis and the next as one: what `Split` undoes."""

    axis: int

    def lengths(self, of: Lengths) -> Lengths:
        return _put(of, self.axis, 2, of[self.axis] * of[self.axis + 1])

    def back(self, of: Lengths, index: Indices, bounds: Bounds) -> tuple[Indices, Expr]:
        at, size = index[self.axis], _known(of[self.axis + 1])
        both = quotient(at, size, bounds), remainder(at, size, bounds)
        return _put(index, self.axis, 1, *both), YES

    def unit(self, axis: int) -> tuple[int | None, Expr]:
        if axis in (self.axis, self.axis + 1):
            return None, NO
        return axis - (axis > self.axis), YES


@dataclass(frozen=True)
class Transpose(Operation):
    """The axes in another order: axis k of the result is axis ``order[k]``."""

    order: tuple[int, ...]

    def lengths(self, of: Lengths) -> Lengths:
        return tuple(of[axis] for axis in self.order)

    def back(self, of: Lengths, index: Indices, bounds: Bounds) -> tuple[Indices, Expr]:
        return tuple(index[self.order.index(axis)] for axis in range(len(of))), YES

    def unit(self, axis: int) -> tuple[int | None, Expr]:
        return self.order.index(axis), YES


@dataclass(frozen=True)
class Reorder(Operation):
    """An axis read in steps: number i is number (i % (n / stride)) · stride + i / (n / stride).

    What is split behind it into pieces of n / stride deals the numbers round-robin: piece k has
    the numbers k, k + stride, ... A stride of 1 changes nothing.
    """

    axis: int
    stride: Expr

    def lengths(self, of: Lengths) -> Lengths:
        return of

    def conditions(self, of: Lengths) -> tuple[Condition, ...]:
        return (divisible(of[self.axis], self.stride, "steps come out even"),)

    def back(self, of: Lengths, index: Indices, bounds: Bounds) -> tuple[Indices, Expr]:
        at, run = index[self.axis], _known(of[self.axis]) // _known(self.stride)
        moved = remainder(at, run, bounds) * self.stride + quotient(at, run, bounds)
        return _put(index, self.axis, 1, moved), YES

    def unit(self, axis: int) -> tuple[int | None, Expr]:
        return axis, (equal(self.stride, 1) if axis == self.axis else YES)


@dataclass(frozen=True)
class Vectors(Operation):
    """The last axis as vectors of so many lanes, which are read at once."""

    lanes: Expr

    def lengths(self, of: Lengths) -> Lengths:
        return (*of[:-1], of[-1] // self.lanes)

    def conditions(self, of: Lengths) -> tuple[Condition, ...]:
        return (divisible(of[-1], self.lanes, "vectors are whole"),)

    def back(self, of: Lengths, index: Indices, bounds: Bounds) -> tuple[Indices, Expr]:
        return (*index[:-1], index[-1] * self.lanes), YES

    def unit(self, axis: int) -> tuple[int | None, Expr]:
        return axis, equal(self.lanes, 1)


@dataclass(frozen=True)
class Called(Operation):
    """Changes nothing, but gives the length of an axis a name that constraints use."""

    axis: int
    name: Expr

    def lengths(self, of: Lengths) -> Lengths:
        return _put(of, self.axis, 1, self.name)

    def back(self, of: Lengths, index: Indices, bounds: Bounds) -> tuple[Indices, Expr]:
        return index, YES

    def unit(self, axis: int) -> tuple[int | None, Expr]:
        return axis, YES


@dataclass(frozen=True)
class Written(Operation):
    """Changes nothing, but is in an array of its own where ``when`` holds, with all neighbours."""

    when: Expr

    def lengths(self, of: Lengths) -> Lengths:
        return of

    def back(self, of: Lengths, index: Indices, bounds: Bounds) -> tuple[Indices, Expr]:
        return index, YES


@dataclass(frozen=True)
class Place:
    """Where a number or a vector lies in an array, and whether it does: else it is zero."""

    array: str
    index: Expr
    inside: Expr = YES
    lanes: int = 1

    @property
    def load(self) -> Expr:
        """What is there. Nothing outside of the array is read."""
        aligned = self.lanes > 1 and divides(self.lanes, self.index)
        if self.inside == YES:
            return Load(self.array, self.index, self.lanes, aligned)
        read = Load(self.array, Select(self.inside, self.index, NO), self.lanes, aligned)
        zero = Number(0.0) if self.lanes == 1 else Splat(Number(0.0), self.lanes)
        return Select(self.inside, read, zero)


@dataclass(frozen=True)
class View:
    """An array and the layout operations on it; immutable, every operation returns another.

    ``given`` are conditions of what the array was made from.
    """

    array: str
    shape: Lengths
    operations: tuple[Operation, ...] = ()
    given: tuple[Condition, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, array: str, *shape: Any) -> View:
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
        return tuple(map(_known, self.lengths))

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What the operations ask of their lengths, in their order."""
        pairs = zip(self.operations, self._stages)
        asked = (one for operation, of in pairs for one in operation.conditions(of))
        return (*self.given, *asked)

    @property
    def lanes(self) -> int:
        """The lanes of what is read at once."""
        vectors = [one for one in self.operations if isinstance(one, Vectors)]
        return _known(vectors[0].lanes) if vectors else 1

    @property
    def adjacent(self) -> Expr:
        """The condition that neighbours along the last axis are neighbours in memory."""
        axis: int | None = len(self.shape) - 1
        holds: Expr = YES
        for operation, of in zip(self.operations, self._stages):
            if isinstance(operation, Written):
                last = len(of) - 1
                holds = operation.when | (holds if axis == last else NO)
                axis = last
            elif axis is not None:
                axis, more = operation.unit(axis)
                holds = holds & more
        return holds if axis == len(self.lengths) - 1 else NO

    def at(self, *index: Any, bounds: Bounds | None = None) -> Place:
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
        return Place(self.array, simplified(address), inside, self.lanes)

    def _with(self, operation: Operation) -> View:
        return replace(self, operations=(*self.operations, operation))

    def pad(self, axis: int, before: Any, after: Any, mode: str = "zeros") -> View:
        """Return it with numbers before and after an axis; see `Pad`."""
        if expr(before) == NO == expr(after):
            return self
        return self._with(Pad(axis, expr(before), expr(after), mode))

    def pad_sides(
        self, axis: int, sides: tuple[int, int, int, int], mode: str = "zeros"
    ) -> View:
        """Return it padded at the top, bottom, left and right, the height being ``axis``."""
        top, bottom, left, right = sides
        return self.pad(axis, top, bottom, mode).pad(axis + 1, left, right, mode)

    def slide(self, axis: int, size: Any, step: Any = 1) -> View:
        """Return windows along an axis. What is left over behind the last is in none."""
        return self._with(Slide(axis, expr(size), expr(step)))

    def slide_strict(self, axis: int, size: Any, step: Any = 1) -> View:
        """Return windows along an axis that leave nothing over."""
        return self._with(Slide(axis, expr(size), expr(step), strict=True))

    def every(self, axis: int, step: Any) -> View:
        """Return every so many-th of an axis."""
        return self if expr(step) == YES else self._with(Every(axis, expr(step)))

    def first(self, axis: int, count: Any) -> View:
        """Return the first of an axis."""
        return self if self.lengths[axis] == expr(count) else self._with(First(axis, expr(count)))

    def split(self, axis: int, size: Any) -> View:
        """Return an axis in pieces."""
        return self._with(Split(axis, expr(size)))

    def join(self, axis: int) -> View:
        """Return an axis and the next as one."""
        return self._with(Join(axis))

    def transpose(self, *order: int) -> View:
        """Return the axes in another order."""
        return self._with(Transpose(order))

    def reorder(self, axis: int, stride: Any) -> View:
        """Return an axis read in steps; see `Reorder`."""
        return self if expr(stride) == YES else self._with(Reorder(axis, expr(stride)))

    def vectors(self, lanes: Any) -> View:
        """Return the last axis as vectors. Its numbers must be neighbours in memory."""
        near = equal(lanes, 1) | self.adjacent
        asked = Condition("vectors lie in one piece", near)
        return replace(self._with(Vectors(expr(lanes))), given=(*self.given, asked))

    def called(self, axis: int, name: Expr) -> View:
        """Return it with a name for the length of an axis."""
        return self if self.lengths[axis] == name else self._with(Called(axis, name))

    def written(self, array: str, when: Any) -> View:
        """Return the same numbers, in an array of their own where ``when`` is 1."""
        when = expr(when)
        if when == NO:
            return self
        if when == YES:
            return View(array, self.lengths, given=self.conditions)
        return self._with(Written(when))


@dataclass(frozen=True)
class Zip:
    """Views side by side: their last ``shared`` axes have the same lengths, and one index."""

    views: tuple[View, ...]
    shared: int

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Those of the views, and that the lengths are the same."""
        first, *others = self.views
        ends = first.lengths[-self.shared :]
        pairs = (pair for one in others for pair in zip(ends, one.lengths[-self.shared :]))
        alike = tuple(same(a, b, "what is zipped is of one length") for a, b in pairs)
        return reduce(_joined, (one.conditions for one in self.views), ()) + alike


def _joined(one: tuple[Condition, ...], other: tuple[Condition, ...]) -> tuple[Condition, ...]:
    return one + other


def _known(length: Expr) -> int:
    if isinstance(length, Number) and isinstance(length.value, int):
        return length.value
    raise TypeError(f"a length that is not decided yet: {length}")
