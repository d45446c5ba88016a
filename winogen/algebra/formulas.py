"""Bilinear algorithms as people write them: "M1 = a*(f - h)", one formula after another.

Every value is a linear combination: of the left operand's numbers, of the right one's, or of the
products so far. Left times right makes a product, and the outputs are combinations of these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from winogen.algebra.decomposition import Decomposition
from winogen.algebra.maps import BilinearMap
from winogen.algebra.parse import parse_in
from winogen.algebra.scalar import Algebraic, Scalar, as_scalar
from winogen.algebra.size import MOST_BITS, digits
from winogen.errors import InvalidValue

_MOST_WORK = 2_000_000  # coefficients of all values, and pairs of them in products
_ALLOWED = "sums of named values times numbers, and products left * right"
_SPOKEN = {
    "left": "a combination of the left operand",
    "right": "one of the right operand",
    "products": "one of products",
}


def read_formulas(text: str, one: BilinearMap) -> Decomposition:
    """Return the algorithm that the formulas in ``text`` are, for the map ``one``.

    A formula is a line ``name = expression``; blank lines and what follows '#' are left out. Its
    names are those of the map (``g[0]`` may be written ``g0``) and of earlier formulas. The map's
    outputs must all be among them. Every written product counts.

    Raises
    ------
    InvalidValue
        A line that is no formula, an unknown name, a name that has a value already, a missing
        output, a product that is not left times right.

    >>> from winogen.algebra.maps import polynomial_product
    >>> karatsuba = '''
    ...     low = g0*h0
    ...     high = g1*h1
    ...     s0 = low
    ...     s1 = (g0 + g1)*(h0 + h1) - low - high
    ...     s2 = high
    ... '''
    >>> f = read_formulas(karatsuba, polynomial_product(2, 2))
    >>> f.products, f.verify()
    (3, True)
    """
    reader = _Reader(one.ordered)
    for side, labels in (("left", one.left), ("right", one.right)):
        for k, label in enumerate(labels):
            reader.values[_plain(label)] = _Form(reader, side, {k: as_scalar(1)})
    outputs = {_plain(label): label for label in one.outputs}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition("#")[0].strip()
        if not line:
            continue
        name, equals, expression = line.partition("=")
        name = _plain(name)
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise InvalidValue(f"formulas: got {line!r} in line {number}; allowed: name = formula")
        if name in reader.values:
            raise InvalidValue(f"formulas: got {name!r} again in line {number}; allowed: once")
        try:
            value = parse_in(_plain(expression), reader.values, _ALLOWED)
        except InvalidValue as error:
            raise InvalidValue(f"formulas: line {number}: {name} = {error}") from None
        if not isinstance(value, _Form) or (name in outputs and value.side != "products"):
            raise InvalidValue(
                f"formulas: got {line!r} in line {number}, which is no combination of "
                f"{'products' if name in outputs else 'named values'}; allowed: {_ALLOWED}"
            )
        reader.values[name] = value
    rows = []
    for name, label in outputs.items():
        if name not in reader.values:
            raise InvalidValue(f"formulas: got none for the output {label}; allowed: all of "
                               + ", ".join(one.outputs))  # fmt: skip
        rows.append(reader.values[name].row(len(reader.products)))
    return Decomposition(
        one,
        u=tuple(left.row(len(one.left)) for left, _ in reader.products),
        v=tuple(right.row(len(one.right)) for _, right in reader.products),
        w=tuple(rows),
        written=reader.additions,
    )


def map_of_formulas(text: str, left: Sequence[str], right: Sequence[str]) -> BilinearMap:
    """Return the map that formulas define: every one of them is an output.

    >>> one = map_of_formulas("real = a*c - b*d; imag = a*d + b*c".replace(";", "\\n"), "ab", "cd")
    >>> one.outputs, int(one.tensor[0, 1, 1])
    (('real', 'imag'), -1)
    """
    names = [_plain(line.partition("=")[0]) for line in text.splitlines() if line.strip()]
    empty = BilinearMap("map", ("left", "right"), tuple(left), tuple(right), tuple(names), {})
    made = read_formulas(text, empty)
    tensor: dict[tuple[int, int, int], Scalar] = {}
    for i, row in enumerate(made.w):
        for weight, us, vs in zip(row, made.u, made.v):
            for j, a in enumerate(us):
                for k, b in enumerate(vs):
                    if weight and a and b:
                        tensor[i, j, k] = tensor.get((i, j, k), as_scalar(0)) + weight * a * b
    return BilinearMap("map", ("left", "right"), tuple(left), tuple(right), tuple(names), tensor)


class _Reader:
    """What the formulas so far have named, and multiplied."""

    def __init__(self, ordered: bool) -> None:
        self.ordered = ordered
        self.values: dict[str, _Form] = {}
        self.products: list[tuple[_Form, _Form]] = []
        self.additions = 0
        self.work = 0

    def count(self, coefficients: int) -> None:
        """Refuse formulas whose values have too many coefficients, all together."""
        self.work += coefficients
        if self.work > _MOST_WORK:
            raise InvalidValue(
                f"got formulas whose values have more than {_MOST_WORK:,} coefficients, all "
                "together; allowed: fewer"
            )


@dataclass(frozen=True, eq=False)
class _Form:
    """A linear combination of the numbers of one side, or of products."""

    reader: _Reader
    side: str
    weights: Mapping[int, Scalar]

    def __post_init__(self) -> None:
        self.reader.count(len(self.weights))
        for c in self.weights.values():
            parts = c.as_integer_ratio() if isinstance(c, Fraction) else ()
            if any(part.bit_length() > MOST_BITS for part in parts):
                raise InvalidValue(
                    f"got a coefficient of more than {digits(MOST_BITS)} digits; allowed: fewer"
                )

    def row(self, width: int) -> tuple[Scalar, ...]:
        return tuple(self.weights.get(k, as_scalar(0)) for k in range(width))

    def __add__(self, other: object) -> _Form:
        if not isinstance(other, _Form) or other.side != self.side:
            what = _SPOKEN[other.side] if isinstance(other, _Form) else "a number"
            raise TypeError(f"{_SPOKEN[self.side]} plus {what}")
        self.reader.additions += 1
        weights = dict(self.weights)
        for k, c in other.weights.items():
            weights[k] = weights.get(k, as_scalar(0)) + c
        return _Form(self.reader, self.side, weights)

    __radd__ = __add__

    def __sub__(self, other: object) -> _Form:
        return self + (-other if isinstance(other, _Form) else other)

    def __rsub__(self, other: object) -> _Form:
        return -self + other

    def __neg__(self) -> _Form:
        return self * -1

    def __mul__(self, other: object) -> _Form:
        if isinstance(other, _Form):
            return self._product(other)
        if isinstance(other, Algebraic):
            factor: Scalar = other
        elif isinstance(other, (int, Fraction)):
            factor = Fraction(other)
        else:
            raise TypeError("a product with something else than a named value or a number")
        return _Form(self.reader, self.side, {k: factor * c for k, c in self.weights.items()})

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> _Form:
        if not isinstance(other, (int, Fraction, Algebraic)):
            raise TypeError("a division by something else than a number")
        return self * (1 / as_scalar(other))

    def _product(self, other: _Form) -> _Form:
        sides = (self.side, other.side)
        if sides == ("right", "left") and self.reader.ordered:
            raise TypeError("right times left, which is wrong for blocks of matrices")
        if sorted(sides) != ["left", "right"]:
            raise TypeError(f"{_SPOKEN[self.side]} times {_SPOKEN[other.side]}")
        pair = (self, other) if sides == ("left", "right") else (other, self)
        self.reader.count(len(self.weights) * len(other.weights))
        self.reader.products.append(pair)
        last = len(self.reader.products) - 1
        return _Form(self.reader, "products", {last: as_scalar(1)})


def _plain(text: str) -> str:
    """Return a text whose ``g[0]`` and ``g[0,1]`` are plain names, ``g0`` and ``g0_1``."""
    return re.sub(r"\[([\d,\s]+)\]", lambda found: "_".join(found[1].replace(" ", "").split(",")),
                  text.strip())  # fmt: skip
