"""A cancellation-aware search for few gates, in the geometry of points and lines.

Up to scale, rows are points of a projective space, and a gate may draw any point on the line
through two points that are there. The search keeps, for every missing target, its shortest
combinations of present points ("target = 2 p - 5 q + r"), and draws the point (2 p - 5 q, or 2 p +
r, ...) that shortens most targets at once. A combination may use any point, so finished targets and
cancelling differences take part; this finds what eliminating common terms cannot:

    u1 = g0 + g1 + g2     t  = g1 + g2            5 gates for the filter transform of F(4,3),
    u2 = g0 - g1 + g2     u1 = g0 + t             points {0, ±1, ±2}, where pairing ±1 and ±2
    u3 = g0 + 2 g1 + 4 g2 u2 = u1 - 2 g1          takes 6
    u4 = g0 - 2 g1 + 4 g2 u3 = u2 + 3 t
                          u4 = u3 - 4 g1

Rational entries only; all arithmetic is on integers and exact. The method is due to Boyar and
Peralta for XOR circuits (J. Cryptology 2013), carried over from GF(2) to points with any constants.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import log
from typing import TYPE_CHECKING, TypeAlias, cast

from winogen.program.search.geometry import (
    Point,
    constants_of,
    equal_pairs,
    is_rational,
    modulo,
    pivot_of,
    point_of,
    primitive,
)
from winogen.program.search.network import ONE, Builder

if TYPE_CHECKING:
    from winogen.algebra.scalar import Matrix
    from winogen.program.search.network import GateNetwork, Signal

Combination: TypeAlias = tuple[list[Point], list[int]]  # points and their constants

MAX_WEIGHT = 4  # alternative combinations of more points are not looked for
_CAP = 96  # combinations remembered per target
_SLACK = 1  # gates more than the fewest so far that a run may need: others may round less
_HEAT = (0, 0, 0, 0.5)


def incidence(matrix: Matrix, tries: int = 24, seed: int = 0) -> list[GateNetwork]:
    """The distinct networks found in ``tries`` runs; empty when an entry is irrational.

    >>> F = Fraction
    >>> rows = [[F(p) ** k for k in range(4)] for p in (1, 4, F(1, 4), 16)]
    >>> len(incidence(rows)[0].gates)  # row by row: 12
    10
    """
    points = [point_of(row) for row in matrix]
    if not all(point is None or is_rational(point) for point in points):
        return []
    width = len(matrix[0])
    basis: list[Point] = [tuple(int(k == j) for k in range(width)) for j in range(width)]
    targets = [p for p in dict.fromkeys(points) if p is not None and p not in basis]
    limit = sum(sum(c != 0 for c in p) - 1 for p in targets)
    drawings: dict[tuple[Point, ...], None] = {}
    for attempt in range(tries):
        # Most runs take the best point there is, at random where several are best.
        heat = _HEAT[attempt % len(_HEAT)]
        nodes = _run(basis, targets, limit, random.Random(f"{seed}/{attempt}"), heat)
        if nodes is not None:
            limit = min(limit, len(nodes) - width + _SLACK)
            drawings.setdefault(tuple(nodes), None)
    networks = [network_of(nodes, width, matrix, points) for nodes in drawings]
    return sorted(dict.fromkeys(networks), key=lambda network: len(network.gates))


# ---- the search ----------------------------------------------------------------------------------


class _Target:
    """One missing target and its shortest combinations of the points present."""

    def __init__(self, point: Point, width: int) -> None:
        self.point = point
        self.pivot = pivot_of(point)
        self.images: list[Point | None] = []  # of every present point, modulo the target
        support = [j for j, c in enumerate(point) if c]
        basis: list[Point] = [tuple(int(k == j) for k in range(width)) for j in support]
        self._start_over([(basis, [point[j] for j in support])])

    def _start_over(self, combined: list[Combination]) -> None:
        """Forget all combinations but these."""
        self.weight = len(combined[0][0])
        self.gains: Counter[Point] = (
            Counter()
        )  # point that shortens the target -> in how many combinations
        self.count = 0
        self.long: list[
            Combination
        ] = []  # the combinations themselves, while they are too long to be looked for
        self._remember(combined[:_CAP])

    def _remember(self, combined: list[Combination]) -> None:
        for points, constants in combined:
            self.count += 1
            for drawn in _between(tuple(points), tuple(constants)):
                self.gains[drawn] += 1
            if self.weight > MAX_WEIGHT:
                self.long.append((points, constants))

    def see(self, nodes: Sequence[Point]) -> bool:
        """Take the last of ``nodes`` into account; True when the target is on a line through it."""
        new = nodes[-1]
        image = modulo(new, self.pivot, self.point)
        if image in self.images:
            return True
        # One more point shortens a combination by one at most, except where longer ones than
        # MAX_WEIGHT were not looked for.
        shorter: Sequence[int] = (
            range(3, self.weight) if self.weight > MAX_WEIGHT + 1 else [self.weight - 1]
        )
        for weight in shorter:
            combined = self._combinations(image, nodes, weight)
            if combined:
                self._start_over(combined)
                break
        else:
            combined = self._substituted(new)
            if combined:
                self._start_over(combined)
            elif self.weight <= MAX_WEIGHT and self.count < _CAP:
                room = _CAP - self.count
                self._remember(self._combinations(image, nodes, self.weight, room))
        self.images.append(image)
        return False

    def _substituted(self, new: Point) -> list[Combination]:
        """Long combinations with two of their points replaced by the new one between them."""
        combined: list[Combination] = []
        for points, constants in self.long:
            for i, j in combinations(range(len(points)), 2):
                drawn = _mixed(constants[i], points[i], constants[j], points[j])
                if primitive(drawn) == new:
                    at = pivot_of(new)
                    others = [k for k in range(len(points)) if k not in (i, j)]
                    constant = drawn[at] // new[at]
                    combined.append(
                        (
                            [*(points[k] for k in others), new],
                            [*(constants[k] for k in others), constant],
                        )
                    )
        return combined

    def _combinations(
        self, image: Point | None, nodes: Sequence[Point], weight: int, room: int = _CAP
    ) -> list[Combination]:
        """``room`` combinations of ``weight`` points, the newest among them, giving the target."""
        if image is None or not 2 < weight <= MAX_WEIGHT:
            return []
        pivot = pivot_of(image)
        images = [None if p is None else modulo(p, pivot, image) for p in self.images]
        chosen: list[tuple[int, ...]]
        if weight == 3:
            chosen = [(-1, i, j) for i, j in equal_pairs(images)]
        else:
            chosen = []
            for k, p in enumerate(images):
                if p is not None:
                    at = pivot_of(p)
                    later = [None if q is None else modulo(q, at, p) for q in images[k + 1 :]]
                    chosen += [(-1, k, k + 1 + i, k + 1 + j) for i, j in equal_pairs(later)]
                    if len(chosen) > _CAP:
                        break
        result: list[Combination] = []
        for indices in chosen:
            points = [nodes[i] for i in indices]
            constants = _constants(self.point, tuple(points))
            if constants is not None:
                result.append((points, constants))
                if len(result) == room:
                    break
        return result


# Runs differ in what they draw late, so most of what they ask was asked in the one before.


_constants = lru_cache(maxsize=1 << 14)(constants_of)


@lru_cache(maxsize=1 << 14)
def _between(points: tuple[Point, ...], constants: tuple[int, ...]) -> list[Point]:
    """The points that each replace two of a combination."""
    terms = list(zip(constants, points))
    points_between = (primitive(_mixed(a, p, b, q)) for (a, p), (b, q) in combinations(terms, 2))
    return [point for point in points_between if point is not None]


def _mixed(a: int, p: Point, b: int, q: Point) -> list[int]:
    return [a * c + b * d for c, d in zip(p, q)]


def _run(
    basis: Sequence[Point],
    targets: Sequence[Point],
    limit: int,
    rng: random.Random,
    heat: float,
) -> list[Point] | None:
    """One run: the points drawn, basis first; None when it will need more than ``limit`` gates."""
    width = len(basis)
    nodes: list[Point] = []
    missing = [_Target(point, width) for point in targets]
    arriving = list(basis)
    while arriving or missing:
        if arriving:
            nodes.append(arriving.pop(0))
        else:
            if len(nodes) - width + 1 + len(missing) > limit:
                return None
            nodes.append(_choose(missing, nodes, rng, heat))
        reached = [target for target in missing if target.see(nodes)]
        missing = [target for target in missing if target not in reached]
        arriving += [target.point for target in reached]
    return nodes


def _choose(
    missing: Sequence[_Target], nodes: Sequence[Point], rng: random.Random, heat: float
) -> Point:
    shortened: Counter[Point] = Counter()
    share: dict[Point, float] = defaultdict(float)
    for target in missing:
        for point, times in target.gains.items():
            shortened[point] += 1
            share[point] += times / target.count
    for point in nodes:
        shortened.pop(point, None)
    worth = {point: n + 0.2 * share[point] for point, n in shortened.items()}
    if heat:
        # Gumbel noise: a point is drawn with a probability that grows with its worth.
        return max(worth, key=lambda point: worth[point] - heat * log(-log(rng.random() or 0.5)))
    level = max(worth.values()) - 1e-9
    return rng.choice([point for point, value in worth.items() if value >= level])


# ---- from points to gates ------------------------------------------------------------------------


def network_of(
    nodes: Sequence[Point], width: int, matrix: Matrix, points: Sequence[Point | None]
) -> GateNetwork:
    """Gates that draw the points in their order; the first line found through each is taken."""
    build = Builder(width)
    signal: dict[Point, Signal] = {point: (ONE, j) for j, point in enumerate(nodes[:width])}
    for k in range(width, len(nodes)):
        p, q, constants = _line(nodes[k], nodes[:k])
        a, b = (Fraction(c) for c in constants)
        parts = (a * signal[p][0], signal[p][1]), (b * signal[q][0], signal[q][1])
        total = cast("Signal", build.add(*parts))
        # ``constants`` give the target up to scale; the scale is read off one coordinate.
        j = pivot_of(nodes[k])
        factor = Fraction(nodes[k][j]) / (a * p[j] + b * q[j])
        signal[nodes[k]] = (factor * total[0], total[1])
    outputs: list[Signal | None] = []
    for row, point in zip(matrix, points):
        if point is None:
            outputs.append(None)
        else:
            j = pivot_of(point)
            factor = row[j] / point[j]
            outputs.append((factor * signal[point][0], signal[point][1]))
    return build.network(outputs)


def _line(point: Point, nodes: Sequence[Point]) -> tuple[Point, Point, list[int]]:
    pivot = pivot_of(point)
    images = [modulo(node, pivot, point) for node in nodes]
    i, j = equal_pairs(images)[0]
    constants = constants_of(point, [nodes[i], nodes[j]])
    assert constants is not None  # two different points, and one between them
    return nodes[i], nodes[j], constants
