"""What a program costs where constants are shifts: adders, their bits, and levels of adders.

In an FPGA or ASIC a shift is wiring, and on a processor without a fast multiplier it is next to
nothing. So a program is made of adders if every constant is a power of two, or the negative of one.

- Each statement of two terms is an adder; x - y is one, too.
- A statement of one term is wiring. If it negates, it is an adder (0 - x), and so counts as one.
- A sum of two negated terms, -x - y, would be two adders: an adder and a negation.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from winogen.program.ir import ZERO, Program, Statement
from winogen.program.widths import Range, ranges

if TYPE_CHECKING:
    from winogen.algebra.scalar import Scalar


def adders_of(statement: Statement) -> int:
    """Return the adders of one statement, its constants being shifts.

    >>> from winogen.program.ir import Term
    >>> [adders_of(Statement("t", terms)) for terms in (
    ...     (Term(1, "x"), Term(-4, "y")), (Term(-1, "x"), Term(-1, "y")), (Term(8, "x"),))]
    [1, 2, 0]
    """
    negated = all(term.coefficient < 0 for term in statement.terms)
    return len(statement.terms) - 1 + negated


def adders(program: Program) -> int:
    """Return how many adders a program takes."""
    return sum(map(adders_of, program.statements))


def adder_bits(program: Program, inputs: Range) -> int:
    """Return the sum over all adders of the bits of their results, for inputs of this range.

    Raises InvalidValue where a constant is no integer.
    """
    widths = ranges(program, inputs)
    return sum(adders_of(one) * widths[one.target].bits for one in program.statements)


def adder_depth(program: Program) -> int:
    """Return the adders on the longest path from an input to an output."""
    level = dict.fromkeys((*program.inputs, ZERO), 0)
    for one in program.statements:
        level[one.target] = adders_of(one) + max(level[name] for name in one.operands)
    return max((level[name] for name in program.outputs), default=0)


def of_shifts(program: Program) -> bool:
    """Whether every constant of a program is a power of two, or the negative of one."""
    return all(_is_shift(t.coefficient) for one in program.statements for t in one.terms)


def _is_shift(constant: Scalar) -> bool:
    if not isinstance(constant, Fraction):
        return False
    return abs(constant.numerator).bit_count() == 1 == constant.denominator.bit_count()
