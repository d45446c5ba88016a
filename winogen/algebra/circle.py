"""Moduli between Cook-Toom's points and Fourier's: real points and points of the unit circle.

The real numbers with infinity are a great circle of Riemann's sphere. With all n points on it the
error of F(m, r) grows about threefold from n to n + 1. The unit circle is another great circle,
which meets it in 1 and -1. The moduli x^2 - 2 cos(t) x + 1 take k pairs of points there, for one
product more each: k = 0 is Cook-Toom, and with k = (n - 1) // 2 all points are roots of unity, the
real Fourier transform. The least errors lie in between, where about a third of the points are real.

Source: Winograd, Arithmetic Complexity of Computations, 1980 (moduli of degree 2); Barabasz &
Gregg, arXiv 1905.05233 (that they are accurate).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from winogen.algebra.moduli import Modulus
from winogen.algebra.points import INFINITY, check_size
from winogen.algebra.polynomial import Polynomial
from winogen.algebra.size import shown
from winogen.errors import InvalidValue

MODULI_FROM = 14  # n of the smallest tiles whose default is moduli
LARGEST = 48  # n of the largest that have a default
SOURCE = (
    "real points spread as tangents, and pairs on the unit circle: the family from Cook-Toom to "
    "Fourier of this project, at the number of pairs where its error is about least"
)
# Largest denominators of real points, of 2 cos(t) and of tan(t / 2); more where these are too few.
_REAL, _CIRCLE, _HALF = 12, 16, 5
_EIGHTH = math.pi / 4 * (1 + 1e-12)  # of a turn, where the tangent is 1
_X = Polynomial([0, 1])


def default_moduli(m: int, r: int) -> tuple[Modulus, ...]:
    """Return well conditioned rational moduli for F(m, r), a function of n = m + r - 1 <= 48.

    They take n + n // 3 - 1 products. Defined from n = 6 on; ``cook_toom`` takes them by itself
    from n = 14 on.

    Raises
    ------
    InvalidValue, InvalidType
        n < 6 or n > 48, or m or r is no integer >= 1.

    >>> print(*default_moduli(8, 3), sep=", ")
    x - 3/11, x + 3/11, x - 1, x + 1, x - 11/3, x + 11/3, x^2 - x + 1, x^2 + x + 1
    """
    m, r, n = check_size(m, r)
    if not 6 <= n <= LARGEST:
        raise InvalidValue(
            f"m, r: got F({shown(m)},{shown(r)}) with n = m + r - 1 = {shown(n)}; "
            f"allowed: n from 6 to {LARGEST} for default moduli, else give points or moduli"
        )
    return between(n, n // 3 - 1)


@lru_cache(maxsize=64, typed=True)  # 1.0 is no number of pairs, though it equals 1
def between(n: int, pairs: int) -> tuple[Modulus, ...]:
    """Return moduli of total degree n, ``pairs`` of degree 2 on the unit circle, others linear.

    Both kinds are evenly spread over their circle and rounded to small fractions; in pairs of
    opposite signs, which makes transforms short. ``pairs``: from 0 to (n - 1) // 2. Raises
    InvalidValue for others.
    """
    _check(n, pairs)
    angles = [math.pi * j / (pairs + 1) for j in range(1, pairs // 2 + 1)]
    cosines = _apart([2 * math.cos(angle) for angle in angles], _CIRCLE)
    return (*_line(n - 2 * pairs), *_circle(cosines, pairs))


@lru_cache(maxsize=64, typed=True)
def gaussian(n: int, pairs: int) -> tuple[Modulus, ...]:
    """Return moduli like those of `between`, with roots a + b i of rational a and b.

    All of these lie in one ring over the rational numbers, so that products over several axes are
    joined (see `winogen.algebra.join`) by small fractions alone. Nested there is no difference.
    a + b i = (1 + t i)^2 / (1 + t^2) lies on the unit circle, and t is the small fraction here.

    >>> print(*gaussian(8, 3), sep=", ")
    x - 1, x + 1, x^2 - 42/29*x + 1, x^2 + 1, x^2 + 42/29*x + 1
    """
    _check(n, pairs)
    angles = [math.pi * j / (pairs + 1) for j in range(1, pairs // 2 + 1)]
    halves = _apart([math.tan(angle / 2) for angle in angles], max(_HALF, pairs))
    cosines = [2 * (1 - t * t) / (1 + t * t) for t in halves]
    return (*_line(n - 2 * pairs), *_circle(cosines, pairs))


def _check(n: int, pairs: int) -> None:
    if not isinstance(n, int) or n < 1:
        raise InvalidValue(f"n: got {n!r}; allowed: an integer of at least 1")
    if not isinstance(pairs, int) or not 0 <= pairs <= (n - 1) // 2:
        raise InvalidValue(
            f"pairs: got {pairs!r} of total degree {n}; allowed: from 0 to {(n - 1) // 2}"
        )


def _line(reals: int) -> list[Modulus]:
    """Linear moduli, whose points are spread as tangents."""
    moduli: list[Modulus] = []
    # Of 4 k points tan(pi j / 4 k), 0 and infinity are two; of 4 k + 2, shifted by half a step,
    # 1 and -1. Of an odd number 0 is one.
    half = reals % 4 == 2
    if not half:
        moduli += [_X] if reals % 2 else [_X, INFINITY]
    count = reals // 2 if half or reals % 2 else reals // 2 - 1
    angles = [(j + half / 2 + (not half)) * math.pi / reals for j in range(count)]
    # The fraction of 1 / p is one over that of p.
    small = _apart([math.tan(angle) for angle in angles if angle <= _EIGHTH], _REAL)
    large = _apart([1 / math.tan(angle) for angle in angles if angle > _EIGHTH], _REAL)
    for point in (*small, *(1 / one for one in large)):
        moduli += [Polynomial([-point, 1]), Polynomial([point, 1])]
    return moduli


def _circle(cosines: list[Fraction], pairs: int) -> list[Modulus]:
    """Moduli of degree 2 for twice these cosines, their opposites, and 0 if pairs are odd."""
    middle = [Fraction(0)] * (pairs % 2)
    every = [*cosines, *middle, *(-c for c in reversed(cosines))]
    return [Polynomial([1, -c, 1]) for c in every]


def _apart(numbers: list[float], most: int) -> list[Fraction]:
    """Return simple fractions near positive numbers below 2, all different and none 0 or 2.

    Denominators are at most ``most``, or so many times twice that as it takes.
    """
    while True:
        found = [Fraction(number).limit_denominator(most) for number in numbers]
        if len({*found, 0, 2}) == len(found) + 2:
            return found
        most *= 2
