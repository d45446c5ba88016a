"""Greedy two-term elimination up to scale: name the pair that most rows share, repeat.

Rows share a pair of columns when the ratio of their two entries is the same, whatever the scale:
4 d2 - d4 in one row and d4/2 - 2 d2 in another are one pair. It finds the pairing of opposite
points by itself. It never cancels: a row only ever replaces what it contains.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from winogen.program.search.network import ONE, Builder

if TYPE_CHECKING:
    from winogen.algebra.scalar import Matrix, Scalar
    from winogen.program.search.network import GateNetwork, Signal


def greedy(matrix: Matrix, tries: int = 24, seed: int = 0) -> list[GateNetwork]:
    """The distinct networks found by ``tries`` runs that differ in how ties are broken.

    >>> from fractions import Fraction as F
    >>> network = greedy([[F(1), F(2), F(1)], [F(1), F(2), F(-1)]])[0]
    >>> len(network.gates)
    3
    """
    table = _Ratios()
    rows = [{j: table.number(c) for j, c in enumerate(row) if c != 0} for row in matrix]
    width = len(matrix[0])
    networks: dict[GateNetwork, None] = {}
    for attempt in range(tries):
        network = _run(
            [dict(row) for row in rows], width, table, random.Random(f"{seed}/{attempt}")
        )
        networks.setdefault(network, None)
    return sorted(networks, key=lambda network: len(network.gates))


class _Ratios:
    """Constants as small integers, so that the inner loop hashes no exact numbers."""

    def __init__(self) -> None:
        self.values: list[Scalar] = []
        self._numbers: dict[Scalar, int] = {}
        self._quotients: dict[tuple[int, int], int] = {}

    def number(self, value: Scalar) -> int:
        if value not in self._numbers:
            self._numbers[value] = len(self.values)
            self.values.append(value)
        return self._numbers[value]

    def quotient(self, p: int, q: int) -> int:
        """The number of values[p] / values[q]."""
        if (p, q) not in self._quotients:
            self._quotients[p, q] = self.number(self.values[p] / self.values[q])
        return self._quotients[p, q]


def _run(rows: list[dict[int, int]], width: int, table: _Ratios, rng: random.Random) -> GateNetwork:
    shared: Counter[tuple[int, int, int]] = Counter()
    for row in rows:
        shared.update(_pairs(row, table))
    build = Builder(width)
    while shared:
        one = table.number(ONE)
        most = max(shared.values())
        if most < 2:
            break
        x, y, ratio = rng.choice(sorted(key for key, count in shared.items() if count == most))
        _, node = cast("Signal", build.add((table.values[one], x), (table.values[ratio], y)))
        for row in rows:
            if x in row and y in row and table.quotient(row[y], row[x]) == ratio:
                shared.subtract(_pairs_of(x, row, table))
                first = row.pop(x)
                shared.subtract(_pairs_of(y, row, table))
                del row[y]
                row[node] = first
                shared.update(_pairs_of(node, row, table))
        shared = Counter({key: count for key, count in shared.items() if count > 1})
    outputs = [build.sum([(table.values[c], x) for x, c in sorted(row.items())]) for row in rows]
    return build.network(outputs)


def _pairs_of(x: int, row: dict[int, int], table: _Ratios) -> Iterator[tuple[int, int, int]]:
    """Those of the pairs of a row that have the column x."""
    p = row[x]
    for y, q in sorted(row.items()):
        if y < x:
            yield y, x, table.quotient(p, q)
        elif y > x:
            yield x, y, table.quotient(q, p)


def _pairs(row: dict[int, int], table: _Ratios) -> Iterator[tuple[int, int, int]]:
    items = sorted(row.items())
    for k, (x, p) in enumerate(items):
        for y, q in items[k + 1 :]:
            yield x, y, table.quotient(q, p)
