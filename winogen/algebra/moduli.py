"""Moduli for Winograd's algorithms: reading polynomials in any usual form, and checking them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TypeAlias

from winogen.algebra.parse import parse_in, split_list
from winogen.algebra.points import INFINITY, check_size, is_infinity
from winogen.algebra.polynomial import Polynomial, gcd
from winogen.algebra.scalar import as_scalar
from winogen.algebra.size import LARGEST_DEGREE, check_bits, listed, shown
from winogen.errors import InvalidType, InvalidValue

Modulus: TypeAlias = Polynomial | str  # the only text among them is INFINITY

FOURIER = "fourier"  # all factors of x^n - 1, whatever n is
MOST_FOURIER = 32
_X = Polynomial([0, 1])
_FORM = "polynomials with rational coefficients such as 'x^2+1', 'x-1/2'"


def parse_moduli(moduli: str | Iterable[object]) -> tuple[Modulus, ...]:
    """Return moduli, in any form that ``winograd`` takes, as monic polynomials and ``INFINITY``.

    "fourier" alone stays what it is: which polynomials that means depends on m + r - 1.
    """
    if isinstance(moduli, str):
        moduli = split_list(moduli)
    elif not isinstance(moduli, Iterable):
        raise InvalidType(
            f"moduli: got {moduli!r} of type {type(moduli).__name__}; "
            "allowed: a list of polynomials, or text such as 'x, x-1, x^2+1'"
        )
    items = list(moduli)
    if len(items) == 1 and isinstance(items[0], str) and items[0].strip().lower() == FOURIER:
        return (FOURIER,)
    return tuple(INFINITY if is_infinity(item) else _as_polynomial(item) for item in items)


def check_moduli(m: int, r: int, moduli: str | Iterable[object]) -> tuple[Modulus, ...]:
    """Return ``moduli`` parsed, after checking that they are coprime and of total degree m+r-1."""
    m, r, n = check_size(m, r)
    checked = parse_moduli(moduli)
    if checked == (FOURIER,):
        if n > MOST_FOURIER:
            raise InvalidValue(
                f"moduli: got '{FOURIER}' for F({shown(m)},{shown(r)}) with n = m + r - 1 = "
                f"{shown(n)}; allowed: n <= {MOST_FOURIER}, whose cosines are computed exactly"
            )
        return fourier_moduli(n)
    degree = sum(1 if isinstance(q, str) else q.degree for q in checked)
    if degree != n:
        infinite = INFINITY in checked
        hint = (
            "" if infinite or degree != n - 1 else "; append 'inf' to count the point at infinity"
        )
        raise InvalidValue(
            f"moduli: got {listed(checked)} of total degree {degree}"
            f"{' (inf counts 1)' if infinite else ''}; "
            f"allowed: {shown(n)} = m + r - 1 for F({shown(m)},{shown(r)}){hint}"
        )
    for index, second in enumerate(checked):
        for first in checked[:index]:
            _require_coprime(first, second)
    return checked


def fourier_moduli(n: int) -> tuple[Modulus, ...]:
    """Return the factors of x^n - 1 over the real numbers, exactly: the real Fourier transform.

    >>> print(*fourier_moduli(8), sep=", ")
    x - 1, x + 1, x^2 - (sqrt(2))*x + 1, x^2 + 1, x^2 + (sqrt(2))*x + 1
    """
    moduli: list[Modulus] = [Polynomial([-1, 1])]
    if n % 2 == 0:
        moduli.append(Polynomial([1, 1]))
    for j in range(1, (n + 1) // 2):
        cosine = as_scalar(f"2*cos({2 * j}*pi/{n})")
        moduli.append(Polynomial([1, -cosine, 1]))
    return tuple(moduli)


def _require_coprime(first: Modulus, second: Modulus) -> None:
    if isinstance(first, str) or isinstance(second, str):
        if first == second:
            raise InvalidValue("moduli: got 'inf' twice; allowed: once")
        return
    shared = gcd(first, second)
    if shared.degree > 0:
        raise InvalidValue(
            f"moduli: got {shown(first)} and {shown(second)}, which share the factor "
            f"{shown(shared)}; allowed: pairwise coprime polynomials"
        )


def _as_polynomial(item: object) -> Polynomial:
    sympy = sys.modules.get("sympy")
    if isinstance(item, Polynomial):
        polynomial = item
    elif isinstance(item, str):
        try:
            value = parse_in(item, {"x": _X}, _FORM)
        except InvalidValue as error:
            raise InvalidValue(f"moduli: {error}") from None
        polynomial = value if isinstance(value, Polynomial) else Polynomial([value])
    elif sympy is not None and isinstance(item, sympy.Basic):
        symbols = item.free_symbols
        if len(symbols) != 1:
            raise InvalidValue(f"moduli: got {item}; allowed: polynomials in one unknown")
        try:
            coefficients = sympy.Poly(item.as_expr(), *symbols).all_coeffs()
        except sympy.PolynomialError:
            raise InvalidValue(f"moduli: got {item}; allowed: polynomials") from None
        polynomial = _from_list(coefficients)
    elif isinstance(item, Iterable):
        polynomial = _from_list(item)
    else:
        raise InvalidType(
            f"moduli: got {item!r} of type {type(item).__name__}; allowed: text such as 'x^2+1', "
            "sympy polynomials, lists of coefficients from the highest power down, 'inf'"
        )
    if polynomial.degree < 1:
        raise InvalidValue(
            f"moduli: got '{polynomial}', which is constant; "
            "allowed: polynomials in x of degree >= 1"
        )
    if polynomial.degree > LARGEST_DEGREE:
        raise InvalidValue(
            f"moduli: got a polynomial of degree {polynomial.degree}; "
            f"allowed: at most {LARGEST_DEGREE}"
        )
    return Polynomial([check_bits(c, "moduli") for c in polynomial.monic().coefficients])


def _from_list(coefficients: Iterable[object]) -> Polynomial:
    """Highest power first, as in ``numpy.poly1d`` and ``sympy.Poly.all_coeffs``."""
    return Polynomial([as_scalar(c, "moduli") for c in coefficients][::-1])
