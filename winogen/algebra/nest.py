"""Two-dimensional algorithms: one 1D algorithm along each axis, which may differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from winogen.algebra.bilinear import BilinearAlgorithm
from winogen.algebra.decomposition import Decomposition, times
from winogen.algebra.latex import displayed
from winogen.algebra.maps import correlation
from winogen.algebra.scalar import Matrix, Scalar
from winogen.errors import InvalidType, InvalidValue, VerificationError


@dataclass(frozen=True, repr=False)
class BilinearAlgorithm2D:
    """F(m_h x m_w, r_h x r_w): Y = A_h^T [ (G_h g G_w^T) * (B_h^T d B_w) ] A_w.

    >>> from winogen.algebra import cook_toom
    >>> f = nest(cook_toom(2, 3), cook_toom(4, 3))
    >>> f.products, f.verify()
    (24, True)
    """

    h: BilinearAlgorithm  # along the rows' index
    w: BilinearAlgorithm  # along the columns' index

    @property
    def products(self) -> int:
        """The number of general multiplications per tile."""
        return self.h.products * self.w.products

    @property
    def decomposition(self) -> Decomposition:
        """The algorithm as one for a bilinear map, (height, width) by rows: a Kronecker product.

        >>> from winogen.algebra import cook_toom
        >>> whole = nest(cook_toom(2, 3), cook_toom(2, 3)).decomposition
        >>> whole.products, len(whole.u[0]), whole.verify()
        (16, 9, True)

        Raises
        ------
        InvalidValue
            The form is not "fir".
        """
        if self.h.form != "fir":
            raise InvalidValue(f"form: got {self.h.form!r}; allowed: 'fir'")
        h, w = self.h, self.w
        return Decomposition(
            correlation((h.m, w.m), (h.r, w.r), (h.stride, w.stride)),
            u=_kronecker(h.g, w.g),
            v=_kronecker(h.bt, w.bt),
            w=_kronecker(h.at, w.at),
        )

    def verify(self) -> bool:
        """Prove both axes, and with them the whole.

        The 2D condition, [k = i + j and k' = i' + j'], is the product of the two 1D conditions, as
        its left side is the product of the two sums.

        Raises
        ------
        VerificationError
            Names the axis and its first wrong (i, j, k).
        """
        for axis, algorithm in (("height", self.h), ("width", self.w)):
            try:
                algorithm.verify()
            except VerificationError as error:
                raise VerificationError(f"{axis}: {error}") from None
        return True

    def _repr_latex_(self) -> str | None:
        """What notebooks show."""
        return displayed(
            (title, matrix)
            for name, axis in (("h", self.h), ("w", self.w))
            for title, matrix in (
                (f"A_{name}^T", axis.at),
                (f"G_{name}", axis.g),
                (f"B_{name}^T", axis.bt),
            )
        )

    def __call__(self, g: Sequence[Sequence[Scalar]], d: Sequence[Sequence[Scalar]]) -> Matrix:
        """Return the outputs (m_h x m_w), exactly, of a filter (r_h x r_w) and inputs (n_h x n_w).

        Raises
        ------
        InvalidValue
            Another shape.
        """
        for name, rows, height, width in (
            ("g", g, self.h.r, self.w.r),
            ("d", d, len(self.h.bt[0]), len(self.w.bt[0])),
        ):
            if len(rows) != height or any(len(row) != width for row in rows):
                raise InvalidValue(f"{name}: got another shape; allowed: {height} x {width}")
        u = _both(self.h.g, self.w.g, g)
        v = _both(self.h.bt, self.w.bt, d)
        products = [[a * b for a, b in zip(*rows)] for rows in zip(u, v)]
        return _both(self.h.at, self.w.at, products)

    def __str__(self) -> str:
        return f"F({self.h.m}x{self.w.m},{self.h.r}x{self.w.r}) with {self.products} products"

    def __repr__(self) -> str:
        return f"<BilinearAlgorithm2D {self.h!r} x {self.w!r}>".replace("BilinearAlgorithm ", "")


def nest(h: BilinearAlgorithm, w: BilinearAlgorithm) -> BilinearAlgorithm2D:
    """Nest two 1D algorithms to a 2D one, ``h`` along the height and ``w`` along the width.

    Raises
    ------
    InvalidType
        Not two ``BilinearAlgorithm``s.
    InvalidValue
        One is in the linear form and the other is not.

    >>> from winogen.algebra import cook_toom
    >>> print(nest(cook_toom(2, 3), cook_toom(4, 5)))
    F(2x4,3x5) with 32 products
    """
    for name, value in (("h", h), ("w", w)):
        if not isinstance(value, BilinearAlgorithm):
            raise InvalidType(
                f"{name}: got {value!r} of type {type(value).__name__}; "
                "allowed: a BilinearAlgorithm"
            )
    if h.form != w.form:
        raise InvalidValue(f"h, w: got the forms {h.form} and {w.form}; allowed: the same form")
    return BilinearAlgorithm2D(h, w)


def _kronecker(left: Matrix, right: Matrix) -> Matrix:
    return tuple(tuple(a * b for a in x for b in y) for x in left for y in right)


def _both(left: Matrix, right: Matrix, rows: Sequence[Sequence[Scalar]]) -> Matrix:
    """Return left rows right^T."""
    across = [times(right, row) for row in rows]
    return tuple(zip(*(times(left, column) for column in zip(*across))))
