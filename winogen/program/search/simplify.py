"""From a matrix to its shortest straight-line program."""

from functools import lru_cache

from winogen.errors import InvalidValue
from winogen.program.ir import Program, exact


def simplify(
    matrix,
    objective="instructions",
    inputs="d",
    outputs="v",
    temporaries="t",
    *,
    strategies=None,
    registers=None,
    error_limit=1.75,
) -> Program:
    """The best program found for ``matrix`` (exact rows), proven equal to it.

    ``objective``: "instructions" (additions, multiplications and FMAs once fused), "additions"
    (constants free), "depth" (critical path), "registers" or "error" (rounding, see
    :func:`winogen.program.analysis.error_growth`). ``inputs``, ``outputs``, ``temporaries``:
    prefixes of names. ``strategies``: names from :mod:`winogen.program.search.strategies`, by default
    the fast ones. ``registers``: keep the order of statements if it needs no more than this; by default it
    is chosen to need few. ``error_limit``: how many times the rounding error of the most careful
    row-by-row program is tolerable, if that can be met. The same arguments give the same program.

    Raises :class:`InvalidValue` for an unknown objective or strategy, a ragged or empty matrix.

    >>> print(simplify([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, -1, 0, 1]]))
    v0 = d0 - d2
    v1 = d1 + d2
    v2 = d2 - d1
    v3 = d3 - d1
    outputs: v0, v1, v2, v3
    """
    # The search is loaded when there is something to search for: transforms that ship need none.
    from winogen.program.search.candidate import check_objective
    from winogen.program.search.lower import Names

    check_objective(objective)
    matrix = tuple(tuple(exact(c) for c in row) for row in matrix)
    if not matrix or len({len(row) for row in matrix}) > 1 or not matrix[0]:
        raise InvalidValue("matrix: got no or unequal rows; allowed: rows of one length, 1 or more")
    names = Names(inputs, outputs, temporaries)
    strategies = None if strategies is None else tuple(strategies)
    return _simplify(matrix, objective, names, strategies, registers, error_limit)


@lru_cache(maxsize=512)
def _simplify(matrix, objective, names, strategies, registers, error_limit):
    from winogen.program.search.rank import candidates, scheduled

    found = candidates(matrix, objective, strategies, names=names, error_limit=error_limit)
    program = scheduled(found, names, objective, registers)
    program.verify(matrix)
    return program
