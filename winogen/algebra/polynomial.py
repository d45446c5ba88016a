"""Polynomials in x with exact coefficients: the little of them that the Chinese remainder needs.

Coefficients are any exact field elements (``Fraction`` or ``Algebraic``), lowest power first.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, NoReturn, TypeAlias

if TYPE_CHECKING:
    from winogen.algebra.scalar import Scalar

    Operand: TypeAlias = "Polynomial | Scalar | int"


class Polynomial:
    """An immutable polynomial; ``Polynomial([1, 0, 2])`` is 1 + 2 x^2.

    >>> x = Polynomial([0, 1])
    >>> p = (x - 1) * (x + 1)
    >>> print(p, p.degree, p % x)
    x^2 - 1 2 -1
    """

    __slots__ = ("coefficients",)
    coefficients: tuple[Scalar, ...]

    def __init__(self, coefficients: Iterable[Scalar | int]) -> None:
        values: list[Scalar] = [Fraction(c) if isinstance(c, int) else c for c in coefficients]
        while values and values[-1] == 0:
            values.pop()
        object.__setattr__(self, "coefficients", tuple(values))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a Polynomial cannot be changed")

    def __reduce__(self) -> tuple[type[Polynomial], tuple[tuple[Scalar, ...]]]:
        return Polynomial, (self.coefficients,)

    @property
    def degree(self) -> int:
        """The highest power with a non-zero coefficient; -1 for the zero polynomial."""
        return len(self.coefficients) - 1

    @property
    def leading(self) -> Scalar:
        """The coefficient of the highest power (0 for the zero polynomial)."""
        return self.coefficients[-1] if self.coefficients else Fraction(0)

    def __getitem__(self, power: int) -> Scalar:
        """The coefficient of ``x**power``, 0 beyond the degree."""
        return self.coefficients[power] if power <= self.degree else Fraction(0)

    def __call__(self, x: Scalar) -> Scalar:
        value: Scalar = Fraction(0)
        for c in reversed(self.coefficients):
            value = value * x + c
        return value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Polynomial):
            return NotImplemented
        return self.coefficients == other.coefficients

    def __hash__(self) -> int:
        return hash(self.coefficients)

    def __neg__(self) -> Polynomial:
        return Polynomial([-c for c in self.coefficients])

    def __add__(self, other: Operand) -> Polynomial:
        other = _lift(other)
        size = max(self.degree, other.degree) + 1
        return Polynomial([self[k] + other[k] for k in range(size)])

    __radd__ = __add__

    def __sub__(self, other: Operand) -> Polynomial:
        return self + -_lift(other)

    def __rsub__(self, other: Operand) -> Polynomial:
        return _lift(other) - self

    def __mul__(self, other: Operand) -> Polynomial:
        other = _lift(other)
        result: list[Scalar] = [Fraction(0)] * max(self.degree + other.degree + 1, 0)
        for i, a in enumerate(self.coefficients):
            if a != 0:
                for j, b in enumerate(other.coefficients):
                    result[i + j] = result[i + j] + a * b
        return Polynomial(result)

    __rmul__ = __mul__

    def __truediv__(self, scalar: Operand) -> Polynomial:
        """Divide by a number, or by a polynomial of degree 0."""
        divisor = _lift(scalar)
        if divisor.degree > 0:
            raise ValueError(f"a polynomial can only be divided by a number, not by {divisor}")
        if divisor.degree < 0:
            raise ZeroDivisionError("polynomial divided by zero")
        return Polynomial([c / divisor.leading for c in self.coefficients])

    def __pow__(self, exponent: int) -> Polynomial:
        result = Polynomial([1])
        for _ in range(exponent):
            result = result * self
        return result

    def __divmod__(self, other: Operand) -> tuple[Polynomial, Polynomial]:
        other = _lift(other)
        if other.degree < 0:
            raise ZeroDivisionError("polynomial divided by zero")
        remainder = list(self.coefficients)
        quotient: list[Scalar] = [Fraction(0)] * max(len(remainder) - other.degree, 0)
        for shift in reversed(range(len(quotient))):
            factor = remainder[shift + other.degree] / other.leading
            quotient[shift] = factor
            if factor != 0:
                for k, c in enumerate(other.coefficients):
                    remainder[shift + k] = remainder[shift + k] - factor * c
        return Polynomial(quotient), Polynomial(remainder[: max(other.degree, 0)])

    def __floordiv__(self, other: Operand) -> Polynomial:
        return divmod(self, other)[0]

    def __mod__(self, other: Operand) -> Polynomial:
        return divmod(self, other)[1]

    def monic(self) -> Polynomial:
        """The same polynomial over its leading coefficient."""
        return self / self.leading

    def __str__(self) -> str:
        text = ""
        for power in reversed(range(self.degree + 1)):
            c = self[power]
            if c == 0:
                continue
            negative = c < 0
            magnitude = -c if negative else c
            monomial = "" if power == 0 else "x" if power == 1 else f"x^{power}"
            if not monomial:
                term = str(magnitude)
            elif magnitude == 1:
                term = monomial
            elif isinstance(magnitude, Fraction):
                term = f"{magnitude}*{monomial}"
            else:
                term = f"({magnitude})*{monomial}"
            if not text:
                text = f"-{term}" if negative else term
            else:
                text += f" - {term}" if negative else f" + {term}"
        return text or "0"

    def __repr__(self) -> str:
        return f"Polynomial({self})"


def _lift(value: Operand) -> Polynomial:
    return value if isinstance(value, Polynomial) else Polynomial([value])


def gcd(a: Polynomial, b: Polynomial) -> Polynomial:
    """Return the monic greatest common divisor (Euclid); 1 says coprime."""
    while b.degree >= 0:
        a, b = b, a % b
    return a.monic() if a.degree >= 0 else a


def inverse(a: Polynomial, modulus: Polynomial) -> Polynomial:
    """Return ``u`` with ``u a = 1 mod modulus`` (extended Euclid).

    Raises ZeroDivisionError where ``a`` and ``modulus`` share a factor.
    """
    old, new = modulus, a % modulus
    old_u, new_u = Polynomial([]), Polynomial([1])
    while new.degree > 0:
        quotient, remainder = divmod(old, new)
        old, new = new, remainder
        old_u, new_u = new_u, old_u - quotient * new_u
    if new.degree < 0:
        raise ZeroDivisionError(f"{a} has no inverse modulo {modulus}")
    return (new_u / new.leading) % modulus
