"""Bilinear maps by their tensors: y[i] = sum_jk T[i,j,k] g[j] h[k].

Correlations, products of polynomials, of complex numbers and of matrices, cyclic convolutions: what
a bilinear algorithm computes is such a table of coefficients, and nothing else.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from types import MappingProxyType

from winogen.algebra.moduli import parse_moduli
from winogen.algebra.polynomial import Polynomial
from winogen.algebra.scalar import Scalar, as_scalar
from winogen.algebra.size import shown
from winogen.errors import InvalidType, InvalidValue

MOST_TERMS = 1_000_000  # products of numbers that a definition sums

Labels = tuple[str, ...]
_NAMED = (
    "'matrix product 2x2x2' (rows of A, columns of A, columns of B), 'complex product', "
    "'polynomial product 3 2', 'cyclic convolution 5', 'product modulo x^2+1', 'correlation 2 3', "
    "'correlation 2x2 3x3'"
)


@dataclass(frozen=True, repr=False)
class BilinearMap:
    """Coefficients T[i,j,k] of output i, number j of the left operand and k of the right one.

    >>> complex_product().tensor[1, 0, 1]
    Fraction(1, 1)
    >>> complex_product().left, complex_product().right, complex_product().outputs
    (('a', 'b'), ('c', 'd'), ('real', 'imag'))
    """

    name: str
    operands: tuple[str, str]  # how the two vectors are called
    left: Labels  # what each number is called
    right: Labels
    outputs: Labels
    tensor: Mapping[tuple[int, int, int], Scalar]  # without zeros
    ordered: bool = False  # numbers may be blocks of matrices: left times right, never turned

    def __post_init__(self) -> None:
        for labels in (self.left, self.right, self.outputs):
            if not labels:
                raise InvalidValue(f"map: got {self.name} of no numbers; allowed: one or more")
        times = Counter([*self.left, *self.right, *self.outputs])
        twice = next((name for name, count in times.items() if count > 1), None)
        if twice is not None:
            raise InvalidValue(f"left, right, outputs: got {twice!r} twice; allowed: once")
        object.__setattr__(
            self, "tensor", MappingProxyType({key: c for key, c in self.tensor.items() if c})
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BilinearMap) and self.name == other.name and (
            dict(self.tensor) == dict(other.tensor)
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash((self.name, frozenset(self.tensor.items())))

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickled, (self.name, self.operands, self.left, self.right, self.outputs,
                            dict(self.tensor), self.ordered)  # fmt: skip

    def __call__(
        self, left: Sequence[Scalar | int], right: Sequence[Scalar | int]
    ) -> tuple[Scalar, ...]:
        """Return the outputs by the definition, exactly."""
        sums = [as_scalar(0)] * len(self.outputs)
        for (i, j, k), c in self.tensor.items():
            sums[i] += c * left[j] * right[k]
        return tuple(sums)

    def __repr__(self) -> str:
        return f"<BilinearMap {self.name}>"


def _unpickled(*fields: object) -> BilinearMap:
    return BilinearMap(*fields)  # type: ignore[arg-type]


def correlation(
    m: int | Sequence[int], r: int | Sequence[int], stride: int | Sequence[int] = 1
) -> BilinearMap:
    """Return y[i] = sum_k g[k] d[s*i+k], m outputs of r taps; along several axes for sequences.

    >>> len(correlation(2, 3).tensor), len(correlation((2, 2), (3, 3)).tensor)
    (6, 36)
    """
    outputs, taps = _sizes("m", m), _sizes("r", r)
    if len(outputs) != len(taps):
        raise InvalidValue(f"r: got {len(taps)} axes; allowed: {len(outputs)}, as for m")
    steps = _sizes("stride", stride) if isinstance(stride, Sequence) else (stride,) * len(taps)
    inputs = tuple(s * (a - 1) + b for s, a, b in zip(steps, outputs, taps))
    _check_terms(*outputs, *taps)
    one = as_scalar(1)
    tensor = {}
    for i, j in product(_places(outputs), _places(taps)):
        read = [s * a + b for s, a, b in zip(steps, i, j)]
        tensor[_flat(i, outputs), _flat(j, taps), _flat(read, inputs)] = one
    strided = f" at stride {_by(steps)}" if max(steps) > 1 else ""
    name = f"F({_by(outputs)},{_by(taps)}){strided}"
    return _map(name, ("g", "d", "y"), (taps, inputs, outputs), tensor)


def polynomial_product(first: int, second: int, stride: int = 1) -> BilinearMap:
    """Return the product of polynomials of so many coefficients: s[i + j] = sum g[i] h[j].

    With a stride the second is one in x^stride: s[i + stride*j] = sum g[i] h[j].

    >>> polynomial_product(2, 2).outputs
    ('s[0]', 's[1]', 's[2]')
    """
    return _polynomials(f"polynomial product {first} {second}", first, second, None, stride)


def cyclic_convolution(n: int) -> BilinearMap:
    """Return s[(i + j) mod n] = sum g[i] h[j], the product of polynomials modulo x^n - 1."""
    (n,) = _sizes("n", n)
    _check_terms(n, n)
    modulus = Polynomial([-1, *[0] * (n - 1), 1])
    return _polynomials(f"cyclic convolution {n}", n, n, modulus)


def product_modulo(modulus: str | Polynomial | Iterable[object]) -> BilinearMap:
    """Return the product of two remainders modulo a polynomial, itself a remainder.

    >>> [int(c) for c in product_modulo("x^2+1")([1, 2], [3, 4])]
    [-5, 10]
    """
    one = isinstance(modulus, (str, Polynomial))
    parsed = parse_moduli([modulus] if one else modulus)  # type: ignore[arg-type]
    if len(parsed) != 1 or not isinstance(parsed[0], Polynomial):
        raise InvalidValue(f"modulus: got {modulus!r}; allowed: one polynomial in x")
    degree = parsed[0].degree
    return _polynomials(f"product modulo {parsed[0]}", degree, degree, parsed[0])


def complex_product() -> BilinearMap:
    """Return (a + bi)(c + di) = real + imag i, the product modulo x^2 + 1."""
    made = product_modulo("x^2+1")
    return relabel(made, "complex product", ("a", "b"), ("c", "d"), ("real", "imag"))


def matrix_product(n: int, m: int, p: int) -> BilinearMap:
    """Return C = A B for A of n x m numbers and B of m x p; all of them row by row.

    The numbers may be blocks of matrices, so they do not commute.

    >>> matrix_product(2, 2, 2).right
    ('b11', 'b12', 'b21', 'b22')
    """
    n, m, p = (_sizes(name, size)[0] for name, size in (("n", n), ("m", m), ("p", p)))
    _check_terms(n, m, p)
    tensor = {
        (i * p + k, i * m + j, j * p + k): as_scalar(1)
        for i, j, k in product(range(n), range(m), range(p))
    }

    def labels(letter: str, rows: int, columns: int) -> Labels:
        comma = "_" if max(n, m, p) > 9 else ""
        places = product(range(1, rows + 1), range(1, columns + 1))
        return tuple(f"{letter}{i}{comma}{k}" for i, k in places)

    return BilinearMap(
        f"matrix product {n}x{m}x{p}", ("A", "B"), labels("a", n, m), labels("b", m, p),
        labels("c", n, p), tensor, ordered=True,
    )  # fmt: skip


def by_tensor(values: object, name: str = "tensor") -> BilinearMap:
    """Return the map with the coefficients ``values[i][j][k]``."""
    try:
        table = [[[as_scalar(c, name) for c in row] for row in rows] for rows in values]  # type: ignore[attr-defined]
    except TypeError:
        raise InvalidType(
            f"{name}: got {shown(values)}; allowed: numbers by output, left and right"
        ) from None
    widths = {(len(rows), len(row)) for rows in table for row in rows}
    if len(widths) != 1:
        raise InvalidValue(f"{name}: got rows of different lengths; allowed: a full table")
    ((height, width),) = widths
    tensor = {
        (i, j, k): c
        for i, rows in enumerate(table)
        for j, row in enumerate(rows)
        for k, c in enumerate(row)
    }
    return _map("tensor", ("g", "h", "y"), ((height,), (width,), (len(table),)), tensor)


def named_map(text: str) -> BilinearMap:
    """Return a map by its name, as `winogen verify` reads it.

    Raises
    ------
    InvalidValue
        No such name, or sizes that are too large.

    >>> named_map("matrix product 2x2x2"), named_map("correlation 4 3")
    (<BilinearMap matrix product 2x2x2>, <BilinearMap F(4,3)>)
    """
    words = " ".join(text.split())
    for pattern, make in _BY_NAME:
        if found := re.fullmatch(pattern, words):
            return make(*found.groups())
    raise InvalidValue(f"map: got {shown(words)!r}; allowed: {_NAMED}, or formulas")


def relabel(
    one: BilinearMap,
    name: str | None = None,
    left: Sequence[str] | None = None,
    right: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
) -> BilinearMap:
    """Return the same map whose numbers have other names."""
    given = {"left": left, "right": right, "outputs": outputs}
    labels: dict[str, Labels] = {}
    for side, names in given.items():
        old: Labels = getattr(one, side)
        labels[side] = old if names is None else tuple(names)
        if len(labels[side]) != len(old):
            raise InvalidValue(
                f"{side}: got {len(labels[side])} names; allowed: {len(old)} for {one.name}"
            )
    return BilinearMap(
        name or one.name, one.operands, labels["left"], labels["right"], labels["outputs"],
        one.tensor, one.ordered,
    )  # fmt: skip


_SIZE = r"(\d{1,4})"
_BY_NAME: tuple[tuple[str, Callable[..., BilinearMap]], ...] = (
    (rf"matrix product {_SIZE}x{_SIZE}x{_SIZE}", lambda *n: matrix_product(*map(int, n))),
    ("complex product", complex_product),
    (rf"polynomial product {_SIZE} {_SIZE}", lambda *n: polynomial_product(*map(int, n))),
    (rf"cyclic convolution {_SIZE}", lambda n: cyclic_convolution(int(n))),
    (r"product modulo (.+)", product_modulo),
    (r"correlation ([\dx]{1,14}) ([\dx]{1,14})",
     lambda m, r: correlation(_by_axes(m), _by_axes(r))),
)  # fmt: skip


def _by_axes(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d{1,4}(x\d{1,4})*", text):
        raise InvalidValue(f"map: got the size {text!r}; allowed: a number for each axis, as 2x2")
    return tuple(map(int, text.split("x")))


def _polynomials(
    name: str, first: int, second: int, modulus: Polynomial | None, stride: int = 1
) -> BilinearMap:
    (first,), (second,) = _sizes("first", first), _sizes("second", second)
    whole = first + stride * (second - 1)
    size = whole if modulus is None else modulus.degree
    _check_terms(first, second, 1 if modulus is None else size)
    powers = [Polynomial([*[0] * k, 1]) for k in range(whole)]
    if modulus is not None:
        powers = [power % modulus for power in powers]
    tensor = {
        (i, j, k): powers[j + stride * k][i]
        for j, k in product(range(first), range(second))
        for i in range(size)
    }
    return _map(name, ("g", "h", "s"), ((first,), (second,), (size,)), tensor)


def _map(
    name: str,
    letters: tuple[str, str, str],
    sizes: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]],
    tensor: Mapping[tuple[int, int, int], Scalar],
) -> BilinearMap:
    left, right, outputs = (
        tuple(f"{letter}[{','.join(map(str, place))}]" for place in _places(size))
        for letter, size in zip(letters, sizes)
    )
    return BilinearMap(name, letters[:2], left, right, outputs, tensor)


def _sizes(name: str, value: int | Sequence[int]) -> tuple[int, ...]:
    sizes = tuple(value) if isinstance(value, Sequence) else (value,)
    if not sizes or any(not isinstance(size, int) or size < 1 for size in sizes):
        raise InvalidValue(f"{name}: got {value!r}; allowed: integers >= 1")
    return sizes


def _check_terms(*sizes: int) -> None:
    """Refuse too large a map before its tensor is made."""
    if (terms := prod(sizes)) > MOST_TERMS:
        raise InvalidValue(f"map: got one of {terms:,} products; allowed: {MOST_TERMS:,}")


def _places(sizes: Sequence[int]) -> Iterable[tuple[int, ...]]:
    return product(*map(range, sizes))


def _flat(place: Sequence[int], sizes: Sequence[int]) -> int:
    index = 0
    for value, size in zip(place, sizes):
        index = index * size + value
    return index


def _by(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))
