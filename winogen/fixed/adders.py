"""The three transforms of integers made of adders and shifts, for whoever multiplies slowly.

A row of B^T may be negated together with the same row of G or the same column of A^T, and a row of
G with that column. So both transforms that lead to products have whatever signs save negations, and
the columns of A^T make up for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from winogen.errors import InvalidValue
from winogen.program.adders import of_shifts
from winogen.program.kinds import KINDS

if TYPE_CHECKING:
    from winogen.algebra.scalar import Scalar
    from winogen.fixed.integral import Integral
    from winogen.program.ir import Program
    from winogen.program.search.adders.search import Objective

Matrices: TypeAlias = Mapping[str, "tuple[tuple[int, ...], ...]"]  # of input, filter and output
Signs: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]  # of the rows of B^T, of those of G
_Entry = TypeVar("_Entry", int, "Scalar")


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
    return with_programs(made, search(made.matrices, objective, depth, bits))


def search(
    matrices: Matrices, objective: Objective = "adders", depth: int | None = None, bits: int = 8
) -> dict[str, Program]:
    """Return programs of adders and shifts, of rows of either sign where signs are free.

    ``matrices``: of integers, as `Integral.matrices`.
    """
    from winogen.program import adder_program

    given: dict[str, Any] = {"objective": objective, "depth": depth, "bits": bits}
    programs = {}
    for kind in ("input", "filter"):
        names: dict[str, Any] = {"inputs": KINDS[kind].source, "outputs": KINDS[kind].target}
        programs[kind] = adder_program(matrices[kind], free_signs=True, **names, **given)
    rows = with_signs(matrices, signs(matrices, programs))["output"]
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
    changed = with_signs(made.matrices, signs(made.matrices, programs))
    for kind, rows in changed.items():
        programs[kind].verify(rows)
    signed = replace(made, bt=changed["input"], g=changed["filter"], at=changed["output"])
    signed.verify()
    return replace(signed, given=tuple(programs[kind] for kind in KINDS))


def signs(matrices: Matrices, programs: Mapping[str, Program]) -> Signs:
    """Return 1 or -1 for every row of B^T and of G, as programs compute them."""
    first, second = (
        tuple(
            1 if tuple(computed) == tuple(row) else -1
            for computed, row in zip(programs[kind].to_matrix(), matrices[kind])
        )
        for kind in ("input", "filter")
    )
    return first, second


def with_signs(
    matrices: Mapping[str, Iterable[Iterable[_Entry]]], by: Signs
) -> dict[str, tuple[tuple[_Entry, ...], ...]]:
    """Return the matrices with rows of B^T and G, and columns of A^T, negated."""
    first, second = by
    columns = [s * t for s, t in zip(first, second)]

    def times(sign: int, entry: _Entry) -> _Entry:
        return entry if sign > 0 else -entry

    return {
        "input": tuple(tuple(times(s, c) for c in row) for s, row in zip(first, matrices["input"])),
        "filter": tuple(
            tuple(times(s, c) for c in row) for s, row in zip(second, matrices["filter"])
        ),
        "output": tuple(
            tuple(times(s, c) for s, c in zip(columns, row)) for row in matrices["output"]
        ),
    }
