"""Exact numbers: what enters as a point or a coefficient, and the matrices made of them.

A scalar is a ``fractions.Fraction``, or an ``Algebraic`` where it is irrational. Rational work
never imports sympy.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from numbers import Complex, Rational, Real
from typing import TYPE_CHECKING, TypeAlias

from winogen.algebra.algebraic import Algebraic
from winogen.algebra.parse import COMPLEX_HINT, parse_number
from winogen.errors import InvalidType, InvalidValue

if TYPE_CHECKING:
    import sympy

Scalar: TypeAlias = Fraction | Algebraic
Matrix: TypeAlias = tuple[tuple[Scalar, ...], ...]

__all__ = ["Algebraic", "Matrix", "Scalar", "as_scalar", "matrix", "to_sympy"]


def as_scalar(value: object, name: str = "number") -> Scalar:
    """Return ``value`` as an exact scalar: a ``Fraction`` whenever it is rational.

    Parameters
    ----------
    value
        An int, a Fraction, text such as "-5/2", "0.25" or "sqrt(2)/2", or a sympy number.
        Floats are refused: 0.1 is not 1/10, and what was meant cannot be known.
    name
        How the argument is called in the error.

    Raises
    ------
    InvalidType
        A float, a bool, or no number at all.
    InvalidValue
        Text of another form, or a number that is not real, finite and algebraic.

    >>> as_scalar("-5/2"), as_scalar(3), float(as_scalar("sqrt(2)/2"))
    (Fraction(-5, 2), Fraction(3, 1), 0.7071067811865476)
    """
    if isinstance(value, (Fraction, Algebraic)):
        return value
    if isinstance(value, str):
        try:
            return _from_text(value)
        except InvalidValue as error:
            raise InvalidValue(f"{name}: {error}") from None
    if isinstance(value, Rational) and not isinstance(value, bool):
        return Fraction(int(value.numerator), int(value.denominator))
    sympy = sys.modules.get("sympy")  # a sympy number cannot come in before sympy is loaded
    if sympy is not None and isinstance(value, sympy.Basic):
        if value.is_Rational:
            return Fraction(int(value.p), int(value.q))
        # Through the text, so that whatever is accepted can be written to JSON and read back.
        try:
            text = str(value)
        except ValueError:  # Python prints no integers of more than 4300 digits
            raise InvalidValue(f"{name}: got a number of too many digits to print") from None
        return as_scalar(text, name)
    if isinstance(value, Real) and not isinstance(value, bool):
        hint = (
            f", here perhaps '{Fraction(float(value)).limit_denominator(1000)}'"
            if value - value == 0
            else ""
        )
        raise InvalidType(
            f"{name}: got the float {value!r}; allowed: exact numbers, as integers, Fractions or "
            f"text such as '1/2'{hint}"
        )
    if isinstance(value, Complex) and not isinstance(value, bool):
        raise InvalidType(f"{name}: got the complex number {value!r}; allowed: {COMPLEX_HINT}")
    raise InvalidType(
        f"{name}: got {value!r} of type {type(value).__name__}; allowed: integers, Fractions, text "
        "such as '1/2' or 'sqrt(2)/2', sympy numbers"
    )


@lru_cache(maxsize=4096)
def _from_text(text: str) -> Scalar:
    return parse_number(text)


def matrix(rows: object, name: str = "matrix") -> Matrix:
    """Return rows of numbers as an exact matrix; ``name`` is the argument's name in errors."""
    if isinstance(rows, str) or not isinstance(rows, Iterable):
        raise InvalidType(f"{name}: got {rows!r}; allowed: rows of numbers")
    result = []
    for row in rows:
        if isinstance(row, str) or not isinstance(row, Iterable):
            raise InvalidType(f"{name}: got the row {row!r}; allowed: rows of numbers")
        result.append(tuple(as_scalar(value, name) for value in row))
    return tuple(result)


def to_sympy(value: Scalar) -> sympy.Expr:
    """Return a scalar as a sympy number."""
    import sympy

    if isinstance(value, Algebraic):
        return value.sympy()
    return sympy.Rational(value.numerator, value.denominator)
