"""Transforms in lanes of 8 or 16 bits: rounding shifts, as few as widths ask for, and their error.

A value that would overflow its lane is scaled down by a power of two and rounded to nearest, halves
down, as a lane holds one number more below zero than above. Every value is stored * 2^exponent: its
exact linear form of the inputs, and an error that is a linear form of the roundings before it. So
each shift is the smallest whose range fits, the error in it, and the bound of the error forgets no
rounding that cancels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING, NamedTuple

from winogen.errors import InvalidValue
from winogen.fixed.ranges import Range, forms, of_products, signed

if TYPE_CHECKING:
    from winogen.program.ir import Program

_HALF = Fraction(1, 2)
_WORK = 32  # bits that a sum is computed in before it is rounded


class Row(NamedTuple):
    """What a pass works on: its inputs are a linear form of a tile, stored with some error."""

    form: tuple[int, ...]
    exponent: int
    error: Fraction  # at most, in steps of what is stored
    stored: Range


@dataclass(frozen=True)
class Rounded:
    """A statement: the sum of factors times operands, divided by 2^shift and rounded."""

    target: str
    terms: tuple[tuple[int, str], ...]
    shift: int
    exponent: int  # beside that of the inputs
    errors: tuple[Fraction, ...]  # of each row at most, in steps of what is stored
    stored: tuple[Range, ...]  # of each row


@dataclass(frozen=True)
class Lanes:
    """One pass: its statements, and its outputs: statements, or inputs as they are."""

    statements: tuple[Rounded, ...]
    outputs: tuple[Rounded, ...]


def one_pass(program: Program, rows: Sequence[Row], inputs: Range, bits: int) -> Lanes:
    """Return a pass over rows whose values all fit lanes of so many bits.

    Raises InvalidValue where a sum does not fit 32 bits before it is rounded.
    """
    lane, exact = signed(bits), forms(program)
    exponents = dict.fromkeys(program.inputs, 0)
    roundings: dict[str, dict[str, Fraction]] = {name: {} for name in program.inputs}
    made = {
        name: Rounded(name, (), 0, 0, tuple(r.error for r in rows), tuple(r.stored for r in rows))
        for name in program.inputs
    }
    for statement in program.statements:
        least = min(exponents[term.operand] for term in statement.terms)
        terms, summed = [], dict[str, Fraction]()
        for term in statement.terms:
            assert isinstance(term.coefficient, Fraction)  # forms says so
            factor = int(term.coefficient) << (exponents[term.operand] - least)
            terms.append((factor, term.operand))
            for event, share in roundings[term.operand].items():
                summed[event] = summed.get(event, Fraction(0)) + factor * share
        form, shift = exact[statement.target], 0
        while True:
            found = {event: share / (1 << shift) for event, share in summed.items()}
            if shift:
                found[statement.target] = Fraction(1)
            rounded = _HALF * sum(map(abs, found.values()), Fraction(0))
            weight = sum(map(abs, form)) / Fraction(1 << (least + shift))
            errors = tuple(weight * row.error + rounded for row in rows)
            stored = []
            for k, row in enumerate(rows):
                range_ = of_products([row.form], [form], inputs)
                near = _near(range_, row.exponent + least + shift, errors[k], shift > 0)
                sums = _sums([(factor, made[name].stored[k]) for factor, name in terms], shift)
                stored.append(Range(max(near.low, sums.low), min(near.high, sums.high)))
            if all(lane.low <= one.low and one.high <= lane.high for one in stored):
                break
            shift += 1
        if sum(abs(factor) for factor, _ in terms) << (bits - 1) >= 1 << (_WORK - 2):
            raise InvalidValue(
                f"lanes: got {statement} in lanes of {bits} bits; allowed: sums of less than "
                f"{_WORK - 1} bits, by points that are small integers"
            )
        exponents[statement.target], roundings[statement.target] = least + shift, found
        made[statement.target] = Rounded(
            statement.target, tuple(terms), shift, least + shift, errors, tuple(stored)
        )
    of_statements = tuple(made[one.target] for one in program.statements)
    return Lanes(of_statements, tuple(made[name] for name in program.outputs))


def _near(exact: Range, exponent: int, error: Fraction, rounded: bool) -> Range:
    """What is stored of exact values: no further from them than their error."""
    step = 1 << exponent
    high, low = Fraction(exact.high, step) + error, Fraction(exact.low, step) - error
    # Halves are rounded down: what has been rounded is less than the upper end of its error.
    return Range(ceil(low), ceil(high) - 1 if rounded else floor(high))


def _sums(terms: Sequence[tuple[int, Range]], shift: int) -> Range:
    """What is stored of sums of what is stored: a bound that knows where rounding cut off."""
    half = max((1 << shift >> 1) - 1, 0)
    ends = [(factor * one.low, factor * one.high) for factor, one in terms]
    low, high = sum(map(min, ends)), sum(map(max, ends))
    return Range((low + half) >> shift, (high + half) >> shift)


@dataclass(frozen=True)
class Passes:
    """A transform in two dimensions: columns, then rows, and what becomes of a tile.

    Output (i, j) is stored * 2^exponents[i][j], off by at most errors[i][j] of these steps.
    """

    columns: Lanes
    rows: Lanes
    exponents: tuple[tuple[int, ...], ...]
    errors: tuple[tuple[Fraction, ...], ...]


def passes(program: Program, inputs: Range, bits: int) -> Passes:
    """Return both passes of a transform in lanes; raises InvalidValue as `one_pass` does."""
    exact = forms(program)
    columns = one_pass(program, [Row((1,), 0, Fraction(0), inputs)], inputs, bits)
    between = [
        Row(exact[name], one.exponent, one.errors[0], one.stored[0])
        for name, one in zip(program.outputs, columns.outputs)
    ]
    rows = one_pass(program, between, inputs, bits)
    return Passes(
        columns,
        rows,
        tuple(tuple(row.exponent + one.exponent for one in rows.outputs) for row in between),
        tuple(tuple(one.errors[i] for one in rows.outputs) for i in range(len(between))),
    )
