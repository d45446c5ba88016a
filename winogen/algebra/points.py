"""Interpolation points: reading them, checking them, and good ones for every n up to 18."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import index
from typing import TypeAlias

from winogen.algebra.parse import split_list
from winogen.algebra.scalar import Scalar, as_scalar
from winogen.algebra.size import check_bits, listed, shown
from winogen.errors import InvalidType, InvalidValue
from winogen.spelling import ITERATED, WITHIN

INFINITY = "inf"  # the point at infinity, beside the scalars
LARGEST_STRIDE = 1000
Point: TypeAlias = Scalar | str  # the only texts among them are INFINITY, WITHIN and ITERATED


@dataclass(frozen=True)
class PointSet:
    """Interpolation points and where they come from; iterates over the points.

    >>> str(PointSet(parse_points("0,1,inf"), "a book"))
    '0, 1, inf'
    """

    points: tuple[Point, ...]
    source: str

    def __iter__(self) -> Iterator[Point]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def __str__(self) -> str:
        return ", ".join(map(str, self.points))


def parse_points(text: str | Iterable[object]) -> tuple[Point, ...]:
    """Return points, given as "0,1,-1,1/2,inf" or one by one, as exact scalars and ``INFINITY``.

    "0,1,inf; 0,1,-1,inf" has those of two algorithms, see `winogen.algebra.iterated`; between them
    is ``WITHIN``. "iterated" alone stays what it is: which points that means depends on m and r.

    Raises
    ------
    InvalidValue, InvalidType
        A point is not an exact real number; see ``as_scalar``.

    >>> parse_points("0, -1/2, inf")
    (Fraction(0, 1), Fraction(-1, 2), 'inf')
    """
    if isinstance(text, str):
        first, *others = map(split_list, text.split(WITHIN))
        text = first + [item for one in others for item in (WITHIN, *one)]
    elif not isinstance(text, Iterable):
        raise InvalidType(
            f"points: got {text!r} of type {type(text).__name__}; "
            "allowed: a list of points or text such as '0,1,-1,inf'"
        )
    items = list(text)
    if len(items) == 1 and isinstance(items[0], str) and items[0].strip().lower() == ITERATED:
        return (ITERATED,)
    return tuple(map(_as_point, items))


def _as_point(item: object) -> Point:
    if isinstance(item, str) and item.strip() == WITHIN:
        return WITHIN
    return INFINITY if is_infinity(item) else check_bits(as_scalar(item, "points"), "points")


def is_infinity(value: object) -> bool:
    """Whether ``value`` names the point at infinity: "inf", float("inf") or sympy.oo.

    There is only one; -inf is the same point, but is refused to keep one name for it.
    """
    if isinstance(value, str):
        return value.strip(" ").lower() in (INFINITY, "infinity", "∞", "oo")
    if isinstance(value, float):
        return value == math.inf
    sympy = sys.modules.get("sympy")
    return sympy is not None and value is sympy.oo


def check_size(m: int, r: int) -> tuple[int, int, int]:
    """Return (m, r, n = m + r - 1) after checking that m and r are integers >= 1."""
    sizes = []
    for name, value in (("m", m), ("r", r)):
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise InvalidType(
                f"{name}: got {value!r} of type {type(value).__name__}; allowed: an integer >= 1"
            )
        if value < 1:
            raise InvalidValue(f"{name}: got {shown(value)}; allowed: an integer >= 1")
        sizes.append(index(value))
    return sizes[0], sizes[1], sum(sizes) - 1


def check_stride(stride: object) -> int:
    """Return the stride after checking that it is an integer >= 1."""
    allowed = "allowed: an integer >= 1"
    if isinstance(stride, bool) or not hasattr(stride, "__index__"):
        raise InvalidType(f"stride: got {stride!r} of type {type(stride).__name__}; {allowed}")
    if index(stride) < 1:
        raise InvalidValue(f"stride: got {shown(index(stride))}; {allowed}")
    if index(stride) > LARGEST_STRIDE:
        raise InvalidValue(
            f"stride: got {shown(index(stride))}; allowed: an integer <= {LARGEST_STRIDE}"
        )
    return index(stride)


def check_points(m: int, r: int, points: str | Iterable[object]) -> tuple[Point, ...]:
    """Return ``points`` as exact scalars after checking their number and that they differ."""
    m, r, n = check_size(m, r)
    parsed = parse_points(points)
    if len(parsed) != n:
        raise InvalidValue(
            f"points: got {len(parsed)} ({listed(parsed)}); "
            f"allowed: {shown(n)} = m + r - 1 points for F({shown(m)},{shown(r)})"
        )
    seen = set()
    for p in parsed:
        if p in seen:
            raise InvalidValue(f"points: got {shown(p)} twice; allowed: {n} distinct points")
        seen.add(p)
    return parsed


def default_points(m: int, r: int) -> PointSet:
    """Return good points for F(m, r), a function of n = m + r - 1 <= 18, and their source.

    Raises
    ------
    InvalidValue
        n > 18, or m or r < 1.

    >>> print(default_points(4, 3))
    0, 5/8, -5/8, 3/2, -3/2, inf
    """
    m, r, n = check_size(m, r)
    if n not in DEFAULT_SIZES:
        raise InvalidValue(
            f"m, r: got F({shown(m)},{shown(r)}) with n = m + r - 1 = {shown(n)}; "
            f"allowed: n <= {max(DEFAULT_SIZES)} for default points, else give points="
        )
    text, source = _DEFAULT[n]
    points: list[Point] = []
    for item in text.split():
        if item.startswith("±"):
            points += [as_scalar(item[1:]), -as_scalar(item[1:])]
        else:
            points.append(INFINITY if item == INFINITY else as_scalar(item))
    return PointSet(tuple(points), source)


_CLASSIC = "classic (Winograd 1980; Lavin & Gray, arXiv 1509.09308)"
_BARABASZ = "Barabasz, Anderson, Soodhalter, Gregg, TOMS 2020, arXiv 1803.10986"
# How the project's own sets were found: all finite points but 0 in pairs +-a, since that makes the
# transforms even and odd and thus short; a = p/q with small p, q moved one at a time while the mean
# error in 2D fell (one tile, F(n-2, 3), data uniform in (-1, 1), float32). Near-by sets differ by a
# few per cent. For n = 9 the mean hides that the last outputs of a tile are four times worse than
# the others; the set there makes up for it. From n = 11 on `winogen search` found the sets.
_SWEEP = "symmetric set with the least 2D float32 error in a sweep of this project"
_WORST = "symmetric dyadic set: least error of a tile's worst output with many channels, in a sweep"
_SEARCH = "winogen search, all points finite: least mean 2D float32 error with r = 3"

# n -> (points, source); "±a" stands for a, -a.
_DEFAULT = {
    1: ("0", _CLASSIC),
    2: ("0 inf", _CLASSIC),
    3: ("0 1 inf", _CLASSIC),
    4: ("0 ±1 inf", _CLASSIC),
    5: ("±1/3 ±5/4 inf", _SWEEP),
    6: ("0 ±5/8 ±3/2 inf", _SWEEP),
    7: ("±1/4 ±4/5 ±2 inf", _SWEEP),
    8: ("0 ±1 ±1/2 ±2 inf", _BARABASZ),
    9: ("0 ±1/2 ±7/8 ±3/2 ±4", _WORST),
    10: ("0 ±2/5 ±4/5 ±5/4 ±5/2 inf", _SWEEP),
    11: ("0 ±1/3 ±7/10 ±11/10 ±2 ±6", _SEARCH),
    12: ("±1/7 ±1/2 ±9/11 ±11/9 ±2 ±7", _SEARCH),
    13: ("0 ±2/7 ±3/5 ±10/11 ±4/3 ±9/4 ±8", _SEARCH),
    14: ("±1/7 ±5/12 ±7/10 ±1 ±10/7 ±7/3 ±8", _SEARCH),
    15: ("0 ±3/11 ±6/11 ±4/5 ±11/10 ±3/2 ±5/2 ±8", _SEARCH),
    16: ("±1/8 ±3/8 ±5/8 ±7/8 ±7/6 ±8/5 ±8/3 ±8", _SEARCH),
    17: ("0 ±1/4 ±1/2 ±5/7 ±11/12 ±11/9 ±5/3 ±11/4 ±8", _SEARCH),
    18: ("±1/9 ±1/3 ±5/9 ±4/5 ±1 ±9/7 ±7/4 ±3 ±8", _SEARCH),
}
DEFAULT_SIZES = range(1, len(_DEFAULT) + 1)
