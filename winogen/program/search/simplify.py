"""From a matrix to its shortest straight-line program."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from winogen.errors import InvalidValue
from winogen.program.ir import Program, Rows, exact
from winogen.program.search.candidate import check_objective
from winogen.program.search.lower import Names
from winogen.program.search.rank import candidates, scheduled

if TYPE_CHECKING:
    from winogen.algebra.scalar import Matrix


def simplify(
    matrix: Rows,
    objective: str = "instructions",
    inputs: str = "d",
    outputs: str = "v",
    temporaries: str = "t",
    *,
    strategies: Iterable[str] | None = None,
    registers: int | None = None,
    error_limit: float | None = 1.75,
) -> Program:
    """The best program found for ``matrix`` (exact rows), proven equal to it.

    ``objective``: "instructions" (additions, multiplications and FMAs once fused), "additions"
    (constants free), "depth" (critical path), "registers" or "error" (rounding, see
    ``winogen.program.analysis.error_growth``). ``inputs``, ``outputs``, ``temporaries``: prefixes
    of names. ``strategies``: names in the registry, by default of the fast ones. ``registers``:
    keep the order of statements if it needs no more than this; by default it is chosen to need few.
    ``error_limit``: how many times the rounding error of the most careful row-by-row program is
    tolerable, if that can be met. The same arguments give the same program.

    Raises ``InvalidValue`` for an unknown objective or strategy, a ragged or empty matrix.

    >>> print(simplify([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, -1, 0, 1]]))
    v0 = d0 - d2
    v1 = d1 + d2
    v2 = d2 - d1
    v3 = d3 - d1
    outputs: v0, v1, v2, v3
    """
    check_objective(objective)
    rows = tuple(tuple(exact(c) for c in row) for row in matrix)
    if not rows or len({len(row) for row in rows}) > 1 or not rows[0]:
        raise InvalidValue("matrix: got no or unequal rows; allowed: rows of one length, 1 or more")
    names = Names(inputs, outputs, temporaries)
    allowed = None if strategies is None else tuple(strategies)
    return _simplify(rows, objective, names, allowed, registers, error_limit)


@lru_cache(maxsize=512)
def _simplify(
    matrix: Matrix,
    objective: str,
    names: Names,
    strategies: tuple[str, ...] | None,
    registers: int | None,
    error_limit: float | None,
) -> Program:
    ranking = candidates(matrix, objective, strategies, names=names, error_limit=error_limit)
    program = scheduled(ranking, names, objective, registers)
    program.verify(matrix)
    return program
