"""Figures of a transform: how many operations it takes, and how much errors may grow in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from winogen.algebra.scalar import Matrix, Scalar, as_scalar
from winogen.errors import InvalidValue

if TYPE_CHECKING:
    import numpy as np


class _OperationCounts(Protocol):
    @property
    def add(self) -> int: ...
    @property
    def mul(self) -> int: ...


class _Program(Protocol):
    def counts(self) -> _OperationCounts: ...


class Operations(NamedTuple):
    """Operations of a transform in one dimension; a fused multiply-add counts as two.

    Multiplications by 1 and -1 are free.
    """

    additions: int  # of the short program, subtractions among them
    multiplications: int
    matrix_additions: int  # of the matrix, each row on its own
    matrix_multiplications: int

    @classmethod
    def of(cls, matrix: Matrix, program: _Program) -> Operations:
        """Return the figures of a matrix and of its program."""
        counts = program.counts()
        entries = [c for row in matrix for c in row if c]
        additions = len(entries) - sum(map(any, matrix))
        return cls(counts.add, counts.mul, additions, sum(abs(c) != 1 for c in entries))


class Condition(NamedTuple):
    """Condition numbers of a matrix M, |M| |M^+| with its pseudo-inverse M^+, by two norms.

    How many times larger than the relative error of x the relative error of M x may be.
    """

    spectral: float  # by the 2-norm: the largest singular value over the smallest, in float64
    infinity: Scalar  # by the infinity norm, the largest sum of |entries| of a row: exact

    def __repr__(self) -> str:
        """Both as floats: an exact one may have many digits."""
        return f"Condition(spectral={self.spectral:.6g}, infinity={float(self.infinity):.6g})"


def condition(matrix: Matrix) -> Condition:
    """Return the condition numbers of a matrix of full rank.

    Raises
    ------
    InvalidValue
        The matrix has a smaller rank than rows and columns.

    >>> condition(((as_scalar(3), as_scalar(0)), (as_scalar(0), as_scalar(1))))
    Condition(spectral=3, infinity=3)
    """
    import numpy

    rounded: np.ndarray = numpy.array([[float(c) for c in row] for row in matrix])
    singular = numpy.linalg.svd(rounded, compute_uv=False)
    return Condition(float(singular[0] / singular[-1]), _norm(matrix) * _norm(_inverse(matrix)))


def _norm(matrix: Matrix) -> Scalar:
    return max(sum((cast("Scalar", abs(c)) for c in row), as_scalar(0)) for row in matrix)


def _inverse(matrix: Matrix) -> Matrix:
    """The pseudo-inverse: (M^T M)^-1 M^T of a matrix with more rows, else M^T (M M^T)^-1."""
    turned: Matrix = tuple(zip(*matrix))
    if len(matrix) == len(turned):
        return _solution(matrix, _identity(len(matrix)))
    if len(matrix) > len(turned):
        return _solution(_product(turned, matrix), turned)
    return tuple(zip(*_solution(_product(matrix, turned), matrix)))


def _product(left: Matrix, right: Matrix) -> Matrix:
    columns = tuple(zip(*right))
    return tuple(
        tuple(sum((a * b for a, b in zip(row, column)), as_scalar(0)) for column in columns)
        for row in left
    )


def _identity(size: int) -> Matrix:
    return tuple(tuple(as_scalar(int(i == k)) for k in range(size)) for i in range(size))


def _solution(square: Matrix, right: Matrix) -> Matrix:
    """X of ``square`` X = ``right``, by Gauss-Jordan elimination."""
    rows = [[*row, *more] for row, more in zip(square, right)]
    size = len(rows)
    for k in range(size):
        pivot = next((i for i in range(k, size) if rows[i][k] != 0), None)
        if pivot is None:
            raise InvalidValue("matrix: got one of too small a rank; allowed: one of full rank")
        rows[k], rows[pivot] = rows[pivot], rows[k]
        factor = 1 / rows[k][k]
        rows[k] = [factor * c for c in rows[k]]
        for i in range(size):
            if i != k and rows[i][k] != 0:
                times = rows[i][k]
                rows[i] = [c - times * d for c, d in zip(rows[i], rows[k])]
    return tuple(tuple(row[size:]) for row in rows)
