"""Cook-Toom: the algorithms that evaluate, multiply and interpolate at distinct points."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from winogen.algebra.bilinear import BilinearAlgorithm
from winogen.algebra.circle import MODULI_FROM, default_moduli
from winogen.algebra.crt import from_moduli, linear_moduli, winograd
from winogen.algebra.iterated import Sizes, iterate, iterated_points, split
from winogen.algebra.points import Point, check_points, check_size, default_points, parse_points
from winogen.algebra.scalar import matrix
from winogen.spelling import ITERATED, WITHIN

if TYPE_CHECKING:
    from winogen.typing import Exact


def parts(
    m: int, r: int, points: tuple[Point, ...]
) -> tuple[Sizes, BilinearAlgorithm, BilinearAlgorithm]:
    """Return the sizes, the outer and the inner algorithm of points with ``WITHIN`` between them.

    Raises InvalidValue where no sizes fit these points.
    """
    sizes, *lists = split(m, r, points)
    outer, inner = (
        cook_toom(*size, one or None) for size, one in zip((sizes[:2], sizes[2:]), lists)
    )
    return sizes, outer, inner


def cook_toom(m: int, r: int, points: str | Iterable[Exact] | None = None) -> BilinearAlgorithm:
    """Return F(m, r) with n = m + r - 1 products, by interpolation at n distinct points.

    Without points, from n = 14 on, it is ``winograd(m, r, default_moduli(m, r))`` instead: n points
    on a line would lose all digits. Then ``points`` is None, ``moduli`` says what was taken, and
    there are n // 3 - 1 products more.

    With N_i = prod_{j != i} (p_i - p_j) over the finite points, A^T has the columns p_i^0, p_i^1,
    ..., G the rows p_i^0, p_i^1, ... over N_i, and B^T the coefficients of prod_{j != i} (x - p_j).
    The point infinity picks the last tap, the last output and the coefficients of prod_j (x - p_j).
    The row of the point 0 is signed so that its entry in G is positive. This is the usual scaling
    (Lavin & Gray, arXiv 1509.09308); ``BilinearAlgorithm.scale`` changes it.

    Parameters
    ----------
    m
        Outputs, >= 1.
    r
        Filter taps, >= 1.
    points
        n distinct exact numbers, one possibly infinity: integers, Fractions, text such as "-5/2",
        "sqrt(2)/2" or "inf", sympy numbers; or one text "0,1,-1,1/2,inf". None takes
        ``default_points(m, r)`` up to n = 13, and moduli up to n = 48. F(m,1) and F(1,r) are
        nothing but n products: with None they need no transform and have ``points == ()``.
        "0,1,-1,2,inf; 0,1,-1,2,inf", with a semicolon, are those of two short algorithms, the
        second iterated within the first, see ``winogen.algebra.iterate``; "iterated" are good ones
        for both.

    Raises
    ------
    InvalidValue
        m or r < 1, another number of points, a point twice, not real or not finite; no points and
        n > 48.
    InvalidType
        m, r or a point is not an exact number (floats are refused).

    >>> cook_toom(4, 3, "0, 1, -1, 2, -2, inf").AT
    Matrix([
    [1, 1,  1, 1,  1, 0],
    [0, 1, -1, 2, -2, 0],
    [0, 1,  1, 4,  4, 0],
    [0, 1, -1, 8, -8, 1]])
    """
    m, r, n = check_size(m, r)
    if points is None:
        if m == 1 or r == 1:
            return _direct(m, r)
        if n >= MODULI_FROM:
            return winograd(m, r, default_moduli(m, r))
        points = default_points(m, r)
    parsed = parse_points(points)
    if parsed == (ITERATED,):
        parsed = iterated_points(m, r)
    if WITHIN in parsed:
        _, outer, inner = parts(m, r, parsed)
        return iterate(outer, inner)
    checked = check_points(m, r, parsed)
    return from_moduli(m, r, linear_moduli(checked), points=checked)


def _direct(m: int, r: int) -> BilinearAlgorithm:
    """F(m, 1) scales m inputs by one tap, F(1, r) is an inner product: no transform helps."""
    n = m + r - 1
    identity = matrix([[int(i == k) for k in range(n)] for i in range(n)])
    at = identity if r == 1 else matrix([[1] * n])
    g = matrix([[1]] * n) if r == 1 else identity
    return BilinearAlgorithm(m=m, r=r, at=at, g=g, bt=identity, points=())
