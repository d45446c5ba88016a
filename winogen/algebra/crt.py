"""Winograd's algorithms: multiply polynomials by the Chinese remainder theorem, then transpose.

The product s(x) = g(x) h(x) of r and m coefficients has n = m + r - 1. With pairwise coprime moduli
m_i of total degree n and M_i = prod of the others,

    s = sum_i M_i [ (T_i g mod m_i) (h mod m_i) mod m_i ],      T_i = M_i^-1 mod m_i,

so only the small residue products multiply data with data. A linear modulus x - p takes one (s is
evaluated at p); one of degree d takes 2d - 1, by Toom-Cook again. The point at infinity stands for
one more degree: its product g[r-1] h[m-1] is the leading coefficient of s, and contributes that
times prod m_i (the "modified" form). With the columns for h and s exchanged, the matrices of this
linear convolution become the matrices of the correlation F(m, r).

Source: Winograd, Arithmetic Complexity of Computations, 1980; Blahut, Fast Algorithms for Signal
Processing, ch. 5; Barabasz & Gregg, arXiv 1905.05233 (moduli of degree 2 for accuracy).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from winogen.algebra.bilinear import BilinearAlgorithm
from winogen.algebra.moduli import Modulus, check_moduli
from winogen.algebra.points import (
    DEFAULT_SIZES,
    INFINITY,
    Point,
    check_size,
    default_points,
    parse_points,
)
from winogen.algebra.polynomial import Polynomial, inverse
from winogen.algebra.scalar import Matrix, Scalar, as_scalar, matrix
from winogen.algebra.size import bits_of, digits
from winogen.errors import InvalidValue

if TYPE_CHECKING:
    from winogen.typing import ExactPolynomial

_X = Polynomial([0, 1])
_PRINTABLE_BITS = 14_000


def winograd(m: int, r: int, moduli: str | Iterable[ExactPolynomial]) -> BilinearAlgorithm:
    """Return F(m, r) by the Chinese remainder theorem over the given moduli.

    Parameters
    ----------
    m
        Outputs, >= 1.
    r
        Filter taps, >= 1.
    moduli
        Pairwise coprime polynomials in x whose degrees add up to n = m + r - 1, where
        "inf" (the modified form) may stand for one degree. Each is text such as "x^2+1", a
        sympy Poly or expression, a ``Polynomial``, or a list of coefficients from the highest
        power down; or all of them as one text, "x,x-1,x^2+1". They are made monic. "fourier" are
        the factors of x^n - 1, n <= 32, over the real numbers.

    A modulus of degree d costs 2d - 1 products: 1 when linear, 3 when quadratic (Karatsuba, that is
    Toom-Cook at 0, 1, infinity), in general Toom-Cook at the default points of F(d, d), from d = 10
    on at small integers. This is minimal where the modulus is irreducible over Q; any other modulus
    is better given by its factors.

    Raises
    ------
    InvalidValue
        Moduli that share a factor, a wrong total degree, a constant, m or r < 1.
    InvalidType
        Something else than an integer or a polynomial.

    >>> f = winograd(2, 3, ["x", "x-1", "x^2+1"])
    >>> f.products, f.verify()
    (5, True)
    """
    m, r, _ = check_size(m, r)
    checked = check_moduli(m, r, moduli)
    return from_moduli(m, r, checked, moduli=checked)


def from_moduli(
    m: int,
    r: int,
    factors: Sequence[Modulus],
    points: tuple[Point, ...] | None = None,
    moduli: tuple[Modulus, ...] | None = None,
) -> BilinearAlgorithm:
    """Build F(m, r) from checked moduli; ``points`` or ``moduli`` say what it was asked for by."""
    argument = "points" if moduli is None else "moduli"
    at_rows, g_rows, bt_rows = [], [], []  # one entry per product
    for part in remainders(m, r, factors, argument):
        for g_row, bt_row, at_row in part.products(m + r - 1):
            g_rows.append(g_row)
            bt_rows.append(bt_row)
            at_rows.append(at_row)
    _check_printable(at_rows + g_rows + bt_rows, argument)
    at: Matrix = tuple(zip(*at_rows))
    return BilinearAlgorithm(
        m=m, r=r, at=at, g=tuple(g_rows), bt=tuple(bt_rows), points=points, moduli=moduli
    )


class Remainder(NamedTuple):
    """What one modulus has of the product s = g h: g and h come down to it, and s goes back up.

    The point at infinity is as a modulus x: its only coefficients are the leading ones.
    """

    modulus: Polynomial
    others: Polynomial  # the product of the other moduli, which takes a remainder back into s
    filter: Matrix  # degree x r: the coefficients of T g mod the modulus, see above
    input: Matrix  # degree x m: those of h mod the modulus

    def back(self, remainder: Polynomial, n: int) -> tuple[Scalar, ...]:
        """The n coefficients of s that come from a product of remainders."""
        return _coefficients(self.others * (remainder % self.modulus), n)

    def products(self, n: int) -> Iterator[tuple[tuple[Scalar, ...], ...]]:
        """Yield the row of G, the row of B^T and the column of A^T of every real product."""
        small = _residue_product(self.modulus.degree)
        for a in range(small.products):
            column = Polynomial([row[a] for row in small.at])
            yield (
                _row_times(small.g[a], self.filter),
                self.back(column, n),
                _row_times(small.bt[a], self.input),
            )


def remainders(
    m: int, r: int, factors: Sequence[Modulus], argument: str = "moduli"
) -> Iterator[Remainder]:
    """Yield what F(m, r) has modulo each of checked moduli; ``argument``: what errors name."""
    finite = [q for q in factors if not isinstance(q, str)]
    try:
        whole = prod(finite, start=Polynomial([1]))
    except InvalidValue as error:  # irrational numbers of too many kinds
        raise InvalidValue(f"{argument}: {error}") from None
    for q in factors:
        if isinstance(q, str):
            yield Remainder(_X, whole, (_unit(r - 1, r),), (_unit(m - 1, m),))
            continue
        others = whole // q
        unmixing = inverse(others, q)
        # The row of the point 0 is the lone tap g[0] over a constant: keep that one positive,
        # as the literature does.
        if q == _X and unmixing[0] < 0:
            others, unmixing = -others, -unmixing
        yield Remainder(q, others, _residues(unmixing, q, r), _residues(Polynomial([1]), q, m))


def _check_printable(rows: Iterable[Sequence[Scalar]], argument: str) -> None:
    """Refuse matrices with integers of more than 4300 digits, which Python does not print."""
    bits = max(bits_of(value) for row in rows for value in row)
    if bits > _PRINTABLE_BITS:
        raise InvalidValue(
            f"{argument}: got values whose matrices have numbers of about {digits(bits)} digits; "
            f"allowed: numbers of at most {digits(_PRINTABLE_BITS)} digits"
        )


def linear_moduli(points: Iterable[Point]) -> list[Modulus]:
    """Return the moduli x - p of Cook-Toom; infinity stays what it is."""
    return [p if isinstance(p, str) else Polynomial([-p, 1]) for p in points]


def _residue_product(degree: int) -> BilinearAlgorithm:
    """Return the product of two polynomials of ``degree`` coefficients, 2 degree - 1 products."""
    if degree == 1:
        one = matrix([[1]])
        return BilinearAlgorithm(1, 1, at=one, g=one, bt=one, form="linear")
    if degree == 2:
        points: Iterable[Point] = parse_points("0,1,inf")  # Karatsuba
    elif 2 * degree - 1 in DEFAULT_SIZES:
        points = default_points(degree, degree)
    else:
        points = parse_points([*range(1 - degree, degree - 1), INFINITY])
    return from_moduli(degree, degree, linear_moduli(points)).transpose()


def _residues(factor: Polynomial, modulus: Polynomial, size: int) -> Matrix:
    """Return the matrix, degree x size, that takes p's coefficients to factor * p mod modulus."""
    columns, power = [], factor % modulus
    for _ in range(size):
        columns.append(_coefficients(power, modulus.degree))
        power = power * _X % modulus
    return tuple(zip(*columns))


def _row_times(row: Sequence[Scalar], rows: Matrix) -> tuple[Scalar, ...]:
    return tuple(sum((c * x for c, x in zip(row, column)), as_scalar(0)) for column in zip(*rows))


def _coefficients(polynomial: Polynomial, size: int) -> tuple[Scalar, ...]:
    return tuple(polynomial[k] for k in range(size))


def _unit(index: int, size: int) -> tuple[Scalar, ...]:
    return tuple(as_scalar(int(k == index)) for k in range(size))
