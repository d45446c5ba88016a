"""How large the value of an expression can become, found from its text alone.

Points and moduli may come from strangers. Before anything is computed, every sub-expression gets a
bound of its digits, of its degree as a polynomial and of the degree of the number field it lies in;
what passes a limit is refused. The limits are far above any useful value.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, prod
from typing import TYPE_CHECKING, cast

from winogen.errors import InvalidValue

if TYPE_CHECKING:
    from winogen.algebra.scalar import Scalar

LARGEST_EXPONENT = 200
MOST_BITS = 8192  # of numerator and denominator together
LARGEST_DEGREE = 200  # of a polynomial in x
FIELD_DEGREE = 32  # of one irrational number over the rationals
DEEPEST = 250  # operations within each other; every term of a sum counts, too
_MOST_WORK = 100_000  # products of coefficients in one text

_ARGUMENTS = {"sqrt": 1, "cbrt": 1, "root": 2, "cos": 1, "sin": 1, "tan": 1}
_TRIGONOMETRIC = ("cos", "sin", "tan")


class TooLarge(InvalidValue):
    """An expression beyond the limits: why, and what is allowed; the reader adds what it was."""

    def __init__(self, why: str, allowed: str) -> None:
        super().__init__(f"{why}; allowed: {allowed}")
        self.why, self.allowed = why, allowed


@dataclass(frozen=True)
class ValueBounds:
    """Upper bounds for one value."""

    bits: int = 1  # of numerator and denominator together, in any coefficient
    degree: int = 0  # as a polynomial in x, or in pi
    # (what generates a field, its degree over the rationals)
    roots: frozenset[tuple[str, int]] = frozenset()

    def __post_init__(self) -> None:
        if self.degree > LARGEST_DEGREE:
            raise TooLarge(
                f"a polynomial of degree {shown(self.degree)}, by its exponents",
                f"degrees of at most {LARGEST_DEGREE}",
            )
        field = prod(degree for _, degree in self.roots)
        if field > FIELD_DEGREE:
            raise TooLarge(
                f"irrational numbers of degree up to {shown(field)} over the rationals",
                f"degrees of at most {FIELD_DEGREE}",
            )
        if self.bits > MOST_BITS:
            raise TooLarge(
                f"too large: numbers of about {digits(self.bits)} digits",
                f"numbers of at most {digits(MOST_BITS)} digits",
            )


class Measure:
    """Bounds of all parts of one expression; refuses with ``TooLarge``.

    ``rational`` takes an exponent's tree to its value, a ``Fraction``; ``turns`` an angle's tree to
    its share of pi.
    """

    def __init__(
        self, rational: Callable[[ast.expr], Fraction], turns: Callable[[ast.expr], Fraction]
    ) -> None:
        self._rational = rational
        self._turns = turns
        self._work = 0

    def of(self, node: ast.expr, depth: int = 0) -> ValueBounds:
        """Return the bounds of ``node``; unknown kinds of nodes are left to the reader."""
        if depth > DEEPEST:
            raise TooLarge("too deeply nested", f"at most {DEEPEST} operations within each other")
        if isinstance(node, ast.Constant):
            return (
                ValueBounds(bits=max(node.value.bit_length(), 1))
                if type(node.value) is int
                else ValueBounds()
            )
        if isinstance(node, ast.Name):
            return ValueBounds(degree=1)
        if isinstance(node, ast.UnaryOp):
            return self.of(node.operand, depth + 1)
        if isinstance(node, ast.BinOp):
            return self._operation(node, depth)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return self._function(node, [self.of(argument, depth + 1) for argument in node.args])
        return ValueBounds()

    def _operation(self, node: ast.BinOp, depth: int) -> ValueBounds:
        left = self.of(node.left, depth + 1)
        right = self.of(node.right, depth + 1)
        if isinstance(node.op, ast.Pow):
            return self._power(node, left)
        roots = left.roots | right.roots
        if isinstance(node.op, (ast.Add, ast.Sub)):
            return ValueBounds(left.bits + right.bits + 1, max(left.degree, right.degree), roots)
        size = ValueBounds(left.bits + right.bits, left.degree + right.degree, roots)
        self._spend((left.degree + 1) * (right.degree + 1))
        return size

    def _power(self, node: ast.BinOp, base: ValueBounds) -> ValueBounds:
        exponent = self._rational(node.right)
        size = abs(exponent.numerator)
        if size > LARGEST_EXPONENT:
            raise TooLarge(
                f"too large an exponent: {shown(exponent)}",
                f"exponents of at most {LARGEST_EXPONENT}",
            )
        roots = base.roots
        if exponent.denominator > 1:
            roots |= {(f"{ast.dump(node.left)}^(1/{exponent.denominator})", exponent.denominator)}
        result = ValueBounds(base.bits * max(size, 1), base.degree * size, roots)
        self._spend((size * result.degree // 2 + 1) * (base.degree + 1))
        return result

    def _function(self, node: ast.Call, arguments: list[ValueBounds]) -> ValueBounds:
        name = cast("ast.Name", node.func).id
        if name not in _ARGUMENTS:
            return ValueBounds()
        if len(arguments) != _ARGUMENTS[name]:
            count = "one argument" if _ARGUMENTS[name] == 1 else "two arguments"
            raise TooLarge(f"{name}() of {len(arguments)} arguments", f"{name}() of {count}")
        if name in _TRIGONOMETRIC:
            denominator = self._turns(node.args[0]).denominator
            # cos of pi p/q lies in the real part of the field of 2q-th roots of unity; sin and tan
            # in the same part for 4q-th roots.
            degree = max(_totient((2 if name == "cos" else 4) * denominator) // 2, 1)
            generator = (f"{name}(pi/{denominator})", degree)
            return ValueBounds(roots=frozenset({generator} if degree > 1 else ()))
        kth = {"sqrt": 2, "cbrt": 3}.get(name) or self._rational(node.args[1])
        if kth != int(kth) or kth < 1:
            raise TooLarge(f"a root of index {shown(kth)}", "root(x, k) with an integer k >= 1")
        inner, index = arguments[0], int(kth)
        roots = {(f"{ast.dump(node.args[0])}^(1/{index})", index)} if index > 1 else set()
        return ValueBounds(inner.bits, inner.degree, inner.roots | roots)

    def _spend(self, work: int) -> None:
        self._work += work
        if self._work > _MOST_WORK:
            raise TooLarge(
                "powers and products too large together",
                f"expressions that expand within {_MOST_WORK:,} multiplications",
            )


def check_bits(value: Scalar, name: str) -> Scalar:
    """Return a scalar unless it has too many digits to compute with.

    Raises InvalidValue if numerator and denominator have more than ``MOST_BITS`` bits.
    """
    bits = bits_of(value)
    if bits > MOST_BITS + 1:
        raise InvalidValue(
            f"{name}: got a number of about {digits(bits)} digits; "
            f"allowed: at most {digits(MOST_BITS)}"
        )
    return value


def bits_of(value: Scalar) -> int:
    """Return the bits of a scalar, of numerator and denominator together."""
    parts = cast(
        "Iterable[Fraction]",
        [value] if isinstance(value, Fraction) else value.polynomial.coefficients,
    )
    return max(c.numerator.bit_length() + c.denominator.bit_length() for c in parts)


def digits(bits: int) -> int:
    """Return about how many decimal digits a number of so many bits has."""
    return bits * 1233 // 4096  # log10(2)


def shown(value: object, width: int = 60) -> str:
    """Return a number or text for an error message, cut to ``width`` characters.

    Python refuses to print integers of more than 4300 digits, so large numbers are only described.

    >>> shown(Fraction(5, 2)), shown(10**5000), shown("x" * 100, 10)
    ('5/2', 'a number of 5000 digits', 'xxxxxxx...')
    """
    if isinstance(value, (int, Fraction)):
        bits = value.numerator.bit_length() + value.denominator.bit_length() - 1
        if digits(bits) > width:
            return f"a number of {digits(bits)} digits"
    text = str(value)
    return text if len(text) <= width else text[: width - 3] + "..."


def listed(values: Iterable[object], width: int = 200) -> str:
    """Return values with commas between them for an error message, cut to about ``width``.

    >>> listed(range(100), 20)
    '0, 1, 2, 3, 4, 5, ...'
    """
    text = ""
    for value in values:
        item = f", {shown(value)}" if text else shown(value)
        if len(text) + len(item) > width - 3:
            return text + ", ..."
        text += item
    return text


def _totient(n: int) -> int:
    if n > 10_000:
        return n  # not the totient, but as far beyond the limit
    return sum(gcd(k, n) == 1 for k in range(1, n + 1))
