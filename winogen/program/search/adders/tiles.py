"""Programs of adders for both axes of a tile at once: for the Kronecker product of a matrix.

A program along one axis runs on every column, then on every row of the results. That is where the
search begins, and in the transposed order, rows first. Both leave out what a tile has beside:

- Sums and differences along both axes, (1, 1; 1, -1) twice, take seven adders in place of eight:
  of t = (a + d) + (c - b) first t - 2d and t - 2c are made, then 2(a + d) and 2(b - c) beside them.
- Rows need not all have been made of the same columns; a value may come from either order.

An exchange of values finds these.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from winogen.program.adders import adder_bits, adder_depth, adders
from winogen.program.ir import ZERO, Program, Statement, Term
from winogen.program.search.adders.closure import Closure
from winogen.program.search.adders.emit import emit
from winogen.program.search.adders.exchange import exchange
from winogen.program.search.adders.forms import LinearForms
from winogen.program.search.adders.search import (
    ADDER,
    adder_program,
    check_bits,
    integers,
    signed_as,
)
from winogen.program.search.lower import Names
from winogen.program.search.passes import rename
from winogen.program.search.schedule import schedule
from winogen.program.widths import forms as forms_of
from winogen.program.widths import signed

if TYPE_CHECKING:
    from winogen.program.ir import Rows

Form = tuple[int, ...]  # coefficients of the inputs along one axis
_MOVES = 1000  # exchanges of each round
# What a move may cost in each round, an adder being 1000: it cools down to nothing.
_HEATS = (300.0, 0.0)


def adder_program_2d(
    matrix: Rows,
    *,
    bits: int = 8,
    free_signs: bool = False,
    inputs: str = "d",
    outputs: str = "v",
    temporaries: str = "t",
) -> Program:
    """Return a program for M D M^T, M being a matrix of n columns and D a tile of n x n numbers.

    Inputs are the tile row by row, outputs the result row by row. Otherwise it is like a program of
    `adder_program`, whose arguments these are: constants are shifts, adders are few, and it is
    proven equal to the Kronecker product of the matrix with itself. It has no more of them than the
    program of `adder_program` on each column and row, with which the search begins. A tile of 4 x 4
    takes seconds, one of 8 x 8 minutes. Raises InvalidValue, InvalidType as `adder_program` does.

    >>> from winogen.program.adders import adders
    >>> matrix = [[1, 1], [1, -1]]
    >>> adders(adder_program_2d(matrix)), 4 * adders(adder_program(matrix))
    (7, 8)
    """
    check_bits(bits)
    return _search(integers(matrix), bits, free_signs, Names(inputs, outputs, temporaries))


@lru_cache(maxsize=64)
def _search(matrix: tuple[Form, ...], bits: int, free_signs: bool, names: Names) -> Program:
    one_axis = adder_program(matrix, bits=bits, free_signs=free_signs, inputs=names.inputs)
    whole = tuple(tuple(a * b for a in p for b in q) for p in matrix for q in matrix)
    given = signed(bits)
    forms = LinearForms(len(whole[0]), max(abs(c) for row in whole for c in row), given)
    rows = [forms.encode(row) for row in whole]
    targets = {forms.value(row) for row in rows if row} - set(forms.units)

    def weight(value: int) -> int:
        return ADDER + forms.bits(value)

    def price(program: Program) -> tuple[int, ...]:
        count, width = adders(program), adder_bits(program, given)
        return count, width, adder_depth(program), len(program.statements)

    sets = []
    for number, values in enumerate(_nested(forms, one_axis)):
        rng = random.Random(f"tile {number}")
        for heat in _HEATS:
            closure = Closure(forms, values)
            values = sorted(exchange(closure, targets, None, weight, rng, _MOVES, heat))
        sets.append(values)
    programs = [emit(forms, rows, values, None, free_signs, names, price) for values in sets]
    programs.append(columns_then_rows(one_axis, names.inputs))
    program = schedule(min(programs, key=price))
    program = rename(program, names.outputs, names.temporaries)
    computed = whole
    if free_signs:
        computed = tuple(map(signed_as, whole, program.to_matrix()))
    program.verify(computed)
    return program


def _nested(forms: LinearForms, program: Program) -> Iterator[list[int]]:
    """The values of a program that runs on every column, then on every row; and conversely."""
    along = forms_of(program)
    n = len(program.inputs)
    units = [tuple(int(i == j) for i in range(n)) for j in range(n)]
    made = [along[one.target] for one in program.statements]
    results = [along[name] for name in program.outputs]
    pairs = [(a, b) for a in made for b in units] + [(a, b) for a in results for b in made]
    for swapped in (False, True):
        found = {
            forms.value(forms.encode(_tile(b, a) if swapped else _tile(a, b)))
            for a, b in pairs
            if any(a) and any(b)
        }
        yield sorted(found - set(forms.units))


def columns_then_rows(program: Program, inputs: str) -> Program:
    """Return a program that runs another one on every column of a tile, then on every row."""
    statements: list[Statement] = []

    def run(given: Sequence[str], line: str) -> list[str]:
        known = dict(zip(program.inputs, given)) | {ZERO: ZERO}
        for one in program.statements:
            known[one.target] = f"{line}{one.target}"
            terms = tuple(Term(term.coefficient, known[term.operand]) for term in one.terms)
            statements.append(Statement(known[one.target], terms))
        return [known[name] for name in program.outputs]

    n = len(program.inputs)
    tile = [[f"{inputs}{i * n + j}" for j in range(n)] for i in range(n)]
    columns = [run(column, f"c{j}") for j, column in enumerate(zip(*tile))]
    rows = [run(row, f"r{i}") for i, row in enumerate(zip(*columns))]
    return Program(
        tuple(name for row in tile for name in row),
        tuple(statements),
        tuple(name for row in rows for name in row),
    )


def _tile(rows: Sequence[int], columns: Sequence[int]) -> Form:
    return tuple(a * b for a in rows for b in columns)
