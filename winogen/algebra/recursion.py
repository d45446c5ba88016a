"""Products of matrices of blocks whose products are taken by the same kind of algorithm again.

An algorithm for matrices of n x m and m x p numbers does not turn left and right, so that its
numbers may be blocks: each of its products is then a product of blocks, which another algorithm
takes. Strassen's 7 products of halves, k levels deep, are 7^k for matrices of 2^k rows.

Source: Strassen, Gaussian elimination is not optimal, 1969.
"""

from __future__ import annotations

import re

from winogen.algebra.decomposition import Decomposition
from winogen.algebra.maps import matrix_product
from winogen.algebra.scalar import Matrix
from winogen.errors import InvalidType, InvalidValue

_Sizes = tuple[int, int, int]


def recurse(outer: Decomposition, inner: Decomposition) -> Decomposition:
    """Return the product of larger matrices: ``outer`` of blocks, their products by ``inner``.

    Outer matrices of n x m and m x p blocks, inner ones of n' x m' and m' x p' numbers make those
    of n n' x m m' and m m' x p p' numbers, row by row.

    Raises
    ------
    InvalidType
        Not two ``Decomposition``s.
    InvalidValue
        One is not for a matrix product.

    >>> from winogen.algebra import known
    >>> strassen = known("strassen")
    >>> twice = recurse(strassen, strassen)
    >>> twice, twice.verify()
    (<Decomposition matrix product 4x4x4 with 49 products>, True)
    """
    sizes = [_sizes(name, one) for name, one in (("outer", outer), ("inner", inner))]
    (n, m, p), (rows, middle, columns) = sizes
    return Decomposition(
        matrix_product(n * rows, m * middle, p * columns),
        u=_blocks(outer.u, inner.u, (n, m), (rows, middle)),
        v=_blocks(outer.v, inner.v, (m, p), (middle, columns)),
        w=tuple(zip(*_blocks(_turned(outer.w), _turned(inner.w), (n, p), (rows, columns)))),
    )


def _sizes(name: str, one: Decomposition) -> _Sizes:
    if not isinstance(one, Decomposition):
        raise InvalidType(
            f"{name}: got {one!r} of type {type(one).__name__}; allowed: a Decomposition"
        )
    found = re.fullmatch(r"matrix product (\d+)x(\d+)x(\d+)", one.map.name)
    if found is None:
        raise InvalidValue(f"{name}: got {one.map.name}; allowed: a matrix product")
    n, m, p = map(int, found.groups())
    return n, m, p


def _blocks(
    outer: Matrix, inner: Matrix, blocks: tuple[int, int], numbers: tuple[int, int]
) -> Matrix:
    """Rows of coefficients of a matrix of blocks, its numbers row by row and not block by block."""
    (tall, wide), (height, width) = blocks, numbers
    return tuple(
        tuple(
            across[i // height * wide + j // width] * along[i % height * width + j % width]
            for i in range(tall * height)
            for j in range(wide * width)
        )
        for across in outer
        for along in inner
    )


def _turned(rows: Matrix) -> Matrix:
    return tuple(zip(*rows))
