"""Linear forms of integers, each as a single integer, and their signed digits.

Coefficient j stands in field j, so that sums and shifts of forms are those of integers. Up to
shifts and signs a form has one representative: one coefficient is odd, the last one positive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from winogen.program.widths import Range, of_products

_KEPT = 200_000  # weights, which searches ask for again and again
MARGIN = 3  # bits that coefficients of values in between may have above those of the matrix


@lru_cache(maxsize=4096)
def signed_digits(number: int) -> tuple[tuple[int, int], ...]:
    """Return the canonical signed digits of a number as (shift, sign): no two are neighbours.

    >>> signed_digits(7), signed_digits(-5)
    (((0, -1), (3, 1)), ((0, -1), (2, -1)))
    """
    digits, shift = [], 0
    while number:
        if number & 1:
            sign = 2 - (number & 3)
            digits.append((shift, sign))
            number -= sign
        number >>= 1
        shift += 1
    return tuple(digits)


class LinearForms:
    """Forms of so many inputs with coefficients up to ``largest``.

    >>> forms = LinearForms(2, 8, Range(-128, 127))
    >>> form = forms.encode((4, -6))
    >>> value, shift, sign = forms.canonical(form)
    >>> forms.decode(value), shift, sign
    ((-2, 3), 1, -1)
    """

    def __init__(self, width: int, largest: int, inputs: Range) -> None:
        self.width = width
        self.inputs = inputs
        self.limit = max(largest, 1) << (MARGIN - 1)  # of coefficients that are worth a look
        self._field = self.limit.bit_length() + 3
        self._bias = sum(1 << (self._field * (j + 1) - 1) for j in range(width))
        self._ones = sum(1 << (self._field * j) for j in range(width))
        self.units = tuple(1 << (self._field * j) for j in range(width))
        self._bits: dict[int, int] = {}
        self._weights: dict[int, int] = {}
        self._largest: dict[int, int] = {}

    def encode(self, row: Sequence[int]) -> int:
        """Return the form with these coefficients."""
        return sum(c << (self._field * j) for j, c in enumerate(row))

    def decode(self, form: int) -> tuple[int, ...]:
        """Return the coefficients of a form."""
        rest, half = form + self._bias, 1 << (self._field - 1)
        row = []
        for _ in range(self.width):
            row.append((rest & (2 * half - 1)) - half)
            rest >>= self._field
        return tuple(row)

    def canonical(self, form: int) -> tuple[int, int, int]:
        """Return (value, shift, sign): the form is sign * value << shift, the value odd."""
        shift, sign = 0, 1
        if form < 0:
            form, sign = -form, -1
        while not (form + self._bias) & self._ones:
            form >>= 1
            shift += 1
        return form, shift, sign

    def value(self, form: int) -> int:
        """Return the first of what ``canonical`` does, for forms that are not zero."""
        form = abs(form)
        while not (form + self._bias) & self._ones:
            form >>= 1
        return form

    def is_even(self, form: int) -> bool:
        """Return whether all coefficients are even."""
        return not (form + self._bias) & self._ones

    def bits(self, value: int) -> int:
        """Return how wide a value is, with the better of both signs."""
        if value not in self._bits:
            row = self.decode(value)
            self._bits[value] = min(
                of_products([(sign,)], [row], self.inputs).bits for sign in (1, -1)
            )
        return self._bits[value]

    def shifts(self, value: int) -> int:
        """Return by how much a value may be shifted and stay within the limit."""
        if value not in self._largest:
            self._largest[value] = max(map(abs, self.decode(value)))
        return max((self.limit // self._largest[value]).bit_length() - 1, 0)

    def multiples(self, value: int) -> Iterator[tuple[int, int, int]]:
        """Yield (form, shift, sign) of all shifted values, with both signs."""
        for shift in range(self.shifts(value) + 1):
            yield value << shift, shift, 1
            yield -(value << shift), shift, -1

    def weight(self, form: int) -> int:
        """Return the signed digits of all coefficients."""
        found = self._weights.get(form)
        if found is None:
            if len(self._weights) > _KEPT:
                self._weights.clear()
            # A number and three times it differ in as many bits as it has digits.
            found = sum((c ^ 3 * c).bit_count() for c in map(abs, self.decode(form)))
            self._weights[form] = found
        return found

    def digits(self, form: int) -> list[tuple[int, int, int]]:
        """Return a form as (unit, shift, sign) of each of its signed digits."""
        return [
            (unit, shift, sign)
            for unit, c in zip(self.units, self.decode(form))
            for shift, sign in signed_digits(c)
        ]
