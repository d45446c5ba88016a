"""Formulas of activations as C: what a formula does with numbers is written down instead.

>>> from winogen.records import ACTIVATIONS
>>> scalar(ACTIVATIONS["leaky_relu"])
'y < 0 ? a * y : y'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from winogen.errors import InvalidValue
from winogen.records.activation import FUNCTIONS, OPERATORS, Activation

# How tightly operators bind, from the loosest to what needs no brackets.
_CHOICE, _COMPARISON, _SUM, _PRODUCT, _SIGN, _WHOLE = range(6)


def scalar(activation: Activation) -> str:
    """Return the C of an activation of the double y, its parameters being a and b."""
    names = ("y", "a", "b")[: 1 + len(activation.parameters)]
    return _term(activation.formula(_Library(), *(_Term(name) for name in names))).text


def _refusal(what: str) -> InvalidValue:
    functions = ", ".join(f"f.{name}" for name in FUNCTIONS)
    return InvalidValue(
        f"formula: got {what}; allowed: {' '.join(OPERATORS)}, f.where(condition, yes, no), "
        f"{functions}, and numbers"
    )


class _Term:
    """A piece of C."""

    def __init__(self, text: str, binds: int = _WHOLE):
        self.text, self.binds = text, binds

    def within(self, binds: int) -> str:
        """The text as an operand of what binds so tightly."""
        return self.text if self.binds >= binds else f"({self.text})"

    def __neg__(self) -> _Term:
        return _Term(f"-{self.within(_WHOLE)}", _SIGN)

    def __add__(self, other: Any) -> _Term:
        return _joined(self, "+", other, _SUM)

    def __radd__(self, other: Any) -> _Term:
        return _joined(other, "+", self, _SUM)

    def __sub__(self, other: Any) -> _Term:
        return _joined(self, "-", other, _SUM)

    def __rsub__(self, other: Any) -> _Term:
        return _joined(other, "-", self, _SUM)

    def __mul__(self, other: Any) -> _Term:
        return _joined(self, "*", other, _PRODUCT)

    def __rmul__(self, other: Any) -> _Term:
        return _joined(other, "*", self, _PRODUCT)

    def __truediv__(self, other: Any) -> _Term:
        return _joined(self, "/", other, _PRODUCT)

    def __rtruediv__(self, other: Any) -> _Term:
        return _joined(other, "/", self, _PRODUCT)

    def __lt__(self, other: Any) -> _Term:
        return _joined(self, "<", other, _COMPARISON)

    def __gt__(self, other: Any) -> _Term:
        return _joined(self, ">", other, _COMPARISON)

    def __abs__(self) -> NoReturn:
        raise _refusal("abs")

    def __pow__(self, _: Any) -> NoReturn:
        raise _refusal("**")

    def __le__(self, _: Any) -> NoReturn:
        raise _refusal("<=")

    def __ge__(self, _: Any) -> NoReturn:
        raise _refusal(">=")

    def __bool__(self) -> bool:
        raise _refusal("a condition outside of f.where, as of if, min and max")

    def __float__(self) -> float:
        raise _refusal("a function of Python's math")


def _term(value: Any) -> _Term:
    return value if isinstance(value, _Term) else _Term(repr(value), _SIGN if value < 0 else _WHOLE)


def _joined(left: Any, sign: str, right: Any, binds: int) -> _Term:
    """Two operands; the right one in brackets if it binds no tighter."""
    return _Term(f"{_term(left).within(binds)} {sign} {_term(right).within(binds + 1)}", binds)


class _Library:
    """The functions of a formula, as C and <math.h> have them."""

    def where(self, condition: Any, yes: Any, no: Any) -> _Term:
        first, second = _term(condition).within(_COMPARISON), _term(yes).within(_COMPARISON)
        return _Term(f"{first} ? {second} : {_term(no).text}", _CHOICE)

    def __getattr__(self, name: str) -> Callable[[Any], _Term]:
        if name not in FUNCTIONS:
            raise _refusal(f"f.{name}")
        return lambda value: _Term(f"{name}({_term(value).text})")
