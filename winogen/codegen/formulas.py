"""Formulas of activations as C or Rust: what a formula does with numbers is written down instead.

>>> from winogen.records import ACTIVATIONS
>>> scalar(ACTIVATIONS["leaky_relu"])
'y < 0 ? a * y : y'
>>> scalar(ACTIVATIONS["leaky_relu"], RUST)
'if y < 0.0 { a * y } else { y }'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from winogen.errors import InvalidValue
from winogen.records.activation import FUNCTIONS, OPERATORS, Activation

# How tightly operators bind, from the loosest to what needs no brackets.
_CHOICE, _COMPARISON, _SUM, _PRODUCT, _SIGN, _WHOLE = range(6)


@dataclass(frozen=True)
class Language:
    """How a language spells what a formula is made of."""

    number: Callable[[Any], str]
    choice: str  # of a condition, what is then, and what else
    functions: Mapping[str, str]  # of its name: the call; others are called as in <math.h>

    def call(self, function: str, value: str) -> str:
        """Return the call of a function."""
        return self.functions.get(function, f"{function}({{}})").format(value)


C = Language(repr, "{} ? {} : {}", {})
# Rust has no erfc: a program brings its own.
RUST = Language(
    lambda value: repr(float(value)),
    "if {} {{ {} }} else {{ {} }}",
    {
        "exp": "f64::exp({})",
        "expm1": "f64::exp_m1({})",
        "log1p": "f64::ln_1p({})",
        "tanh": "f64::tanh({})",
    },
)


def scalar(activation: Activation, language: Language = C) -> str:
    """Return an activation of the double y in a language, its parameters being a and b."""
    names = ("y", "a", "b")[: 1 + len(activation.parameters)]
    made = activation.formula(_Library(language), *(_Term(name, language) for name in names))
    return _term(made, language).text


def _refusal(what: str) -> InvalidValue:
    functions = ", ".join(f"f.{name}" for name in FUNCTIONS)
    return InvalidValue(
        f"formula: got {what}; allowed: {' '.join(OPERATORS)}, f.where(condition, yes, no), "
        f"{functions}, and numbers"
    )


class _Term:
    """A piece of a program."""

    def __init__(self, text: str, language: Language, binds: int = _WHOLE):
        self.text, self.language, self.binds = text, language, binds

    def within(self, binds: int) -> str:
        """The text as an operand of what binds so tightly."""
        return self.text if self.binds >= binds else f"({self.text})"

    def __neg__(self) -> _Term:
        return _Term(f"-{self.within(_WHOLE)}", self.language, _SIGN)

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


def _term(value: Any, language: Language) -> _Term:
    if isinstance(value, _Term):
        return value
    return _Term(language.number(value), language, _SIGN if value < 0 else _WHOLE)


def _joined(left: Any, sign: str, right: Any, binds: int) -> _Term:
    """Two operands, of which one is a term; the right one in brackets if it binds no tighter."""
    language = (left if isinstance(left, _Term) else right).language
    first, second = _term(left, language).within(binds), _term(right, language).within(binds + 1)
    return _Term(f"{first} {sign} {second}", language, binds)


class _Library:
    """The functions of a formula, as a language has them."""

    def __init__(self, language: Language):
        self._language = language

    def where(self, condition: Any, yes: Any, no: Any) -> _Term:
        language = self._language
        first, second = (_term(one, language).within(_COMPARISON) for one in (condition, yes))
        text = language.choice.format(first, second, _term(no, language).text)
        return _Term(text, language, _CHOICE)

    def __getattr__(self, name: str) -> Callable[[Any], _Term]:
        if name not in FUNCTIONS:
            raise _refusal(f"f.{name}")
        language = self._language
        return lambda value: _Term(language.call(name, _term(value, language).text), language)
