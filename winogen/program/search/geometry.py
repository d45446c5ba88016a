"""Linear forms up to scale, as points: integer coordinates, lines through two points.

A rational row up to scale is a tuple of coprime integers whose first non-zero one is positive, so
equal points are equal tuples and all tests are exact and fast. Rows with irrational quotients keep
exact scalars, the first non-zero one being 1.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from math import gcd, lcm
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from winogen.algebra.scalar import Scalar

# Coprime integers; exact scalars where a quotient is irrational.
Point: TypeAlias = tuple[Any, ...]
# Exact scalars as what is hashed fast.
Key: TypeAlias = tuple[Any, ...]


def point_of(row: Sequence[Scalar]) -> Point | None:
    """A row of exact scalars up to scale; None for a row of zeros."""
    lead = next((c for c in row if c != 0), None)
    if lead is None:
        return None
    rationals = [c for c in row if isinstance(c, Fraction)]
    if len(rationals) < len(row):
        row = [c / lead for c in row]
        rationals = [c for c in row if isinstance(c, Fraction)]
        if len(rationals) < len(row):
            return tuple(row)
    common = lcm(*(c.denominator for c in rationals))
    return primitive([c.numerator * (common // c.denominator) for c in rationals])


def hashable(values: Iterable[Scalar]) -> Key:
    """Exact scalars as a key: equal keys for equal scalars, hashed much faster than fractions."""
    return tuple([(c.numerator, c.denominator) if type(c) is Fraction else c for c in values])


def is_rational(point: Point) -> bool:
    """Whether all quotients of coordinates are rational."""
    return all(isinstance(c, int) for c in point)


def primitive(values: Sequence[int]) -> Point | None:
    """Coprime integers, the first non-zero one positive; None for all zero."""
    divisor = gcd(*values)
    if divisor == 0:
        return None
    for c in values:
        if c:
            if c < 0:
                divisor = -divisor
            break
    return tuple(values) if divisor == 1 else tuple([c // divisor for c in values])


def pivot_of(point: Point) -> int:
    """The first coordinate that is not zero."""
    return next(j for j, c in enumerate(point) if c)


def modulo(point: Point, pivot: int, by: Point) -> Point | None:
    """The image of ``point`` when ``by`` becomes zero: coordinate ``pivot`` is eliminated.

    Two points have the same image when their line goes through ``by``. None for ``by`` itself.
    """
    f, g = by[pivot], point[pivot]
    if g == 0:
        return point
    return primitive([f * c - g * d for c, d in zip(point, by)])


class Lines:
    """Which points of whole numbers may lie on a line through another one, told by residues.

    A line through a point is known by two sums of coordinates modulo a prime: of points on one line
    their quotients agree, of others hardly ever. So few points are left for `modulo`, whose numbers
    are long.
    """

    _PRIME = 2**61 - 1

    def __init__(self, points: Sequence[Point]) -> None:
        self._pivots = [pivot_of(point) for point in points]
        self._points = points
        rng = random.Random(0)
        self._sums: list[list[int]] = []
        for _ in range(2):
            factors = [rng.randrange(self._PRIME) for _ in points[0]]
            sums = (sum(f * c for f, c in zip(factors, point)) for point in points)
            self._sums.append([total % self._PRIME for total in sums])

    def shared(self, node: int) -> list[int]:
        """Return the points before ``node`` that may be on a line through it with another one."""
        prime, pivot, (first, last) = self._PRIME, self._pivots[node], self._sums
        lead = self._points[node][pivot]
        a, b = first[node], last[node]
        along = [point[pivot] for point in self._points[:node]]
        above = [(lead * s - c * a) % prime for s, c in zip(first, along)]
        below = [(lead * s - c * b) % prime for s, c in zip(last, along)]
        slots = [p * inverse % prime for p, inverse in zip(above, _inverses(below, prime))]
        counts = Counter(slots)
        return [k for k, slot in enumerate(slots) if counts[slot] > 1]


def _inverses(numbers: Sequence[int], prime: int) -> list[int]:
    """Return the inverses of numbers modulo a prime by one division; of 0 it is 0.

    >>> _inverses([1, 2, 0, 3], 7)
    [1, 4, 0, 5]
    """
    products, product = [], 1
    for number in numbers:  # of all before each
        products.append(product)
        product = product * (number or 1) % prime
    inverse = pow(product, -1, prime)
    found = []
    for number, before in zip(reversed(numbers), reversed(products)):
        found.append(inverse * before % prime if number else 0)
        inverse = inverse * (number or 1) % prime
    return found[::-1]


def modulo_any(point: Point, pivot: int, by: Point) -> Point | None:
    """``modulo`` for points that may be irrational."""
    if is_rational(point) and is_rational(by):
        return modulo(point, pivot, by)
    factor = Fraction(1) * point[pivot] / by[pivot]
    return point_of([Fraction(1) * c - factor * d for c, d in zip(point, by)])


def equal_pairs(points: Iterable[Point | None]) -> list[tuple[int, int]]:
    """Index pairs of equal points, None left out, in order."""
    places: dict[Point, list[int]] = {}
    for i, point in enumerate(points):
        if point is not None:
            places.setdefault(point, []).append(i)
    return [pair for group in places.values() for pair in combinations(group, 2)]


def constants_of(target: Point, points: Sequence[Point]) -> list[int] | None:
    """Integers c with target ~ sum c[i] points[i]; None unless they are unique and none is zero.

    The target must depend on the points.
    """
    # Coordinate by coordinate, until as many equations are independent as there are points.
    count = len(points)
    # (position of a point, the equation that it was eliminated with)
    solved: list[tuple[int, Sequence[int]]] = []
    equations: Iterator[Sequence[int]] = zip(*points, target)
    for row in equations:
        for j, equation in solved:
            g = row[j]
            if g:
                f = equation[j]
                row = [f * c - g * d for c, d in zip(row, equation)]
        for j in range(count):
            if row[j]:
                solved.append((j, row))
                break
        if len(solved) == count:
            break
    else:
        return None
    result = [0] * count
    common = 1  # result * points = common * target, for the solved rows
    for j, row in reversed(solved):
        excess = row[count] * common
        for c, x in zip(row, result):
            if x:
                excess -= c * x
        if excess == 0:
            return None
        scale = row[j] // gcd(excess, row[j])
        if scale != 1:
            result = [x * scale for x in result]
            common *= scale
        result[j] = excess * scale // row[j]
    return result if common > 0 else [-x for x in result]


def between(
    form: Sequence[Scalar], p: Sequence[Scalar], q: Sequence[Scalar]
) -> tuple[Scalar, Scalar] | None:
    """(a, b) with form = a p + b q for exact rows on one line; None where p and q are one point."""
    i = next((k for k, (c, d) in enumerate(zip(p, q)) if c != 0 or d != 0), len(p))
    for j in range(i + 1, len(p)):
        if p[j] == 0 and q[j] == 0:
            continue
        det = p[i] * q[j] - p[j] * q[i]
        if det != 0:
            a = (form[i] * q[j] - form[j] * q[i]) / det
            b = (p[i] * form[j] - p[j] * form[i]) / det
            return a, b
    return None
