"""A transform as adders and shifts: what stands between a program and the text of a module.

A value is a linear form of the inputs, so its range is exact, and some inputs reach both ends
(`winogen.program.widths`). A constant that is no power of two is the sum of its canonical signed
digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from winogen.codegen.ctext import names_of
from winogen.errors import InvalidValue
from winogen.program.ir import ZERO
from winogen.program.widths import Range, of_form

if TYPE_CHECKING:
    from winogen.program.ir import Program, Term

Cases = Sequence[Sequence[Range]]  # the ranges of all inputs, once for each use of a module


class Shifted(NamedTuple):
    """A term of a sum: ``operand << shift``, subtracted where it is ``negative``."""

    operand: str
    shift: int = 0
    negative: bool = False

    @property
    def factor(self) -> int:
        """By what the operand is multiplied."""
        return -(1 << self.shift) if self.negative else 1 << self.shift


@dataclass(frozen=True)
class Sum:
    """``target`` is the sum of none, one or two terms, without its last ``dropped`` bits.

    These are rounded: the result is floor(sum / 2^dropped + 1/2).
    """

    target: str
    terms: tuple[Shifted, ...]
    dropped: int = 0

    @property
    def adders(self) -> int:
        """Adders and subtractors that it takes; a lone negation is one."""
        negative = sum(term.negative for term in self.terms)
        two = len(self.terms) == 2
        return two + (negative == len(self.terms) > 0) + (self.dropped > 0)


@dataclass(frozen=True)
class Circuit:
    """Sums in the order of their computation; every output is an input or the target of a sum."""

    inputs: tuple[str, ...]
    sums: tuple[Sum, ...]
    outputs: tuple[str, ...]

    @cached_property
    def forms(self) -> dict[str, tuple[int, ...]]:
        """Every value as a linear form of the inputs, before it is rounded."""
        count = len(self.inputs)
        rows = {
            name: tuple(int(k == j) for k in range(count)) for j, name in enumerate(self.inputs)
        }
        for one in self.sums:
            row = [0] * count
            for term in one.terms:
                row = [sum_ + term.factor * c for sum_, c in zip(row, rows[term.operand])]
            rows[one.target] = tuple(row)
        return rows

    @cached_property
    def levels(self) -> dict[str, int]:
        """How many adders are on the longest way to every value."""
        found = dict.fromkeys(self.inputs, 0)
        for one in self.sums:
            deepest = max((found[term.operand] for term in one.terms), default=0)
            found[one.target] = deepest + (one.adders > 0)
        return found

    @property
    def depth(self) -> int:
        """Adders on the longest way from an input to an output."""
        return max((self.levels[name] for name in self.outputs), default=0)

    @property
    def adders(self) -> int:
        """Adders and subtractors, all together."""
        return sum(one.adders for one in self.sums)

    def ranges(self, cases: Cases) -> dict[str, Range]:
        """Return the exact range of every value, over all cases of what the inputs are."""
        dropped = {one.target: one.dropped for one in self.sums}
        return {
            name: rounded(joined([of_form(form, inputs) for inputs in cases]), dropped.get(name, 0))
            for name, form in self.forms.items()
        }


def joined(ranges: Sequence[Range]) -> Range:
    """Return the shortest range that holds all of these."""
    return Range(min(one.low for one in ranges), max(one.high for one in ranges))


def rounded(range_: Range, dropped: int) -> Range:
    """Return the range of values without their last bits, rounded."""
    return Range(*(half_up(end, dropped) for end in range_))


def half_up(value: int, dropped: int) -> int:
    """Return a value without its last bits, rounded to the nearest, and up from the middle.

    >>> half_up(11, 2), half_up(10, 2), half_up(-10, 2)
    (3, 3, -2)
    """
    return (value + ((1 << dropped) >> 1)) >> dropped


def signed_digits(number: int) -> list[tuple[int, bool]]:
    """Return the canonical signed digits of a number: (power of two, is negative), least first.

    >>> signed_digits(7), signed_digits(-5)
    ([(0, True), (3, False)], [(0, True), (2, True)])
    """
    digits, power = [], 0
    while number:
        if number & 1:
            negative = number & 3 == 3
            digits.append((power, negative))
            number += 1 if negative else -1
        number >>= 1
        power += 1
    return digits


def circuit(program: Program, target: str, dropped: int = 0) -> Circuit:
    """Return the adders and shifts of a program of integers.

    ``target``: the letter of its outputs. ``dropped``: how many bits of each of them are rounded.
    Raises InvalidValue for constants that are no integers.
    """
    names = names_of(program, target)
    sums: list[Sum] = []
    multiples: dict[tuple[str, int], str] = {}

    def multiple(operand: str, odd: int) -> str:
        """The name of an odd number times a value."""
        if odd == 1:
            return operand
        if (operand, odd) not in multiples:
            name = f"{operand}x{odd}"
            digits = [Shifted(operand, *digit) for digit in signed_digits(odd)]
            # The highest digit is positive, so no sum begins with a minus.
            last = digits.pop()
            for place, digit in enumerate(digits):
                part = name if place == len(digits) - 1 else f"{name}_{place}"
                sums.append(Sum(part, (last, digit)))
                last = Shifted(part)
            multiples[operand, odd] = name
        return multiples[operand, odd]

    def shifted(term: Term) -> Shifted:
        value = term.coefficient
        if not isinstance(value, Fraction) or value.denominator != 1:
            raise InvalidValue(f"program: got the constant {value}; allowed: integers")
        size = abs(int(value))
        shift = (size & -size).bit_length() - 1
        return Shifted(multiple(names[term.operand], size >> shift), shift, value < 0)

    raw = [names.get(name, name) for name in program.outputs]
    for statement in program.statements:
        terms = tuple(map(shifted, statement.terms))
        sums.append(Sum(names[statement.target], terms))
    outputs = tuple(f"{target}{i}" for i in range(len(raw)))
    if dropped:  # of values that others may read as they are
        kept = {name: f"{name}_exact" for name in outputs}
        sums = [
            Sum(
                kept.get(one.target, one.target),
                tuple(term._replace(operand=kept.get(term.operand, term.operand))
                      for term in one.terms),
            )
            for one in sums
        ]  # fmt: skip
        raw = [kept.get(name, name) for name in raw]
    shifts = {one.target: one.terms[0] for one in sums if len(one.terms) == 1}
    read = {term.operand for one in sums for term in one.terms}
    for name, value in zip(outputs, raw):
        term = shifts.get(value)
        if dropped and term and term.shift >= dropped and not term.negative:  # nothing to round
            sums.append(Sum(name, (term._replace(shift=term.shift - dropped),)))
            if value not in read:
                sums = [one for one in sums if one.target != value]
        elif name != value:
            terms = () if value == ZERO else (Shifted(value),)
            sums.append(Sum(name, terms, dropped if terms else 0))
    return Circuit(program.inputs, tuple(sums), outputs)
