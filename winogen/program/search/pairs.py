"""Even/odd pairing: rows that differ by signs are a sum and a difference of two shorter rows.

    v1 = d4 - 4 d2 + d3 - 4 d1          e = d4 - 4 d2      v1 = e + o
    v2 = d4 - 4 d2 - d3 + 4 d1          o = d3 - 4 d1      v2 = e - o

The rows of the points p and -p differ so in all three transforms (the parity of the column decides
the sign), the palindromic rows of p and 1/p differ so after one more change of variables. What
remains are smaller matrices, one per set of columns. ``incidence`` searches them well, and they
turn up again and again: even and odd part are often the same matrix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias, cast

from winogen.program.search.network import ONE, Builder

if TYPE_CHECKING:
    from winogen.algebra.scalar import Matrix, Scalar
    from winogen.program.search.network import GateNetwork, Signal

Part: TypeAlias = "tuple[Sequence[int], Sequence[tuple[Scalar, ...]]]"  # columns, rows on them
Join: TypeAlias = "tuple[Scalar, int, int]"  # constant, part, index of a row in the part


def partition(matrix: Matrix) -> frozenset[int] | None:
    """The set of columns (a frozenset) whose sign change pairs most rows, None if none pairs any.

    Two rows are a pair when one is ``s`` times the other on these columns and ``t`` times the
    other on the rest, s and t different.

    >>> sorted(partition([[1, 2, 1], [1, -2, 1], [0, 0, 1]]))
    [1]
    """
    votes: Counter[frozenset[int]] = Counter()
    for p, q in combinations(matrix, 2):
        split = _split(p, q)
        if split is not None:
            votes[split] += 1
    if not votes:
        return None
    return max(votes, key=lambda split: (votes[split], -len(split), sorted(split)))


def _split(p: Sequence[Scalar], q: Sequence[Scalar]) -> frozenset[int] | None:
    """The columns where the quotient q / p has its second value; None unless there are two."""
    groups: dict[Scalar, list[int]] = {}
    for j, (a, b) in enumerate(zip(p, q)):
        if (a == 0) != (b == 0):
            return None
        if a != 0:
            groups.setdefault(b / a, []).append(j)
    if len(groups) != 2 or all(len(group) == 1 for group in groups.values()):
        return None
    return frozenset(list(groups.values())[1])


def split(matrix: Matrix) -> tuple[list[Part], list[list[Join]]] | None:
    """(parts, joins): the matrix as gates over the rows of column blocks; None if nothing pairs.

    ``parts``: [(columns, rows)], each row given on these columns only. ``joins``: one list per row
    of the matrix, of signals ``(constant, part, index of a row in the part)``, one or two of them.
    """
    odd = partition(matrix)
    if odd is None:
        return None
    width = len(matrix[0])
    # A column of one row alone goes to the side of the row's other columns.
    for j in range(width):
        readers = [row for row in matrix if row[j] != 0]
        if j not in odd and len(readers) == 1:
            near = {k for k in range(width) if readers[0][k] != 0} - {j}
            if near and near <= odd:
                odd = odd | {j}
    columns = [sorted(set(range(width)) - odd), sorted(odd)]
    rows: tuple[list[tuple[Scalar, ...]], ...] = ([], [])
    joins: list[list[Join]] = []
    index: tuple[dict[tuple[Scalar, ...], int], ...] = ({}, {})  # of each row in its part
    for row in matrix:
        join = []
        for side in (0, 1):
            part = [row[j] for j in columns[side]]
            lead = next((c for c in part if c != 0), None)
            if lead is None:
                continue
            form = tuple(c / lead for c in part)
            if form not in index[side]:
                index[side][form] = len(rows[side])
                rows[side].append(form)
            join.append((lead, side, index[side][form]))
        joins.append(join)
    return [(columns[side], rows[side]) for side in (0, 1)], joins


def join(
    width: int, parts: list[Part], networks: list[GateNetwork], joins: list[list[Join]]
) -> GateNetwork:
    """The network of the whole from one network per part (see ``split``)."""
    build = Builder(width)
    value = []
    for (columns, _), network in zip(parts, networks):
        value.append(build.embed(network, [(ONE, j) for j in columns]))
    outputs = []
    for row in joins:
        signals: list[Signal] = []
        for constant, side, place in row:
            factor, node = cast("Signal", value[side][place])
            signals.append((constant * factor, node))
        outputs.append(build.chain(signals))
    return build.network(outputs)
