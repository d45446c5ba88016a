"""Algorithms over several axes whose complex products meet: fewer products than nesting has.

Nested, every product along one axis meets every product along the others. But where remainders
modulo polynomials without real roots meet, C (x) C = C + C: over two axes they take 2 complex
products, 6 real ones, for the 9 of nesting. With n_i inputs of a tile along axis i and k_i such
moduli there are

    (3 prod n_i - prod (n_i - 2 k_i)) / 2

products; nested, the product of all n_i + k_i. That is n_h n_w + n_h k_w + n_w k_h - 2 k_h k_w
along two axes. Points are k = 0, where both are the same; with every modulus of x^n - 1 this is
the real Fourier transform.

Source: Winograd, Arithmetic Complexity of Computations, 1980; the 88 and 132 products that SFC
(arXiv 2407.02913) has for F(6x6, 3x3) and F(7x7, 3x3) are cases of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, NamedTuple

from winogen.algebra.bilinear import BilinearAlgorithm
from winogen.algebra.decomposition import Decomposition, times
from winogen.algebra.maps import correlation
from winogen.algebra.residues import Residues, residues, ring_of
from winogen.algebra.ring import Ring, Trilinear
from winogen.algebra.scalar import Matrix, Scalar
from winogen.errors import InvalidValue, VerificationError


class ModulusCell(NamedTuple):
    """Products of one modulus (or point) of every axis with one another."""

    rows: tuple[int, ...]  # of the tile of residues, counted through along all axes
    product: Trilinear  # of these: a tensor power of the ring
    first: int  # the place of its first product among all


@dataclass(frozen=True, repr=False)
class JoinedAlgorithm:
    """F(m x m', r x r') and its like over any number of axes, complex products joined.

    >>> from winogen.algebra import winograd
    >>> f = winograd(8, 3, "x, x-3/5, x+3/5, x-1, x+1, x-5/3, x+5/3, x^2+1, inf")
    >>> join(f, f).products, join(f, f, f).products, f.products**2, join(f, f).verify()
    (118, 1244, 121, True)
    """

    axes: tuple[Residues, ...]  # along the height, then the width, all in the same ring

    @property
    def ring(self) -> Ring:
        """What complex products are computed in."""
        return self.axes[0].ring

    @property
    def products(self) -> int:
        """The number of general multiplications per tile."""
        rows, reals = prod(axis.rows for axis in self.axes), prod(axis.reals for axis in self.axes)
        return (3 * rows - reals) // 2

    @cached_property
    def cells(self) -> tuple[ModulusCell, ...]:
        """The products, in order: those of the first row along the first axis come first."""
        return tuple(self._cells())

    def _cells(self) -> Iterator[ModulusCell]:
        first = 0
        for parts in product(*(axis.cells for axis in self.axes)):
            rows = [0]
            for axis, part in zip(self.axes, parts):
                rows = [row * axis.rows + one for row in rows for one in part]
            joined = self.ring.power(sum(len(part) - 1 for part in parts))
            yield ModulusCell(tuple(rows), joined, first)
            first += joined.products

    def matrix(self, kind: str) -> Matrix:
        """Return one transform of whole tiles: "input", "filter", or "output".

        Numbers of a tile are counted row by row. Its shape is products x inputs, products x taps or
        outputs x products; the tensor product of matrices along the axes where all is nested.
        """
        along = [axis.matrices[kind] for axis in self.axes]
        if kind == "output":
            along = [tuple(zip(*rows)) for rows in along]
        rows = list(map(_outer, product(*along)))
        made: list[tuple[Scalar, ...]] = []
        for cell in self.cells:
            inside = cell.product
            join = tuple(zip(*inside.output)) if kind == "output" else getattr(inside, kind)
            columns = tuple(zip(*(rows[row] for row in cell.rows)))
            made += zip(*(times(join, column) for column in columns))
        return tuple(zip(*made)) if kind == "output" else tuple(made)

    @property
    def decomposition(self) -> Decomposition:
        """The algorithm as one for a bilinear map, tiles by rows, whose proof knows no axes.

        >>> from winogen.algebra import winograd
        >>> f = winograd(2, 3, "x, x^2+1, inf")
        >>> whole = join(f, f).decomposition
        >>> whole.products, whole.verify()
        (22, True)
        """
        outputs, taps = [axis.m for axis in self.axes], [axis.r for axis in self.axes]
        u, v, w = map(self.matrix, ("filter", "input", "output"))
        return Decomposition(correlation(outputs, taps), u, v, w)

    def verify(self) -> bool:
        """Prove the whole: in every output each coefficient of a tap times an input is 0 or 1.

        The whole is trilinear in outputs, taps and inputs, and is the tensor product of the axes'
        own forms. Each of these is a sum over real products and products in the ring, and what
        stands for a tensor product of rings is proven equal to it, coefficient by coefficient.

        Raises
        ------
        VerificationError
            Names the axis and its first wrong coefficient, or those of the ring.
        """
        for index, axis in enumerate(self.axes):
            try:
                axis.verify()
            except VerificationError as error:
                raise VerificationError(f"axis {index}: {error}") from None
        for rings in range(sum(axis.pairs > 0 for axis in self.axes) + 1):
            self.ring.verify(rings)
        return True

    def __call__(self, g: Any, d: Any) -> Any:
        """Return the outputs, exactly, of a filter and inputs: nested lists, one level an axis.

        Raises
        ------
        InvalidValue
            Another shape.
        """
        values = {}
        for name, kind, rows, shape in (
            ("g", "filter", g, [axis.r for axis in self.axes]),
            ("d", "input", d, [axis.n for axis in self.axes]),
        ):
            flat = _flat(rows, shape)
            if flat is None:
                sizes = " x ".join(map(str, shape))
                raise InvalidValue(f"{name}: got another shape; allowed: {sizes}")
            values[kind] = times(self.matrix(kind), flat)
        outputs = times(
            self.matrix("output"), [u * v for u, v in zip(values["filter"], values["input"])]
        )
        return _shaped(list(outputs), [axis.m for axis in self.axes])

    def __str__(self) -> str:
        m, r = ("x".join(str(getattr(axis, size)) for axis in self.axes) for size in "mr")
        return f"F({m},{r}) with {self.products} products"

    def __repr__(self) -> str:
        return f"<JoinedAlgorithm {self}>"


def join(*axes: BilinearAlgorithm) -> JoinedAlgorithm:
    """Return the algorithm over several axes that has the fewest products for these along them.

    Moduli of degree 2 without real roots are joined across axes, in coefficients that are rational
    wherever the product of their discriminants is a square (the same modulus along both axes; all
    complex points a + b i with rational a and b). All other products are nested.

    Raises
    ------
    InvalidValue
        No axis, or an algorithm in the linear form.
    InvalidType
        Not ``BilinearAlgorithm``s.

    >>> from winogen.algebra import cook_toom, winograd
    >>> print(join(winograd(6, 3, "x,x-1,x+1,x^2+x+1,x^2-x+1,inf"), cook_toom(4, 3)))
    F(6x4,3x3) with 60 products
    """
    if not axes:
        raise InvalidValue("axes: got none; allowed: one algorithm or more")
    for axis in axes:
        residues(axis)  # refuses what is none
    ring = ring_of(*axes)
    return JoinedAlgorithm(tuple(residues(axis, ring) for axis in axes))


def _outer(rows: Sequence[Sequence[Scalar]]) -> tuple[Scalar, ...]:
    made: tuple[Scalar, ...] = (Fraction(1),)
    for row in rows:
        made = tuple(a * b for a in made for b in row)
    return made


def _flat(rows: Any, shape: list[int]) -> list[Scalar] | None:
    """The numbers of nested lists; None where they have another shape."""
    if not shape:
        return [rows]
    if len(rows) != shape[0]:
        return None
    parts = [_flat(row, shape[1:]) for row in rows]
    return None if None in parts else [x for part in parts if part is not None for x in part]


def _shaped(values: list[Scalar], shape: list[int]) -> Any:
    if len(shape) == 1:
        return tuple(values)
    step = len(values) // shape[0]
    return tuple(_shaped(values[k * step : (k + 1) * step], shape[1:]) for k in range(shape[0]))
