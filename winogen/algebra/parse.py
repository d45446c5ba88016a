"""Reads exact numbers and polynomials written as text, by rules instead of ``eval``.

Allowed: integers, decimals standing alone ("0.25"), + - * / ** (or ^), parentheses, and for
irrational numbers sqrt(), cbrt(), root(x, k), cos(), sin(), tan() and pi. sympy is imported only
when one of the latter is met.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from winogen.errors import InvalidValue

if TYPE_CHECKING:
    import sympy

    from winogen.algebra.polynomial import Polynomial
    from winogen.algebra.scalar import Scalar

# What a text is made of while it is read: Fractions, Polynomials or sympy expressions.
Value: TypeAlias = Any

_DECIMAL = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+)")
_IRRATIONAL = ("sqrt", "cbrt", "root", "cos", "sin", "tan", "pi")
_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
# Far above any useful value; they keep a slip of the finger from taking all memory.
_LONGEST_TEXT = 2000
_LARGEST_EXPONENT = 200
_MOST_BITS = 20000


class _NeedsSympy(Exception):
    """The text is not a plain rational expression."""


def parse_number(text: str) -> Fraction | sympy.Expr:
    """Return ``text`` as a ``Fraction``, or as a sympy expression when it has a root or pi in it.

    Raises InvalidValue for another form of expression, or a division by zero.

    >>> parse_number("-5/2"), parse_number("0.25"), parse_number("sqrt(2)/2")
    (Fraction(-5, 2), Fraction(1, 4), sqrt(2)/2)
    """
    if len(text) <= _LONGEST_TEXT and _DECIMAL.fullmatch(text.strip()):
        return Fraction(text.strip())
    reader = _Reader(text, "'-5/2', '0.25', 'sqrt(2)/2'")
    try:
        return reader.read(Fraction, {}, _power)
    except _NeedsSympy:
        import sympy

        names = {name: getattr(sympy, name) for name in _IRRATIONAL}
        value = reader.read(sympy.Integer, names, _sympy_power)
        if value.is_finite is False:
            raise reader.refusal("not finite") from None
        return value


def parse_polynomial(
    text: str, x: Polynomial, scalar: Callable[[str], Scalar]
) -> Polynomial | Scalar:
    """Return ``text``, such as "x^2+1" or "(x-1)*(x - sqrt(2)/2)", as a polynomial.

    ``x`` is the polynomial that "x" stands for; ``scalar`` turns the text of an irrational
    coefficient into a number. Raises InvalidValue for another form of expression.

    >>> from winogen.algebra.polynomial import Polynomial
    >>> print(parse_polynomial("(x-1)^2 + 1/2", Polynomial([0, 1]), Fraction))
    x^2 - 2*x + 3/2
    """

    def function(name: str) -> Callable[..., Scalar]:
        return lambda *arguments: scalar(f"{name}({','.join(map(str, arguments))})")

    names = {name: function(name) for name in _IRRATIONAL if name != "pi"}
    reader = _Reader(text, "polynomials with rational coefficients such as 'x^2+1', 'x-1/2'")

    def power(base: Value, exponent: Value) -> Value:
        if not isinstance(exponent, Fraction) or exponent.denominator != 1:
            raise ValueError("an exponent that is not a whole number")
        if isinstance(base, Fraction):
            return _power(base, exponent)
        if exponent < 0 or getattr(base, "degree", 0) * exponent > _LARGEST_EXPONENT:
            raise ValueError(f"an exponent that is not within 0 ... {_LARGEST_EXPONENT}")
        return base ** int(exponent)

    return reader.read(Fraction, {**names, "x": x}, power)


def split_list(text: str) -> list[str]:
    """Split text at the commas that are outside of parentheses; blank text has no items.

    >>> split_list("0,1,root(2,3),inf")
    ['0', '1', 'root(2,3)', 'inf']
    """
    return re.split(r",(?![^(]*\))", text) if text.strip() else []


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise _NeedsSympy
    return base ** int(_affordable(base, exponent))


def _sympy_power(base: sympy.Expr, exponent: sympy.Expr) -> sympy.Expr:
    return base ** (_affordable(base, exponent) if base.is_Rational else exponent)


def _affordable(base: Value, exponent: Value) -> Value:
    """Return the exponent of a rational base unless the result would have too many digits."""
    size = max(abs(base.numerator), base.denominator).bit_length()
    if abs(exponent) > _LARGEST_EXPONENT or size * abs(exponent) > _MOST_BITS:
        raise ValueError("too large a power")
    return exponent


class _Reader:
    """One text; its expression is read with one kind of number, or again with another."""

    def __init__(self, text: str, allowed: str) -> None:
        self.text = text
        self.allowed = allowed
        if len(text) > _LONGEST_TEXT:
            raise self.refusal(f"longer than {_LONGEST_TEXT} characters")
        source = text.strip().replace("^", "**").replace("\N{MINUS SIGN}", "-")
        try:
            self.tree = ast.parse(source, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise self.refusal("not an expression") from None

    def refusal(self, why: str) -> InvalidValue:
        shown = self.text if len(self.text) <= 60 else self.text[:57] + "..."
        return InvalidValue(f"got {shown!r} ({why}); allowed: {self.allowed}")

    def read(
        self,
        number: Callable[[int], Value],
        names: dict[str, Value],
        power: Callable[[Value, Value], Value],
    ) -> Value:
        """Evaluate; ``number`` makes an integer, ``names`` are the values and functions."""
        try:
            return self._visit(self.tree, number, names, power)
        except ZeroDivisionError:
            raise self.refusal("division by zero") from None
        except (InvalidValue, _NeedsSympy):
            raise
        except (TypeError, ValueError, ArithmeticError, AttributeError, RecursionError) as error:
            raise self.refusal(str(error)) from None

    def _visit(
        self,
        node: ast.expr,
        number: Callable[[int], Value],
        names: dict[str, Value],
        power: Callable[[Value, Value], Value],
    ) -> Value:
        def visit(child: ast.expr) -> Value:
            return self._visit(child, number, names, power)

        if isinstance(node, ast.Constant) and type(node.value) is int:
            return number(node.value)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
            value = visit(node.operand)
            return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](visit(node.left), visit(node.right))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            return power(visit(node.left), visit(node.right))
        if isinstance(node, ast.Name):
            return self._lookup(node.id, names)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return self._lookup(node.func.id, names)(*map(visit, node.args))
        raise self.refusal("not an expression of the allowed form")

    def _lookup(self, name: str, names: dict[str, Value]) -> Value:
        if name in names:
            return names[name]
        if not names and name in _IRRATIONAL:
            raise _NeedsSympy
        raise self.refusal(f"{name!r} is unknown")
