"""How wide the values of a transform of integers are: by interval arithmetic, and along two axes.

Interval arithmetic adds bounds statement by statement and forgets that a value meets itself again,
as d1 in (d0 + d1) - d1. The exact ranges of one axis are those of `winogen.program.widths`.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from winogen.program.widths import Range, forms, of_products, ranges, signed

if TYPE_CHECKING:
    from winogen.program.ir import Program

__all__ = [
    "Range",
    "forms",
    "intervals",
    "intervals_2d",
    "of_products",
    "ranges",
    "ranges_2d",
    "signed",
]


def intervals(program: Program, inputs: Range) -> dict[str, Range]:
    """Return what interval arithmetic says of the same values: never less, and often more."""
    found = dict.fromkeys(program.inputs, inputs)
    forms(program)
    for statement in program.statements:
        low = high = 0
        for term in statement.terms:
            factor, operand = term.coefficient, found[term.operand]
            assert isinstance(factor, Fraction)  # forms says so
            ends = int(factor) * operand.low, int(factor) * operand.high
            low, high = low + min(ends), high + max(ends)
        found[statement.target] = Range(low, high)
    return found


def ranges_2d(program: Program, inputs: Range) -> Mapping[str, Range]:
    """Return the exact range of every value of the second pass of a transform in 2D.

    The first pass transforms columns by the program, the second the rows of what it made. A value
    of the second pass is the product of two linear forms, one along each axis; its range is the
    widest over all rows.
    """
    made = forms(program)
    columns = [made[name] for name in program.outputs if name in made]
    return {name: of_products(columns, [form], inputs) for name, form in made.items()}


def intervals_2d(program: Program, inputs: Range) -> Range:
    """Return the widest result of a transform in 2D by interval arithmetic: both its passes."""
    for _ in range(2):
        found = intervals(program, inputs)
        made = [found[name] for name in program.outputs if name in found]
        inputs = Range(min(one.low for one in made), max(one.high for one in made))
    return inputs
