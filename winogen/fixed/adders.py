"""The three transforms of integers made of adders and shifts, for whoever multiplies slowly.

A row of B^T may be negated together with the same row of G or the same column of A^T, and a row of
G with that column. So both transforms that lead to products have whatever signs save negations, and
the columns of A^T make up for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from winogen.errors import InvalidValue
from winogen.program.adders import of_shifts
from winogen.program.kinds import KINDS

if TYPE_CHECKING:
    from winogen.fixed.integral import Integral
    from winogen.program.ir import Program
    from winogen.program.search.adders.search import Objective


def of_adders(
    made: Integral, objective: Objective = "adders", depth: int | None = None, bits: int = 8
) -> Integral:
    """Return the same algorithm with programs of adders and shifts, proven, and the signs of these.

    Arguments are those of `winogen.program.adder_program`, which takes some seconds.

    >>> from winogen.algebra import cook_toom
    >>> from winogen.fixed import integral
    >>> from winogen.program.adders import adders
    >>> made = of_adders(integral(cook_toom(4, 3, "0, 1, -1, 2, -2, inf")))
    >>> [adders(program) for program in made.programs.values()]
    [12, 6, 12]
    """
    return with_programs(made, search(made, objective, depth, bits))


def search(
    made: Integral, objective: Objective = "adders", depth: int | None = None, bits: int = 8
) -> dict[str, Program]:
    """Return programs of adders and shifts, of rows of either sign where signs are free."""
    from winogen.program import adder_program

    given: dict[str, Any] = {"objective": objective, "depth": depth, "bits": bits}
    programs = {}
    for kind in ("input", "filter"):
        names: dict[str, Any] = {"inputs": KINDS[kind].source, "outputs": KINDS[kind].target}
        programs[kind] = adder_program(made.matrices[kind], free_signs=True, **names, **given)
    rows = _signed(made, programs).at
    of = KINDS["output"]
    programs["output"] = adder_program(rows, inputs=of.source, outputs=of.target, **given)
    return programs


def with_programs(made: Integral, programs: Mapping[str, Program]) -> Integral:
    """Return an algorithm with programs that `search` found, and their signs, all of it proven.

    Raises InvalidValue where a constant is no shift, VerificationError where a program computes
    something else.
    """
    for kind, program in programs.items():
        if not of_shifts(program):
            raise InvalidValue(f"programs: got {kind} with other constants; allowed: powers of two")
    signed = _signed(made, programs)
    for kind, rows in signed.matrices.items():
        programs[kind].verify(rows)
    signed.verify()
    return replace(signed, given=tuple(programs[kind] for kind in KINDS))


def _signed(made: Integral, programs: Mapping[str, Program]) -> Integral:
    """The algorithm with rows of B^T and G as programs compute them."""
    signs = [
        [1 if tuple(computed) == tuple(row) else -1 for computed, row in zip(ours, rows)]
        for ours, rows in (
            (programs["input"].to_matrix(), made.bt),
            (programs["filter"].to_matrix(), made.g),
        )
    ]
    bt, g = (
        tuple(tuple(sign * c for c in row) for sign, row in zip(some, rows))
        for some, rows in zip(signs, (made.bt, made.g))
    )
    columns = [s * t for s, t in zip(*signs)]
    at = tuple(tuple(sign * c for sign, c in zip(columns, row)) for row in made.at)
    return replace(made, bt=bt, g=g, at=at)
