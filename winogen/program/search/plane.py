"""The search of ``incidence`` for matrices of three columns, systematically.

Three columns are points of a plane, where any two lines meet: every target is one drawn point away,
namely where a line through two present points crosses a line through the target and a present
point. So a few drawn points suffice and all choices of one, two, three can be looked at in turn,
the crossings of most lines first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, cast

from winogen.program.search.geometry import Point, is_rational, point_of, primitive
from winogen.program.search.incidence import network_of

if TYPE_CHECKING:
    from winogen.algebra.scalar import Matrix
    from winogen.program.search.network import GateNetwork

# Per number of drawn points: sets of points looked at, and lines that are held against a target or
# cross another one. Without the second, many targets would take hours.
_STATES = 120
_LINES = 4_000_000
_DRAWN = 3  # points drawn at most; where more are needed, chance does better than this order
_WANTED = 12  # networks to find before stopping


def plane(matrix: Matrix) -> list[GateNetwork]:
    """Networks of few gates for a rational matrix of three columns; empty for any other.

    >>> from fractions import Fraction as F
    >>> rows = [[F(1), F(p), F(p * p)] for p in (1, -1, 2, -2, F(1, 2), F(-1, 2))]
    >>> len(plane(rows)[0].gates)
    8
    """
    if len(matrix[0]) != 3:
        return []
    points = [point_of(row) for row in matrix]
    if not all(point is None or is_rational(point) for point in points):
        return []
    basis: list[Point] = [(1, 0, 0), (0, 1, 0), (0, 0, 1)]
    targets = [p for p in dict.fromkeys(points) if p is not None and p not in basis]
    for drawn in range(_DRAWN + 1):
        search = _PlaneSearch()
        search.extend([], set(), basis, targets, drawn)
        if search.drawings:
            networks = [network_of(nodes, 3, matrix, points) for nodes in search.drawings]
            return list(dict.fromkeys(networks))
    return []


class _PlaneSearch:
    def __init__(self) -> None:
        self.drawings: list[list[Point]] = []  # points that reach all targets, in order
        self.seen: set[frozenset[Point]] = set()
        self.states = 0
        self.lines = 0

    def extend(
        self,
        nodes: list[Point],
        lines: set[Point],
        new: list[Point],
        missing: list[Point],
        drawn: int,
    ) -> None:
        """All ways to reach the missing targets with ``drawn`` more points, depth first.

        ``lines``: all lines through two of ``nodes``; ``new``: the points to join them.
        """
        nodes, lines, missing = self._close(nodes, lines, new, missing)
        if not missing:
            self.drawings.append(nodes)
            return
        key = frozenset(nodes)
        if drawn == 0 or key in self.seen:
            return
        self.seen.add(key)
        self.states += 1
        for point in self._crossings(nodes, missing):
            if self._is_over():
                return
            self.extend(nodes, lines, [point], missing, drawn - 1)

    def _is_over(self) -> bool:
        enough = len(self.drawings) >= _WANTED
        return enough or self.states > _STATES or self.lines > _LINES

    def _close(
        self, nodes: Iterable[Point], lines: set[Point], new: Iterable[Point], missing: list[Point]
    ) -> tuple[list[Point], set[Point], list[Point]]:
        """Add points, and targets that come to lie on lines through two points, again and again."""
        nodes, lines, missing, pending = list(nodes), set(lines), list(missing), list(new)
        while pending:
            point = pending.pop(0)
            fresh = {_cross(node, point) for node in nodes} - lines
            lines |= fresh
            nodes.append(point)
            self.lines += len(fresh) * len(missing)
            for target in list(missing):
                x, y, z = target
                if any(a * x + b * y + c * z == 0 for a, b, c in fresh):
                    missing.remove(target)
                    pending.append(target)
        return nodes, lines, missing

    def _crossings(self, nodes: Sequence[Point], missing: Iterable[Point]) -> list[Point]:
        """Points where a present line crosses one through a target; those of most targets first."""
        lines = sorted({_cross(p, q) for p, q in combinations(nodes, 2)})
        votes: Counter[Point] = Counter()
        for target in missing:
            rays = {_cross(target, node) for node in nodes}
            self.lines += len(lines) * len(rays)
            votes.update({_cross(line, ray) for line in lines for ray in rays if line != ray})
        for node in nodes:
            votes.pop(node, None)
        return sorted(votes, key=lambda p: (-votes[p], max(map(abs, p)), p))


def _cross(p: Point, q: Point) -> Point:
    """The line through two points, or the point on two lines."""
    a, b, c = p
    d, e, f = q
    return cast(Point, primitive((b * f - c * e, c * d - a * f, a * e - b * d)))
