"""How wide the values of a program of integers are.

Every value of a straight-line program is a linear form of its inputs. So its least and largest
value follow from the signs of the form's coefficients, and some input reaches each.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from winogen.errors import InvalidValue

if TYPE_CHECKING:
    from winogen.program.ir import Program

Form = Sequence[int]  # the coefficients of a value, one for each input


class Range(NamedTuple):
    """The least and the largest integer that a value takes.

    >>> Range(-128, 127).bits, Range(0, 255).bits, Range(-129, 0).bits
    (8, 9, 9)
    """

    low: int
    high: int

    @property
    def bits(self) -> int:
        """The bits of the shortest two's complement that holds the range."""
        below = (-1 - self.low).bit_length() if self.low < 0 else 0
        return 1 + max(max(self.high, 0).bit_length(), below)

    def __str__(self) -> str:
        return f"{self.low} .. {self.high}"


def signed(bits: int) -> Range:
    """Return the range of integers of so many bits in two's complement.

    >>> signed(8)
    Range(low=-128, high=127)
    """
    return Range(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def forms(program: Program) -> dict[str, tuple[int, ...]]:
    """Return every value of a program as a linear form of the inputs, by its name.

    Raises InvalidValue where one has a coefficient that is no integer.
    """
    count = len(program.inputs)
    rows: dict[str, tuple[int, ...]] = {
        name: tuple(int(k == j) for k in range(count)) for j, name in enumerate(program.inputs)
    }
    for statement in program.statements:
        row = [Fraction(0)] * count
        for term in statement.terms:
            factor = term.coefficient
            if not isinstance(factor, Fraction) or factor.denominator != 1:
                raise InvalidValue(
                    f"program: got {statement}; allowed: statements of integers, as those of "
                    "`winogen.fixed.integral`"
                )
            row = [sum_ + factor * entry for sum_, entry in zip(row, rows[term.operand])]
        rows[statement.target] = tuple(map(int, row))
    return rows


def ranges(program: Program, inputs: Range) -> dict[str, Range]:
    """Return the exact range of every value of a program of integers, by its name.

    ``inputs``: of each of them, independent of all others. Raises InvalidValue as `forms` does.
    """
    return {name: of_products([form], [(1,)], inputs) for name, form in forms(program).items()}


def of_products(columns: Sequence[Form], rows: Sequence[Form], inputs: Range) -> Range:
    """Return the widest range of the products of a form along columns and one along rows."""
    lows, highs = list[int](), list[int]()
    for column in columns:
        for row in rows:
            up, down = _split(column)
            right, left = _split(row)
            positive, negative = up * right + down * left, up * left + down * right
            lows.append(positive * inputs.low - negative * inputs.high)
            highs.append(positive * inputs.high - negative * inputs.low)
    return Range(min(lows, default=0), max(highs, default=0))


def _split(form: Form) -> tuple[int, int]:
    """The sum of the positive coefficients, and that of the others' magnitudes."""
    return sum(c for c in form if c > 0), -sum(c for c in form if c < 0)


def of_form(form: Form, inputs: Sequence[Range]) -> Range:
    """Return the exact range of a linear form whose inputs have ranges of their own.

    >>> of_form((1, -2), (Range(0, 3), Range(-1, 4)))
    Range(low=-8, high=5)
    """
    ends = [(c * one.low, c * one.high) for c, one in zip(form, inputs)]
    return Range(sum(map(min, ends)), sum(map(max, ends)))
