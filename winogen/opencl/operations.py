"""Layout operations: each changes the lengths of axes, and says where an index came from.

They are records without an array; `winogen.opencl.maps` applies them to one.
"""

from __future__ import annotations

from dataclasses import dataclass

from winogen.codegen.devices.expressions import Expr, FunctionCall, Number, Select
from winogen.opencl.conditions import PointCondition, at_least, divisible
from winogen.opencl.indices import (
    Bounds,
    equal,
    quotient,
    remainder,
    simplified,
    sum_of,
    terms_of,
)

Lengths = tuple[Expr, ...]
Indices = tuple[Expr, ...]
YES, NO = Number(1), Number(0)


class Operation:
    """A layout operation, without the array that it is applied to. Each says what it changes."""

    axis: int

    def lengths(self, of: Lengths) -> Lengths:
        """Return the lengths of the result."""
        return of

    def conditions(self, of: Lengths) -> tuple[PointCondition, ...]:
        """Return what has to hold of the lengths."""
        return ()

    def back(self, of: Lengths, index: Indices, bounds: Bounds) -> tuple[Indices, Expr]:
        """Return the index in what it is applied to, and whether a number is there at all."""
        return index, YES

    def unit(self, axis: int) -> tuple[int | None, Expr]:
        """Return along which axis of the result neighbours stay neighbours, and if what holds.

        ``axis``: along which they are such before.
        """
        return axis, YES


def _put(values: tuple[Expr, ...], axis: int, size: int, *new: Expr) -> tuple[Expr, ...]:
    """The same with others instead of the ``size`` from an axis on."""
    return (*values[:axis], *new, *values[axis + size :])


@dataclass(frozen=True)
class PadAxis(Operation):
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
        at, size = simplified(index[self.axis] - self.before), known(of[self.axis])
        inside: Expr = YES
        high = known(self.after) > 0
        if self.mode == "zeros":
            inside = _not_below(at) & (_below(at, size, bounds) if high else YES)
        elif self.mode == "replicate":
            at = FunctionCall("max", (at, NO)) if _not_below(at) != YES else at
            at = FunctionCall("min", (at, Number(size - 1))) if high else at
        else:
            mirror = self.mode == "reflect"
            before, after = (0 - at, 2 * (size - 1) - at) if mirror else (at + size, at - size)
            is_before_end = _below(at, size, bounds) if high else YES
            at = _selected(_not_below(at), _selected(is_before_end, at, after), before)
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

    def conditions(self, of: Lengths) -> tuple[PointCondition, ...]:
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

    def conditions(self, of: Lengths) -> tuple[PointCondition, ...]:
        return (at_least(of[self.axis], self.count, "a crop leaves what there is"),)


@dataclass(frozen=True)
class Split(Operation):
    """An axis as pieces of ``size``: an axis of pieces, then one of their numbers."""

    axis: int
    size: Expr

    def lengths(self, of: Lengths) -> Lengths:
        return _put(of, self.axis, 1, of[self.axis] // self.size, self.size)

    def conditions(self, of: Lengths) -> tuple[PointCondition, ...]:
        return (divisible(of[self.axis], self.size, "pieces are equal"),)

    def back(self, of: Lengths, index: Indices, bounds: Bounds) -> tuple[Indices, Expr]:
        at = index[self.axis] * self.size + index[self.axis + 1]
        return _put(index, self.axis, 2, at), YES

    def unit(self, axis: int) -> tuple[int | None, Expr]:
        return axis + (axis >= self.axis), YES


@dataclass(frozen=True)
class JoinAxes(Operation):
    """An axis and the next as one: what `Split` undoes."""

    axis: int

    def lengths(self, of: Lengths) -> Lengths:
        return _put(of, self.axis, 2, of[self.axis] * of[self.axis + 1])

    def back(self, of: Lengths, index: Indices, bounds: Bounds) -> tuple[Indices, Expr]:
        at, size = index[self.axis], known(of[self.axis + 1])
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

    def conditions(self, of: Lengths) -> tuple[PointCondition, ...]:
        return (divisible(of[self.axis], self.stride, "steps come out even"),)

    def back(self, of: Lengths, index: Indices, bounds: Bounds) -> tuple[Indices, Expr]:
        at, run = index[self.axis], known(of[self.axis]) // known(self.stride)
        moved = remainder(at, run, bounds) * self.stride + quotient(at, run, bounds)
        return _put(index, self.axis, 1, moved), YES

    def unit(self, axis: int) -> tuple[int | None, Expr]:
        return axis, (equal(self.stride, 1) if axis == self.axis else YES)


@dataclass(frozen=True)
class Reverse(Operation):
    """An axis from its end to its beginning: the taps of a transposed layer, as inputs see them."""

    axis: int

    def lengths(self, of: Lengths) -> Lengths:
        return of

    def back(self, of: Lengths, index: Indices, bounds: Bounds) -> tuple[Indices, Expr]:
        return _put(index, self.axis, 1, of[self.axis] - 1 - index[self.axis]), YES

    def unit(self, axis: int) -> tuple[int | None, Expr]:
        return axis, (NO if axis == self.axis else YES)


@dataclass(frozen=True)
class Vectors(Operation):
    """The last axis as vectors of so many lanes, which are read at once."""

    lanes: Expr

    def lengths(self, of: Lengths) -> Lengths:
        return (*of[:-1], of[-1] // self.lanes)

    def conditions(self, of: Lengths) -> tuple[PointCondition, ...]:
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


@dataclass(frozen=True)
class WrittenIndex(Operation):
    """Changes nothing, but is in an array of its own where ``when`` holds, with all neighbours."""

    when: Expr


def _selected(condition: Expr, yes: Expr, no: Expr) -> Expr:
    """One of two, without what is certain."""
    return yes if condition == YES else Select(condition, yes, no)


def _not_below(at: Expr) -> Expr:
    """The condition that an index is not negative, without what is certain."""
    terms, constant = terms_of(at)
    positive = all(count > 0 for count in terms.values())
    return YES if positive and constant >= 0 else sum_of(terms) >= -constant


def _below(at: Expr, end: int, bounds: Bounds) -> Expr:
    """The condition that an index is below an end, without what is certain."""
    terms, constant = terms_of(at)
    most = bounds.most(sum_of(terms))
    return YES if most is not None and most + constant < end else sum_of(terms) < end - constant


def known(length: Expr) -> int:
    """Return a length as a number."""
    if isinstance(length, Number) and isinstance(length.value, int):
        return length.value
    raise TypeError(f"a length that is not decided yet: {length}")
