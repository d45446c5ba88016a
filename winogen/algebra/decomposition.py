"""Any bilinear algorithm: three exact matrices, and the proof that they compute what they should.

    y = W [ (U g) * (V h) ]        (* element by element)

computes the map with the tensor T exactly if sum_a W[i,a] U[a,j] V[a,k] = T[i,j,k] for all i, j, k.
Such U, V, W are a rank decomposition of T, one term for each product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from winogen.algebra.maps import BilinearMap
from winogen.algebra.scalar import Matrix, Scalar, as_scalar, matrix
from winogen.algebra.size import shown
from winogen.errors import InvalidValue, VerificationError


@dataclass(frozen=True, repr=False)
class Decomposition:
    """An algorithm for ``map``: ``products`` products of linear combinations.

    >>> from winogen.algebra.maps import complex_product
    >>> gauss = Decomposition(
    ...     complex_product(),
    ...     u=[[1, 1], [1, 0], [0, 1]],
    ...     v=[[1, 0], [-1, 1], [1, 1]],
    ...     w=[[1, 0, -1], [1, 1, 0]],
    ... )
    >>> gauss.products, gauss.verify(), [int(y) for y in gauss([1, 2], [3, 4])]
    (3, True, [-5, 10])
    """

    map: BilinearMap
    u: Matrix  # products x numbers of the left operand
    v: Matrix  # products x numbers of the right operand
    w: Matrix  # outputs x products
    written: int | None = None  # additions of the formulas it was read from

    def __post_init__(self) -> None:
        for name in ("u", "v", "w"):
            object.__setattr__(self, name, matrix(getattr(self, name), name))
        shapes = {
            "u": (self.products, len(self.map.left)),
            "v": (self.products, len(self.map.right)),
            "w": (len(self.map.outputs), self.products),
        }
        for name, shape in shapes.items():
            check_shape(name, getattr(self, name), *shape)

    @property
    def products(self) -> int:
        """The number of general multiplications, the rank of the decomposition."""
        return len(self.u)

    @property
    def additions(self) -> int:
        """Additions that U, V and W take row by row; formulas that share sums take fewer."""
        rows = (*self.u, *self.v, *self.w)
        return sum(max(sum(map(bool, row)) - 1, 0) for row in rows)

    def __call__(
        self, left: Sequence[Scalar | int], right: Sequence[Scalar | int]
    ) -> tuple[Scalar, ...]:
        """Run the algorithm exactly on two vectors.

        Raises
        ------
        InvalidValue
            Another number of values than the map takes.
        """
        sides = zip(self.map.operands, (left, right), (self.map.left, self.map.right))
        for name, values, labels in sides:
            if len(values) != len(labels):
                raise InvalidValue(f"{name}: got {len(values)} values; allowed: {len(labels)}")
        return times(self.w, [a * b for a, b in zip(times(self.u, left), times(self.v, right))])

    def verify(self) -> bool:
        """Prove that the algorithm is right: sum_a W[i,a] U[a,j] V[a,k] = T[i,j,k].

        This is the whole truth: both sides are bilinear in the operands, so equal coefficients mean
        equal results for all data, even where the numbers are blocks that do not commute.

        Raises
        ------
        VerificationError
            Names the first output and pair of numbers whose coefficient is wrong, and (i, j, k).
        """
        terms = [
            ([(j, c) for j, c in enumerate(left) if c], [(k, c) for k, c in enumerate(right) if c])
            for left, right in zip(self.u, self.v)
        ]
        wanted: list[dict[tuple[int, int], Scalar]] = [{} for _ in self.w]
        for (i, j, k), c in self.map.tensor.items():
            wanted[i][j, k] = c
        zero = as_scalar(0)
        for i, row in enumerate(self.w):
            found: dict[tuple[int, int], Scalar] = {}
            for weight, (left, right) in zip(row, terms):
                if not weight:
                    continue
                for j, c in left:
                    factor = weight * c
                    for k, other in right:
                        found[j, k] = found.get((j, k), zero) + factor * other
            for j, k in sorted({*found, *wanted[i]}):
                value, expected = found.get((j, k), zero), wanted[i].get((j, k), zero)
                if value != expected:
                    one = self.map
                    raise VerificationError(
                        f"{one.name}: the coefficient of {one.left[j]} {one.right[k]} in "
                        f"{one.outputs[i]} is {shown(value)}, not {shown(expected)} "
                        f"(first wrong (i, j, k) = ({i}, {j}, {k}))"
                    )
        return True

    def __str__(self) -> str:
        return f"{self.map.name} with {self.products} products"

    def __repr__(self) -> str:
        return f"<Decomposition {self}>"


def check_shape(name: str, rows: Matrix, height: int, width: int) -> None:
    """Refuse a matrix of another shape by the name of its argument."""
    if len(rows) != height or any(len(row) != width for row in rows):
        widths = " or ".join(str(w) for w in sorted({len(row) for row in rows})) or "0"
        raise InvalidValue(
            f"{name}: got {len(rows)} rows of {widths}; allowed: {height} rows of {width}"
        )


def times(rows: Matrix, vector: Sequence[Scalar | int]) -> tuple[Scalar, ...]:
    """Return the exact product of a matrix and a vector."""
    return tuple(sum((c * x for c, x in zip(row, vector) if c), as_scalar(0)) for row in rows)
