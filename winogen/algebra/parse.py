"""Reads exact numbers and polynomials written as text, by rules instead of ``eval``.

Allowed: integers, decimals standing alone ("0.25"), + - * / ** (or ^), parentheses, and for
irrational numbers sqrt(), cbrt(), root(x, k), cos(), sin(), tan() and pi. sympy is imported only
when one of the latter is met, and nothing is computed before its size is known to be bearable.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from winogen.algebra.polynomial import Polynomial
from winogen.algebra.size import Measure, TooLarge
from winogen.errors import InvalidValue

if TYPE_CHECKING:
    import sympy

    from winogen.algebra.scalar import Scalar

# What a text is made of while it is read: Fractions, Polynomials or Algebraic numbers.
Value: TypeAlias = Any

_DECIMAL = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+)")
_IRRATIONAL = ("sqrt", "cbrt", "root", "cos", "sin", "tan", "pi")
_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_LONGEST_TEXT = 2000
_PI = Polynomial([0, 1])  # in an angle, pi is computed with as if it were the x of a polynomial
_IMAGINARY = ("i", "I", "j", "J")
_OTHER_FORM = "not an expression of the allowed form"
COMPLEX_HINT = "real numbers; the complex pair i, -i is the modulus x^2+1 (see moduli)"


class _NeedsSympy(Exception):
    """The text is not a plain rational expression."""


def parse_number(text: str) -> Scalar:
    """Return ``text`` as a ``Fraction``, or as an ``Algebraic`` where it is irrational.

    Raises InvalidValue for another form of expression, or a division by zero.

    >>> parse_number("-5/2"), parse_number("0.25"), parse_number("sqrt(2)/2")
    (Fraction(-5, 2), Fraction(1, 4), Algebraic(sqrt(2)/2))
    """
    if len(text) <= _LONGEST_TEXT and _DECIMAL.fullmatch(text.strip()):
        return Fraction(text.strip())
    reader = _Parser(text, "'-5/2', '0.25', 'sqrt(2)/2'")
    try:
        return reader.read(Fraction, {}, _power)
    except _NeedsSympy:
        return _irrational(reader)


def _irrational(reader: _Parser) -> Scalar:
    """Return the number, its roots and angles by sympy, all else in the fields that these span.

    sympy would also find the minimal polynomial of the whole, but takes minutes for some powers
    and sums that number fields hold in microseconds.
    """
    import sympy

    from winogen.algebra.algebraic import Algebraic, algebraic

    def plain(value: Value) -> sympy.Expr:
        if isinstance(value, Polynomial):
            raise reader.refusal("pi outside of an angle", "real algebraic numbers")
        if isinstance(value, Algebraic):
            return value.sympy()
        return sympy.Rational(value.numerator, value.denominator)

    def exact(value: sympy.Expr) -> Scalar:
        if value.is_finite is False:
            raise reader.refusal("not finite")
        if value.is_real is False:
            raise reader.refusal("not real", COMPLEX_HINT)
        return algebraic(value)

    def power(base: Value, exponent: Value) -> Value:
        if exponent.denominator == 1:
            return base ** int(exponent)
        return exact(plain(base) ** plain(exponent))

    def root(name: str) -> Callable[..., Scalar]:
        return lambda *arguments: exact(getattr(sympy, name)(*map(plain, arguments)))

    def angle(name: str) -> Callable[[Value], Scalar]:
        return lambda turns: exact(getattr(sympy, name)(plain(_turns(turns)) * sympy.pi))

    names = {name: root(name) for name in ("sqrt", "cbrt", "root")}
    names |= {name: angle(name) for name in ("cos", "sin", "tan")}
    value: Scalar | Polynomial = reader.read(Fraction, {**names, "pi": _PI}, power)
    if isinstance(value, Polynomial) and value.degree > 0:
        raise reader.refusal("pi outside of an angle", "real algebraic numbers")
    return value[0] if isinstance(value, Polynomial) else value


def _turns(angle: Value) -> Fraction | None:
    """Return an angle, a polynomial in pi, as a multiple of pi; None if it is of another kind."""
    angle = angle if isinstance(angle, Polynomial) else Polynomial([angle])
    return angle[1] if angle.degree <= 1 and angle[0] == 0 else None


def parse_in(text: str, values: Mapping[str, Value], allowed: str) -> Value:
    """Return what ``text`` makes of named values: + - * of these, and exact numbers.

    The values' own operators say what they allow, by TypeError. Raises InvalidValue.

    >>> from winogen.algebra.polynomial import Polynomial
    >>> print(parse_in("2*(y + 1/3)", {"y": Polynomial([0, 1])}, "y"))
    2*x + 2/3
    """

    def function(name: str) -> Callable[..., Scalar]:
        return lambda *arguments: parse_number(f"{name}({','.join(map(str, arguments))})")

    names = {name: function(name) for name in _IRRATIONAL if name != "pi" and name not in values}
    return _Parser(text, allowed).read(Fraction, {**names, **values}, _polynomial_power)


def split_list(text: str) -> list[str]:
    """Split text at the commas that are outside of parentheses; blank text has no items.

    >>> split_list("0,1,root(2,(3)),inf")
    ['0', '1', 'root(2,(3))', 'inf']
    """
    if not text.strip():
        return []
    items, start, depth = [], 0, 0
    for mark in re.finditer(r"[(),]", text):
        if mark[0] == "," and depth == 0:
            items.append(text[start : mark.start()])
            start = mark.end()
        depth = max(depth + {"(": 1, ")": -1, ",": 0}[mark[0]], 0)
    return [*items, text[start:]]


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise _NeedsSympy
    return base ** int(exponent)


def _polynomial_power(base: Value, exponent: Value) -> Value:
    if not isinstance(exponent, Fraction) or exponent.denominator != 1:
        raise ValueError("an exponent that is not a whole number")
    if isinstance(base, Polynomial) and exponent < 0:
        raise ValueError("a negative exponent of a polynomial")
    return base ** int(exponent)


class _Parser:
    """One text; its expression is read with one kind of number, or again with another."""

    def __init__(self, text: str, allowed: str) -> None:
        self.text = text
        self.allowed = allowed
        if len(text) > _LONGEST_TEXT:
            raise self.refusal(f"longer than {_LONGEST_TEXT} characters")
        # Python would take the rest of the line for a comment. What is read here is written into
        # comments of C, which a line of its own would leave.
        if "#" in text or not text.isprintable():
            raise self.refusal("with '#' or a character that cannot be printed")
        source = text.strip().replace("^", "**").replace("\N{MINUS SIGN}", "-")
        try:
            self.tree = ast.parse(source, mode="eval").body
            Measure(self._exponent, self._turns).of(self.tree)
        except TooLarge as error:
            raise self.refusal(error.why, error.allowed) from None
        except ZeroDivisionError:
            raise self.refusal("division by zero") from None
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            if isinstance(error, InvalidValue):
                raise
            several = re.search(r"[\w)]\s+[\w(+-]", text)
            hint = ", or several without commas between them" if several else ""
            raise self.refusal(f"not an expression{hint}") from None

    def refusal(self, why: str, allowed: str | None = None) -> InvalidValue:
        shown = self.text if len(self.text) <= 60 else self.text[:57] + "..."
        return InvalidValue(f"got {shown!r} ({why}); allowed: {allowed or self.allowed}")

    def _exponent(self, node: ast.expr) -> Fraction:
        value = self._constant(node, {})
        if not isinstance(value, Fraction):
            raise self.refusal("an exponent that is not a whole number, nor a fraction")
        return value

    def _turns(self, node: ast.expr) -> Fraction:
        angle = self._constant(node, {"pi": _PI})
        turns = None if angle is None else _turns(angle)
        if turns is None:
            allowed = "angles that are rational multiples of pi, as others are not algebraic"
            raise self.refusal("of another angle", allowed)
        return turns

    def _constant(self, node: ast.expr, names: dict[str, Value]) -> Value:
        """Return the value of a rational part of the tree, None for others."""
        constants = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
        if any(type(value) is not int for value in constants):
            raise self.refusal(_OTHER_FORM)
        try:
            return self._visit(node, Fraction, names, _polynomial_power)
        except (_NeedsSympy, InvalidValue, TypeError, AttributeError):
            return None

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
        if isinstance(node, ast.Constant) and type(node.value) is complex:
            raise self.refusal("complex", COMPLEX_HINT)
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
        raise self.refusal(_OTHER_FORM)

    def _lookup(self, name: str, names: dict[str, Value]) -> Value:
        if name in names:
            return names[name]
        if not names and name in _IRRATIONAL:
            raise _NeedsSympy
        if name in _IMAGINARY:
            raise self.refusal(f"{name!r} is unknown", COMPLEX_HINT)
        raise self.refusal(f"{name!r} is unknown")
