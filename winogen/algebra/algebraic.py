"""Real algebraic numbers, exactly: elements of a number field Q(theta).

An ``Algebraic`` is a polynomial in theta with rational coefficients, taken modulo the minimal
polynomial of theta, so + - * / are exact and == is decidable. sympy finds minimal polynomials,
common fields and texts; it is imported only where one of them is needed, never for arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, total_ordering
from typing import TYPE_CHECKING, cast

from winogen.algebra.polynomial import Polynomial, inverse
from winogen.algebra.size import shown
from winogen.errors import InvalidValue

if TYPE_CHECKING:
    import sympy

    from winogen.algebra.scalar import Scalar

_X = Polynomial([0, 1])
COMMON_DEGREE = 16  # of a field that two irrational numbers span; beyond, sympy takes too long


class NumberField:
    """Q(theta) for one real theta, with a rational enclosure of theta that tightens on demand."""

    def __init__(self, theta: sympy.Expr, modulus: Polynomial) -> None:
        self.theta = theta  # a sympy expression
        self.modulus = modulus  # its monic minimal polynomial
        # Subfields that this one was made of: their thetas as polynomials in theta.
        self.images: dict[NumberField, Polynomial] = {}
        # sympy's digits only suggest the interval; the sign change below proves that it holds
        # a root, and it is far narrower than the distance between roots.
        centre = _evalf(theta, 40)
        radius = max(abs(centre), Fraction(1)) / 10**35
        self._low, self._high = centre - radius, centre + radius
        if modulus(self._low) * modulus(self._high) >= 0:
            raise InvalidValue(f"got {theta}; allowed: numbers with isolated real roots")

    def enclose(self, width: Fraction) -> tuple[Fraction, Fraction]:
        """Return rationals low < theta < high with high - low <= width."""
        low_sign = self.modulus(self._low) > 0
        while self._high - self._low > width:
            middle = (self._low + self._high) / 2
            if (self.modulus(middle) > 0) == low_sign:
                self._low = middle
            else:
                self._high = middle
        return self._low, self._high


@total_ordering
class Algebraic:
    """An irrational real algebraic number, exact under + - * / and comparison.

    Results that turn out rational come back as ``Fraction``, so the type tells them apart. Made by
    ``as_scalar``, not by hand.

    >>> from winogen.algebra import as_scalar
    >>> root = as_scalar("sqrt(2)")
    >>> root * root, 1 < root < 2, str(root / 2)
    (Fraction(2, 1), True, 'sqrt(2)/2')
    """

    __slots__ = ("_float", "field", "polynomial")

    def __init__(self, field: NumberField, polynomial: Polynomial) -> None:
        self.field = field
        self.polynomial = polynomial
        self._float: float | None = None

    # -- arithmetic ---------------------------------------------------------------------------

    def __add__(self, other: Scalar | int) -> Scalar:
        return _combine(self, other, lambda a, b: a + b)

    def __radd__(self, other: Scalar | int) -> Scalar:
        return _combine(self, other, lambda a, b: b + a)

    def __sub__(self, other: Scalar | int) -> Scalar:
        return _combine(self, other, lambda a, b: a - b)

    def __rsub__(self, other: Scalar | int) -> Scalar:
        return _combine(self, other, lambda a, b: b - a)

    def __mul__(self, other: Scalar | int) -> Scalar:
        return _combine(self, other, lambda a, b: a * b)

    def __rmul__(self, other: Scalar | int) -> Scalar:
        return _combine(self, other, lambda a, b: b * a)

    def __truediv__(self, other: Scalar | int) -> Scalar:
        if isinstance(other, Algebraic):
            return self * other._inverse()
        if isinstance(other, (int, Fraction)):
            return self * (Fraction(1) / other)
        return NotImplemented

    def __rtruediv__(self, other: Fraction | int) -> Scalar:
        return self._inverse() * other

    def __neg__(self) -> Algebraic:
        return Algebraic(self.field, -self.polynomial)

    def __pos__(self) -> Algebraic:
        return self

    def __abs__(self) -> Algebraic:
        return -self if self < 0 else self

    def __pow__(self, exponent: int) -> Scalar:
        if not isinstance(exponent, int):
            return NotImplemented
        base = self if exponent >= 0 else self._inverse()
        result: Scalar = Fraction(1)
        for bit in f"{abs(exponent):b}":
            result = result * result * (base if bit == "1" else 1)
        return result

    def _inverse(self) -> Scalar:
        return _reduced(self.field, inverse(self.polynomial, self.field.modulus))

    # -- comparison ---------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Algebraic):
            if self.field is other.field:
                return self.polynomial == other.polynomial
            # Equal numbers have equal floats, so a common field is sought only for suspects.
            return float(self) == float(other) and self - other == 0
        if isinstance(other, (int, Fraction)):
            return False
        return NotImplemented

    def __lt__(self, other: Scalar | int) -> bool:
        if not isinstance(other, (int, Fraction, Algebraic)):
            return NotImplemented
        return _sign(self - other) < 0

    def __hash__(self) -> int:
        # The float is correctly rounded, hence the same for every way to write the number.
        return hash((Algebraic, float(self)))

    @property
    def _rationals(self) -> tuple[Fraction, ...]:
        return cast("tuple[Fraction, ...]", self.polynomial.coefficients)

    # -- out of the field ---------------------------------------------------------------------

    def enclose(self, width: Fraction) -> tuple[Fraction, Fraction]:
        """Return rationals around the number that are at most ``width`` apart."""
        theta_width = width
        while True:
            low, high = self.field.enclose(theta_width)
            centre, radius = (low + high) / 2, (high - low) / 2
            reach = abs(centre) + radius
            slope = Fraction(0)
            for k, c in enumerate(self._rationals):
                slope += k * abs(c) * reach ** (k - 1)
            if 2 * slope * radius <= width:
                value = cast(Fraction, self.polynomial(centre))
                return value - slope * radius, value + slope * radius
            theta_width = width / (2 * slope)

    def __float__(self) -> float:
        if self._float is None:
            width = Fraction(1, 2**80)
            low, high = self.enclose(width)
            while float(low) != float(high):  # ends: an irrational number is never a tie
                width /= 2**40
                low, high = self.enclose(width)
            self._float = float(low)
        return self._float

    def sympy(self) -> sympy.Expr:
        """Return the number as a sympy expression."""
        import sympy

        terms = (
            sympy.Rational(c.numerator, c.denominator) * self.field.theta**k
            for k, c in enumerate(self._rationals)
        )
        return sympy.expand(sum(terms, sympy.Integer(0)))

    def __str__(self) -> str:
        return str(self.sympy())

    def __repr__(self) -> str:
        return f"Algebraic({self})"

    def __reduce__(self) -> tuple[Callable[[str], Scalar], tuple[str]]:
        return algebraic, (str(self),)


def algebraic(expression: sympy.Expr | str) -> Scalar:
    """Return a sympy expression (or its text) as an exact number.

    Raises InvalidValue where the number is not algebraic, not real or not finite.
    """
    import sympy

    expression = sympy.sympify(expression)
    if expression.is_Rational:
        return Fraction(int(expression.p), int(expression.q))
    return _from_text(str(expression), expression)


def _reduced(field: NumberField, polynomial: Polynomial) -> Scalar:
    return polynomial[0] if polynomial.degree < 1 else Algebraic(field, polynomial)


def _combine(
    a: Algebraic, b: Scalar | int, operation: Callable[[Polynomial, Polynomial], Polynomial]
) -> Scalar:
    if isinstance(b, (int, Fraction)):
        b_polynomial = Polynomial([b])
    elif not isinstance(b, Algebraic):
        return NotImplemented
    else:
        if a.field is not b.field:
            field, a_theta, b_theta = _common_field(a.field, b.field)
            a = Algebraic(field, _compose(a.polynomial, a_theta, field.modulus))
            b = Algebraic(field, _compose(b.polynomial, b_theta, field.modulus))
        b_polynomial = b.polynomial
    return _reduced(a.field, operation(a.polynomial, b_polynomial) % a.field.modulus)


def _sign(value: Scalar) -> int:
    if isinstance(value, Algebraic):
        width = Fraction(1, 2**30)
        low, high = value.enclose(width)
        while low <= 0 <= high:  # ends: zero is rational
            width /= 2**30
            low, high = value.enclose(width)
        value = low
    return (value > 0) - (value < 0)


def _compose(outer: Polynomial, inner: Polynomial, modulus: Polynomial) -> Polynomial:
    result = Polynomial([])
    for c in reversed(outer.coefficients):
        result = (result * inner + c) % modulus
    return result


def _evalf(expression: sympy.Expr, digits: int) -> Fraction:
    """Return a real sympy expression to that many digits."""
    import sympy

    real, imaginary = expression.evalf(digits).as_real_imag()
    if not real.is_number or abs(imaginary) > sympy.Rational(1, 10 ** (digits // 2)):
        raise InvalidValue(f"got {expression}; allowed: real algebraic numbers")
    exact = sympy.Rational(real)
    return Fraction(int(exact.p), int(exact.q))


def _rational_polynomial(poly: sympy.Poly) -> Polynomial:
    """Return a univariate sympy Poly over QQ or ZZ."""
    values = [Fraction(int(c.p), int(c.q)) for c in poly.all_coeffs()]
    return Polynomial(reversed(values))


@lru_cache(maxsize=4096)
def _from_text(text: str, expression: sympy.Expr) -> Scalar:
    import sympy

    try:
        minimal = sympy.minimal_polynomial(expression, sympy.Dummy("x"), polys=True)
    except (sympy.polys.polyerrors.NotAlgebraic, NotImplementedError):
        raise InvalidValue(f"got {text}; allowed: real algebraic numbers") from None
    modulus = _rational_polynomial(minimal).monic()
    if modulus.degree == 1:
        return -modulus[0]
    if modulus.degree == 2:
        # All of Q(sqrt(d)) shares one field: x = -b/2 +- sqrt(b^2 - 4c)/2, with the square
        # taken out of the root by sympy.
        b, c = cast(Fraction, modulus[1]), cast(Fraction, modulus[0])
        discriminant = b * b - 4 * c
        if discriminant < 0:
            raise InvalidValue(f"got {text}; allowed: real algebraic numbers")
        inside = discriminant.numerator * discriminant.denominator
        square, free = _square_part(inside)
        half_root = Fraction(square, 2 * discriminant.denominator)
        if _evalf(expression, 40) < -b / 2:
            half_root = -half_root
        return Algebraic(_field(sympy.sqrt(free)), Polynomial([-b / 2, half_root]))
    if expression.could_extract_minus_sign():  # x and -x share a field
        return -algebraic(-expression)
    return Algebraic(_field(expression, modulus), _X)


def _square_part(number: int) -> tuple[int, int]:
    """Return (s, f) with number = s^2 f and f squarefree."""
    import sympy

    square = free = 1
    for prime, power in sympy.factorint(number).items():
        square *= prime ** (power // 2)
        free *= prime ** (power % 2)
    return square, free


@lru_cache(maxsize=1024)
def _field(theta: sympy.Expr, modulus: Polynomial | None = None) -> NumberField:
    return NumberField(theta, modulus if modulus is not None else _X * _X - Fraction(int(theta**2)))


@lru_cache(maxsize=1024)
def _common_field(
    first: NumberField, second: NumberField
) -> tuple[NumberField, Polynomial, Polynomial]:
    """Return (field, image of the first theta, image of the second theta)."""
    import sympy

    for small, large in ((first, second), (second, first)):
        image = _embed(small, large)
        if image is not None:
            images = {small: image, large: _X}
            return large, images[first], images[second]
    degree = first.modulus.degree * second.modulus.degree
    if degree > COMMON_DEGREE:
        raise InvalidValue(
            f"got {shown(first.theta)} and {shown(second.theta)}, irrational numbers that together "
            f"have degree {degree} over the rationals; allowed: at most {COMMON_DEGREE}"
        )
    x = sympy.Dummy("x")
    minimal, multipliers, images = sympy.primitive_element(
        [first.theta, second.theta], x, ex=True, polys=True
    )
    theta = multipliers[0] * first.theta + multipliers[1] * second.theta
    field = _field(theta, _rational_polynomial(minimal).monic())
    for part, coefficients in zip((first, second), images):
        image = Polynomial(
            reversed([Fraction(int(c.numerator), int(c.denominator)) for c in coefficients])
        )
        field.images[part] = image
        for inner, polynomial in part.images.items():
            field.images.setdefault(inner, _compose(polynomial, image, field.modulus))
    return field, field.images[first], field.images[second]


def _isomorphism(small: sympy.Expr, large: sympy.Expr) -> list[sympy.Rational] | None:
    """Return the coefficients of one root in powers of the other, found by integer relations.

    ``sympy.field_isomorphism`` would go on to factor over the larger field where there are none,
    which takes minutes. A relation that is overlooked only makes the common field larger.
    """
    from sympy import AlgebraicNumber
    from sympy.polys.numberfields.subfield import field_isomorphism_pslq

    return field_isomorphism_pslq(AlgebraicNumber(small), AlgebraicNumber(large))


def _embed(small: NumberField, large: NumberField) -> Polynomial | None:
    """Return small's theta as a polynomial in large's theta, None when it does not lie there."""
    import sympy

    if small in large.images:
        return large.images[small]
    if large.modulus.degree % small.modulus.degree:
        return None
    image = _isomorphism(small.theta, large.theta)
    if image is None:
        return None
    polynomial = Polynomial(
        reversed([Fraction(int(c.p), int(c.q)) for c in map(sympy.Rational, image)])
    )
    value = Algebraic(large, polynomial)
    close = Fraction(1, 2**60)
    low, high = value.enclose(close)
    small_low, small_high = small.enclose(close)
    # A conjugate of theta generates the same field but is another number.
    return polynomial if low <= small_high and small_low <= high else None
