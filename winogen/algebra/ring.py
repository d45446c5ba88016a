"""The ring R[w] / (w^2 + b w + c) where it is a field, the complex numbers: products in it, and in
its tensor powers.

A product of two numbers a + b w takes three products of their coordinates (Gauss, Karatsuba). Of
two such rings, one for each axis, the tensor product is no field but splits: w' of the second is a
root of the same polynomial, so it is w or its conjugate, and by these two cases

    C (x) C = C + C:   two complex products, six real ones, where nesting takes nine.

Of k rings 2^(k-1) complex products are left. All of this is linear with coefficients of the ring's
own polynomial, hence exact.

Source: Nussbaumer & Quandalle, Fast Computation of Discrete Fourier Transforms Using Polynomial
Transforms, IEEE Trans. ASSP 27 (1979); Winograd, Arithmetic Complexity of Computations, 1980.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import gcd, lcm
from typing import NamedTuple

from winogen.algebra.scalar import Matrix, Scalar
from winogen.errors import VerificationError


class Trilinear(NamedTuple):
    """y = output [(filter u) * (input d)], element by element; each has a row or column a product.

    For the product s = u h of an algebra, this is how its coordinates' weights d in s become those
    of h: y_b = sum over a, c of t[a, b, c] u_a d_c, where e_a e_b = sum over c of t[a, b, c] e_c.
    """

    input: Matrix  # products x coordinates
    filter: Matrix  # products x coordinates
    output: Matrix  # coordinates x products

    @property
    def products(self) -> int:
        """General multiplications."""
        return len(self.filter)


@dataclass(frozen=True)
class Ring:
    """R[w] / (w^2 + b w + c), with b^2 < 4 c.

    >>> gaussian = Ring(0, 1)
    >>> [gaussian.power(axes).products for axes in range(4)], gaussian.verify(3)
    ([1, 3, 6, 12], True)
    """

    b: Fraction
    c: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", Fraction(self.b))
        object.__setattr__(self, "c", Fraction(self.c))

    @property
    def discriminant(self) -> Fraction:
        """b^2 - 4 c, negative."""
        return self.b * self.b - 4 * self.c

    @classmethod
    def of(cls, discriminants: Iterable[Scalar]) -> Ring:
        """Return the ring whose discriminant is that of most polynomials, but for a square.

        Each of the others is then it, times the square of what may be irrational.
        """
        classes: dict[int, int] = {}
        for value in discriminants:
            if isinstance(value, Fraction):
                free = _square_free(value)
                classes[free] = classes.get(free, 0) + 1
        free = max(classes, key=lambda one: (classes[one], one)) if classes else -1
        if free == -3:
            return cls(Fraction(1), Fraction(1))  # by sixth roots of unity
        size = Fraction(-free)
        while size > 2:
            size /= 4
        return cls(Fraction(0), size)

    def tensor(self, axes: int) -> dict[tuple[int, int], dict[int, Scalar]]:
        """The structure of the tensor power: (a, b) -> {c: t}, e_a e_b = sum of t e_c.

        Coordinate a is that of w^i w'^j w''^k .., the bits i j k .. of a, the first axis' first.
        """
        one = {
            (0, 0): {0: Fraction(1)},
            (0, 1): {1: Fraction(1)},
            (1, 0): {1: Fraction(1)},
            (1, 1): {0: -self.c, 1: -self.b},
        }
        found: dict[tuple[int, int], dict[int, Scalar]] = {(0, 0): {0: Fraction(1)}}
        for _ in range(axes):
            found = {
                (2 * a + i, 2 * b + j): {
                    2 * c + k: x * y for (c, x), (k, y) in product(left.items(), right.items())
                }
                for ((a, b), left), ((i, j), right) in product(found.items(), one.items())
            }
        return found

    def power(self, axes: int) -> Trilinear:
        """Return the product of the tensor power: 1 real product for no axis, 3 for one, 6 for two.

        Rows of the input are scaled so that they are integers where they can be.
        """
        return _power(self, axes)

    def verify(self, axes: int) -> bool:
        """Prove `power`: every coefficient of the trilinear form is that of `tensor`.

        Raises
        ------
        VerificationError
            Names the first (a, b, c) that is wrong.
        """
        made, tensor, size = self.power(axes), self.tensor(axes), 2**axes
        for a, b, c in product(range(size), repeat=3):
            columns = zip(made.filter, made.output[b], made.input)
            value = sum((u[a] * y * d[c] for u, y, d in columns), Fraction(0))
            expected = tensor[a, b].get(c, Fraction(0))
            if value != expected:
                raise VerificationError(
                    f"w^2 + {self.b} w + {self.c}: the coefficient of u[{a}] d[{c}] in y[{b}] of "
                    f"{axes} rings is {value}, not {expected}"
                )
        return True


@lru_cache(maxsize=64)
def _power(ring: Ring, axes: int) -> Trilinear:
    one, zero = Fraction(1), Fraction(0)
    if axes == 0:
        return Trilinear(((one,),), ((one,),), ((one,),))
    b, c = ring.b, ring.c
    if axes == 1:
        # Karatsuba at 0, infinity, and 1 or -1, whichever leaves less to do.
        e = -one if b == 1 else one
        points: Matrix = ((one, zero), (one, e), (zero, one))
        back: Matrix = ((one, -e), (zero, e), (-c, -e - b))  # from products to s, transposed
        return _scaled(Trilinear(back, points, _transposed(points)))
    # The first two rings split: u becomes its values at w' = w, and at w' = -b - w. What is left to
    # do with each half is one power less.
    split: Matrix = (
        (one, zero, zero, -c),
        (zero, one, one, -b),
        (one, -b, zero, c),
        (zero, -one, one, zero),
    )
    back = _transposed(_inverted(split))
    less, rest = _power(ring, axes - 1), _identity(2 ** (axes - 2))
    inputs: list[tuple[Scalar, ...]] = []
    filters: list[tuple[Scalar, ...]] = []
    outputs: list[tuple[Scalar, ...]] = []
    for half in (slice(0, 2), slice(2, 4)):
        into = _kronecker(split[half], rest)
        inputs += _product(less.input, _kronecker(back[half], rest))
        filters += _product(less.filter, into)
        outputs += _product(_transposed(less.output), into)
    return _scaled(Trilinear(tuple(inputs), tuple(filters), _transposed(outputs)))


def _scaled(made: Trilinear) -> Trilinear:
    """The same with rows of the input that are coprime integers, the first of them positive."""
    inputs, filters = [], []
    for into, u in zip(made.input, made.filter):
        values = [x for x in into if isinstance(x, Fraction) and x]
        factor = Fraction(
            lcm(*(x.denominator for x in values)), gcd(*(x.numerator for x in values))
        )
        factor = factor if values[0] > 0 else -factor
        inputs.append(tuple(factor * x for x in into))
        filters.append(tuple(x / factor for x in u))
    return Trilinear(tuple(inputs), tuple(filters), made.output)


def _square_free(value: Fraction) -> int:
    """The squarefree integer that is this number but for the square of a rational one."""
    number, free = value.numerator * value.denominator, 1
    sign, number = (1, number) if number > 0 else (-1, -number)
    prime = 2
    while prime * prime <= number:
        while number % (prime * prime) == 0:
            number //= prime * prime
        if number % prime == 0:
            number, free = number // prime, free * prime
        prime += 1
    return sign * free * number


def _identity(size: int) -> Matrix:
    return tuple(tuple(Fraction(i == j) for j in range(size)) for i in range(size))


def _transposed(rows: Sequence[Sequence[Scalar]]) -> Matrix:
    return tuple(zip(*rows))


def _product(left: Matrix, right: Matrix) -> Matrix:
    columns = _transposed(right)
    return tuple(
        tuple(sum((x * y for x, y in zip(row, column)), Fraction(0)) for column in columns)
        for row in left
    )


def _kronecker(left: Matrix, right: Matrix) -> Matrix:
    return tuple(tuple(x * y for x in row for y in other) for row in left for other in right)


def _inverted(rows: Matrix) -> Matrix:
    """The inverse, by Gauss and Jordan."""
    size = len(rows)
    work = [list(row + unit) for row, unit in zip(rows, _identity(size))]
    for k in range(size):
        pivot = next(i for i in range(k, size) if work[i][k])
        work[k], work[pivot] = work[pivot], work[k]
        work[k] = [x / work[k][k] for x in work[k]]
        for i in range(size):
            if i != k and work[i][k]:
                work[i] = [x - work[i][k] * y for x, y in zip(work[i], work[k])]
    return tuple(tuple(row[size:]) for row in work)
