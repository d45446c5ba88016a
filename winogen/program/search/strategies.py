"""The registry of strategies: ways to turn a matrix into networks of few gates.

A strategy is a function ``strategy(matrix) -> list of Network``, all computing the matrix exactly.
It may return none when it does not apply. Add one with ``register_strategy``; ``simplify`` tries
all that its objective lists and takes the best result per transform.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from winogen.errors import InvalidValue
from winogen.program.analysis import network_growth
from winogen.program.search import pairs
from winogen.program.search.greedy import greedy
from winogen.program.search.hierarchy import hierarchy
from winogen.program.search.incidence import incidence
from winogen.program.search.network import ONE, Builder, GateNetwork
from winogen.program.search.plane import plane
from winogen.program.summation import huffman_sums

if TYPE_CHECKING:
    from winogen.algebra.scalar import Matrix, Scalar
    from winogen.program.search.network import Signal

Strategy: TypeAlias = "Callable[[Matrix], list[GateNetwork]]"
Function = TypeVar("Function", bound="Strategy")

STRATEGIES: dict[str, Strategy] = {}
FAST = ("direct", "hierarchy", "greedy", "pairs", "incidence", "transposed")  # tried by default
_KEEP = 4  # networks of fewest gates that go on to the next stage


def register_strategy(name: str) -> Callable[[Function], Function]:
    """Decorator: make a function known under ``name``.

    >>> sorted(STRATEGIES)  # doctest: +NORMALIZE_WHITESPACE
    ['direct', 'greedy', 'hierarchy', 'incidence', 'pairs', 'transposed', 'wide']
    """

    def register(function: Function) -> Function:
        STRATEGIES[name] = function
        return function

    return register


def strategy(name: str) -> Strategy:
    """The strategy called ``name``; raises ``InvalidValue`` with the existing names."""
    if name not in STRATEGIES:
        raise InvalidValue(f"strategy: got {name!r}; allowed: {', '.join(sorted(STRATEGIES))}")
    return STRATEGIES[name]


@register_strategy("direct")
def direct(matrix: Matrix) -> list[GateNetwork]:
    """Every row on its own, from left to right: what a reader of the matrix would write.

    Also as balanced sums, and as sums from the smallest constants on, which keep rounding errors
    small (a Huffman tree: Barabasz, Anderson, Soodhalter, Gregg, TOMS 2020).
    """
    networks = []
    for shape in (Builder.chain, Builder.sum, _huffman):
        build = Builder(len(matrix[0]))
        networks.append(build.network([shape(build, _signals(row)) for row in matrix]))
    return list(dict.fromkeys(networks))


def _signals(row: Sequence[Scalar]) -> list[Signal]:
    return [(c, j) for j, c in enumerate(row) if c != 0]


def _huffman(build: Builder, signals: Sequence[Signal]) -> Signal | None:
    """The sum of signals, the two of smallest magnitude first."""
    values: list[Signal | None] = list(signals)
    for a, b in huffman_sums([abs(float(constant)) for constant, _ in signals]):
        values.append(build.add(values[a], values[b]))
    return values[-1] if values else None


register_strategy("hierarchy")(hierarchy)
register_strategy("greedy")(greedy)


# Columns -> runs of the incidence search. Runs take longer in more dimensions, and the first ones
# find most of what there is to find.
_RUNS = {1: 1, 2: 8, 3: 32, 4: 48, 5: 24, 6: 8}
_WIDE_RUNS = {**_RUNS, **dict.fromkeys(range(7, 10), 24), **dict.fromkeys(range(10, 17), 8)}


_ROWS, _WIDE_ROWS = 13, 24  # more are not searched for


@register_strategy("incidence")
def search(matrix: Matrix, runs: Mapping[int, int] = _RUNS, most: int = _ROWS) -> list[GateNetwork]:
    """``incidence`` where a matrix is small enough for it."""
    reduced = _Reduced(matrix)
    if not reduced.rows:
        return [reduced.restore(GateNetwork(reduced.width, (), ()))]
    tries = runs.get(reduced.width, 0) if len(reduced.rows) <= most else 0
    return [reduced.restore(network) for network in _search(tuple(reduced.rows), tries)]


@lru_cache(maxsize=256)
def _search(rows: Matrix, tries: int) -> list[GateNetwork]:
    """Kept, because rows that differ by factors only are the same rows here."""
    networks = plane(rows) if len(rows[0]) == 3 else []
    return networks or (incidence(rows, tries) if tries else [])


@register_strategy("wide")
def wide(matrix: Matrix) -> list[GateNetwork]:
    """The incidence search for matrices of up to 16 columns, which takes seconds."""
    return search(matrix, _WIDE_RUNS, _WIDE_ROWS)


def in_reach(matrix: Matrix) -> bool:
    """Whether a matrix is small enough for ``wide``."""
    reduced = _Reduced(matrix)
    return len(reduced.rows) <= _WIDE_ROWS and (not reduced.rows or reduced.width in _WIDE_RUNS)


@register_strategy("pairs")
def paired(matrix: Matrix) -> list[GateNetwork]:
    """Even and odd part apart (``pairs``), each by the best other way."""
    halves = pairs.split(matrix)
    if halves is None:
        return []
    parts, joins = halves
    options = [best_networks(tuple(rows), ("greedy", "incidence", "pairs")) for _, rows in parts]
    networks = []
    # The k-th choices together; with parts of one shape, which is usual, they are of one kind.
    for k in range(max(map(len, options))):
        chosen = [option[k % len(option)] for option in options]
        networks.append(pairs.join(len(matrix[0]), parts, chosen, joins))
    return list(dict.fromkeys(networks))


@register_strategy("transposed")
def transposed(matrix: Matrix) -> list[GateNetwork]:
    """The other strategies on the transposed matrix, turned back as genfft does with networks."""
    columns = tuple(zip(*matrix))
    networks = best_networks(columns, ("greedy", "incidence", "pairs"))
    return [network.transposed() for network in networks]


@lru_cache(maxsize=256)
def best_networks(matrix: Matrix, names: tuple[str, ...]) -> tuple[GateNetwork, ...]:
    """The networks of fewest gates by any of the named strategies, a handful.

    Of equally many gates the networks that add least rounding error. Some with more gates are kept,
    because cancellation may save gates and cost accuracy.
    """
    networks: dict[GateNetwork, None] = {}
    for name in names:
        for network in STRATEGIES[name](matrix):
            networks.setdefault(network.compact(), None)
    return tuple(select(networks))


def select(networks: Iterable[GateNetwork]) -> list[GateNetwork]:
    """See ``best_networks``."""
    scored = [(len(n.gates), round(network_growth(n), 3), k, n) for k, n in enumerate(networks)]
    kept: list[GateNetwork] = []
    least = math.inf
    fewest = min(scored)[0]
    for gates, growth, _, network in sorted(scored):
        first_ones = gates == fewest and len(kept) < _KEEP
        if first_ones or growth < 0.95 * least:
            kept.append(network)
            least = min(least, growth)
    return kept


class _Reduced:
    """A matrix without what is settled: zero, single-entry and repeated rows, lonely columns.

    A column of only one row can be added to the row at the very end: leaving it out of any network
    saves at least one gate, so nothing is lost.
    """

    def __init__(self, matrix: Matrix) -> None:
        self.matrix = matrix
        self.full_width = len(matrix[0])
        readers = [
            [i for i, row in enumerate(matrix) if row[j] != 0] for j in range(self.full_width)
        ]
        support = [sum(c != 0 for c in row) for row in matrix]
        self.lonely: dict[int, list[int]] = {}  # row -> columns
        for j, reading in enumerate(readers):
            # Two columns stay: a row that is left with one of them is settled.
            if len(reading) == 1 and support[reading[0]] > 1:
                support[reading[0]] -= 1
                self.lonely.setdefault(reading[0], []).append(j)
        gone = {j for columns in self.lonely.values() for j in columns}
        self.columns = [j for j in range(self.full_width) if readers[j] and j not in gone]
        self.width = len(self.columns)
        self.rows: list[tuple[Scalar, ...]] = []
        # Of every row of the matrix: factor and what it multiplies, a row or else a column.
        self.places: list[tuple[Scalar, int | None, int] | None] = []
        index: dict[tuple[Scalar, ...], int] = {}
        for row in matrix:
            entries = [row[j] for j in self.columns]
            lead = next((c for c in entries if c != 0), None)
            if lead is None:
                self.places.append(None)
                continue
            form = tuple(c / lead for c in entries)
            if sum(c != 0 for c in form) == 1:
                column = next(k for k, c in enumerate(form) if c != 0)
                self.places.append((lead, None, column))
                continue
            if form not in index:
                index[form] = len(self.rows)
                self.rows.append(form)
            self.places.append((lead, index[form], 0))

    def restore(self, network: GateNetwork) -> GateNetwork:
        """The network of the full matrix from one of ``rows``."""
        build = Builder(self.full_width)
        inner = build.embed(network, [(ONE, j) for j in self.columns])
        outputs: list[Signal | None] = []
        for i, place in enumerate(self.places):
            total: Signal | None
            if place is None:
                total = None
            elif place[1] is None:
                total = (place[0], self.columns[place[2]])
            else:
                factor, node = cast("Signal", inner[place[1]])
                total = (place[0] * factor, node)
            for j in self.lonely.get(i, ()):
                total = build.add(total, (self.matrix[i][j], j))
            outputs.append(total)
        return build.network(outputs)
