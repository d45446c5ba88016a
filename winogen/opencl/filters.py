"""Filters transformed on a device: U = G_h g G_w^T, rounded once.

Devices may have no float64. So sums are two floats each, what is rounded off kept beside the sum
(Ogita, Rump and Oishi, Accurate sum and dot product, 2005): as accurate as sums in twice the
precision, whose result is rounded once.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import count
from math import frexp
from typing import TYPE_CHECKING, NamedTuple

from winogen.codegen.ctext import rounded_to_single
from winogen.codegen.devices.expressions import Expr, FunctionCall, Name, Number
from winogen.codegen.devices.statements import Assign, Declare, ForLoop, Let, Statement
from winogen.codegen.transform import Transform

if TYPE_CHECKING:
    from winogen.algebra.scalar import Scalar


class Pair(NamedTuple):
    """A number as the sum of two floats, of which the second is small; None: nothing."""

    high: Expr
    low: Expr | None


class _PairSum:
    """A sum of exact multiples of pairs, term by term."""

    def __init__(self, names: count[int]):
        self.statements: list[Statement] = []
        self.high: Expr | None = None
        self.lows: list[Expr] = []
        self._names = names

    def _let(self, value: Expr) -> Expr:
        let = Let(f"t{next(self._names)}", value)
        self.statements.append(let)
        return let.read

    def add(self, factor: Scalar, value: Pair) -> None:
        """Add ``factor`` times a pair."""
        rounded = rounded_to_single(factor)
        rest = rounded_to_single(factor - Fraction(rounded))
        if abs(rounded) == 1:
            product = value.high if rounded > 0 else self._let(-value.high)
        else:
            product = self._let(Number(rounded) * value.high)
            if not _is_power_of_two(rounded):
                self.lows.append(FunctionCall("fma", (Number(rounded), value.high, -product)))
        if rest:
            self.lows.append(Number(rest) * value.high)
        if value.low is not None:
            self.lows.append(value.low if rounded == 1 else Number(rounded) * value.low)
        if self.high is None:
            self.high = product
            return
        before, total = self.high, self._let(self.high + product)
        part = self._let(total - before)
        self.lows.append((before - (total - part)) + (product - part))
        self.high = total

    def pair(self) -> Pair:
        """Return the sum of all terms."""
        if self.high is None:
            return Pair(Number(0.0), None)
        low: Expr | None = None
        for one in self.lows:
            low = self._let(one if low is None else low + one)
        return Pair(self.high, low)


def _is_power_of_two(value: float) -> bool:
    return abs(frexp(value)[0]) == 0.5


def transformed(
    height: Transform, width: Transform, taps: Declare
) -> tuple[list[Statement], list[Statement], list[Expr]]:
    """Return what transforms the ``taps`` of a filter, r_h x r_w numbers of the work-item's own.

    First come statements that transform its columns, then those of one row of the result, the
    variable ``a``, and the expressions of the numbers of that row.
    """
    names = count()
    (_, taps_w), rows = taps.shape, height.products
    high = Declare("half_high", (rows, taps_w))
    low = Declare("half_low", (rows, taps_w))
    q, a = Name("q"), Name("a")
    columns: list[Statement] = []
    for row, factors in enumerate(height.g):
        total = _PairSum(names)
        for k, factor in enumerate(factors):
            if factor != 0:
                total.add(factor, Pair(taps[k, q], None))
        pair = total.pair()
        columns += [*total.statements, Assign(high[row, q], pair.high)]
        columns.append(Assign(low[row, q], pair.low or Number(0.0)))
    over_columns = ForLoop("q", Number(0), Number(taps_w), Number(1), tuple(columns))
    first: list[Statement] = [high, low, over_columns]
    second: list[Statement] = []
    numbers: list[Expr] = []
    for factors in width.g:
        total = _PairSum(names)
        for k, factor in enumerate(factors):
            if factor != 0:
                total.add(factor, Pair(high[a, k], low[a, k]))
        pair = total.pair()
        second += total.statements
        numbers.append(pair.high if pair.low is None else pair.high + pair.low)
    return first, second, numbers
