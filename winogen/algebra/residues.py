"""F(m, r) by real and by complex products: what a 1D algorithm is before its products are spelled.

A modulus of degree 2 without real roots leaves one product in a field, the complex numbers. Along
one axis it becomes three real ones. Over several axes complex products of one axis meet those of
another, and then fewer are needed than three for each (`winogen.algebra.join`). So here remain

    y = A^T [ (G g) * (B^T d) ],

where of the n rows of G and B^T the first are multiplied number by number, and the others pair by
pair as the numbers a + b w of one `Ring`.

Moduli of higher degree, powers, and moduli with real roots bring their products as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import TypeGuard

from winogen.algebra.bilinear import BilinearAlgorithm
from winogen.algebra.crt import remainders
from winogen.algebra.moduli import Modulus
from winogen.algebra.polynomial import Polynomial
from winogen.algebra.ring import Ring
from winogen.algebra.scalar import Matrix, Scalar, as_scalar
from winogen.errors import InvalidType, InvalidValue, VerificationError


@dataclass(frozen=True, repr=False)
class Residues:
    """F(m, r) by ``reals`` real products and ``pairs`` products in a ring.

    >>> from winogen.algebra import winograd
    >>> f = residues(winograd(6, 3, "x, x-3/4, x+3/4, x-4/3, x+4/3, x^2+1, inf"))
    >>> f.reals, f.pairs, f.rows, f.products, f.verify()
    (6, 1, 8, 9, True)
    """

    m: int
    r: int
    reals: int
    ring: Ring
    at: Matrix  # A^T: m x rows
    g: Matrix  # G: rows x r
    bt: Matrix  # B^T: rows x n

    @property
    def n(self) -> int:
        """The number of inputs of one tile, m + r - 1."""
        return self.m + self.r - 1

    @property
    def rows(self) -> int:
        """Numbers that an input becomes, two of them for each product in the ring."""
        return len(self.g)

    @property
    def pairs(self) -> int:
        """Products in the ring."""
        return (self.rows - self.reals) // 2

    @property
    def products(self) -> int:
        """General multiplications along this axis alone."""
        return self.reals + 3 * self.pairs

    @property
    def matrices(self) -> dict[str, Matrix]:
        """The matrix of every transform: {"input": B^T, "filter": G, "output": A^T}."""
        return {"input": self.bt, "filter": self.g, "output": self.at}

    @property
    def cells(self) -> list[tuple[int, ...]]:
        """The rows of every product, first the real ones."""
        ends = range(self.reals, self.rows, 2)
        return [*((a,) for a in range(self.reals)), *((a, a + 1) for a in ends)]

    def verify(self) -> bool:
        """Prove that it is F(m, r): every coefficient of g[j] d[k] in y[i] is [k = i + j].

        Raises
        ------
        VerificationError
            Names the first (i, j, k) that is wrong.
        """
        tensors = [self.ring.tensor(0), self.ring.tensor(1)]
        terms = [
            (cell[b], cell[a], cell[c], t)
            for cell in self.cells
            for (a, b), weights in tensors[len(cell) - 1].items()
            for c, t in weights.items()
            if t
        ]
        for i, row in enumerate(self.at):
            for j in range(self.r):
                left = [(c, row[b] * self.g[a][j] * t) for b, a, c, t in terms if row[b]]
                left = [(c, weight) for c, weight in left if weight]
                for k in range(self.n):
                    value = sum((w * self.bt[c][k] for c, w in left if self.bt[c][k]), Fraction(0))
                    if value != int(k == i + j):
                        raise VerificationError(
                            f"F({self.m},{self.r}): the coefficient of g[{j}] d[{k}] in output {i} "
                            f"is {value}, not {int(k == i + j)}"
                        )
        return True

    def __repr__(self) -> str:
        return f"<Residues of F({self.m}, {self.r}): {self.reals} real, {self.pairs} complex>"


def residues(algorithm: BilinearAlgorithm, ring: Ring | None = None) -> Residues:
    """Return F(m, r) of the same moduli before its complex products are spelled as real ones.

    ``ring``: what complex products are computed in; by default the one that needs the fewest
    irrational numbers. An algorithm without moduli of degree 2 keeps its products as they are.

    Raises
    ------
    InvalidType
        Not a ``BilinearAlgorithm``.
    InvalidValue
        It is in the linear form, or irrational numbers of too many kinds meet.
    """
    if not isinstance(algorithm, BilinearAlgorithm):
        raise InvalidType(
            f"algorithm: got {algorithm!r} of type {type(algorithm).__name__}; "
            "allowed: a BilinearAlgorithm"
        )
    if algorithm.form != "fir":
        raise InvalidValue(f"algorithm: got the form {algorithm.form}; allowed: fir")
    f, ring, moduli = algorithm, ring or ring_of(algorithm), algorithm.moduli or ()
    if not any(map(is_complex, moduli)):
        return Residues(f.m, f.r, f.products, ring, f.at, f.g, f.bt)
    real: list[tuple[Sequence[Scalar], ...]] = []  # rows of G, B^T and A, product by product
    pairs: list[tuple[Sequence[Scalar], ...]] = []
    for q, part in zip(moduli, remainders(f.m, f.r, moduli)):
        if not is_complex(q):
            real += part.products(f.n)
            continue
        start, scale = _root(part.modulus, ring)
        # h0 + h1 x has the coordinates h0 + start h1 and scale h1. Both ways back are multiplied by
        # the scale, so that Fourier's numbers are sines and cosines.
        for column, back in (((1, start), [scale]), ((0, scale), [-start, 1])):
            g, a = (
                tuple(column[0] * low + column[1] * high for low, high in zip(*rows))
                for rows in (part.filter, part.input)
            )
            pairs.append((tuple(x / scale for x in g), part.back(Polynomial(back), f.n), a))
    g_rows, bt_rows, at_rows = zip(*real, *pairs)
    return Residues(f.m, f.r, len(real), ring, tuple(zip(*at_rows)), g_rows, bt_rows)


def ring_of(*algorithms: BilinearAlgorithm) -> Ring:
    """Return the ring in which the fewest moduli of these algorithms need irrational numbers.

    Moduli with irrational coefficients have no say: Fourier's are those of i, their own fields
    contain its sines.
    """
    moduli = (q for f in algorithms for q in f.moduli or () if is_complex(q))
    rational = (q for q in moduli if all(isinstance(c, Fraction) for c in q.coefficients))
    return Ring.of(map(_discriminant, rational))


def is_complex(modulus: Modulus) -> TypeGuard[Polynomial]:
    """Whether a modulus is of degree 2 and has no real root."""
    return isinstance(modulus, Polynomial) and modulus.degree == 2 and _discriminant(modulus) < 0


def _discriminant(modulus: Polynomial) -> Scalar:
    return modulus[1] * modulus[1] - 4 * modulus[0]


def _root(modulus: Polynomial, ring: Ring) -> tuple[Scalar, Scalar]:
    """Return (a, s) where a + s w is a root of x^2 + b x + c: 2 x + b is s (2 w + b of the ring).

    Of both roots the one with the smaller a.
    """
    scale = _square_root(_discriminant(modulus) / ring.discriminant)
    first, second = ((s * ring.b - modulus[1]) / 2 for s in (scale, -scale))
    return (first, scale) if first * first <= second * second else (second, -scale)


def _square_root(square: Scalar) -> Scalar:
    if isinstance(square, Fraction):
        top, bottom = isqrt(square.numerator), isqrt(square.denominator)
        if Fraction(top * top, bottom * bottom) == square:
            return Fraction(top, bottom)
    return as_scalar(f"sqrt({square})")
