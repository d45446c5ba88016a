"""A cancellation-aware search for few gates, in the geometry of points and lines.

Up to scale, rows are points of a projective space, and a gate may draw any point on the line
through two points that are there. The search keeps, for every target that is missing, its
shortest combinations of present points ("target = 2 p - 5 q + r"), and draws the point (2 p - 5 q,
or 2 p + r, ...) that shortens most targets at once. A combination may use any point, so finished
targets and cancelling differences take part; this finds what eliminating common terms cannot:

    u1 = g0 + g1 + g2     t  = g1 + g2            5 gates for the filter transform of F(4,3),
    u2 = g0 - g1 + g2     u1 = g0 + t             points {0, ±1, ±2}, where pairing ±1 and ±2
    u3 = g0 + 2 g1 + 4 g2 u2 = u1 - 2 g1          takes 6
    u4 = g0 - 2 g1 + 4 g2 u3 = u2 + 3 t
                          u4 = u3 - 4 g1

Rational entries only; all arithmetic is on integers and exact. The method is that of Boyar and
Peralta for XOR circuits (J. Cryptology 2013), carried over from GF(2) to points with any constants.
"""

import random
from collections import Counter
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import log

from winogen.program.search.geometry import (
    constants_of,
    equal_pairs,
    is_rational,
    modulo,
    pivot_of,
    point_of,
    primitive,
)
from winogen.program.search.network import Builder

MAX_WEIGHT = 4  # alternative combinations of more points are not looked for
_CAP = 96  # combinations remembered per target
_SLACK = 1  # gates more than the fewest so far that a run may need: others may round less
_HEAT = (0, 0, 0, 0.5)


def incidence(matrix, tries=24, seed=0):
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
    basis = [tuple(int(k == j) for k in range(width)) for j in range(width)]
    targets = [p for p in dict.fromkeys(points) if p is not None and p not in basis]
    limit = sum(sum(c != 0 for c in p) - 1 for p in targets)
    found = {}
    for attempt in range(tries):
        # Most runs take the best point there is, at random where several are best.
        heat = _HEAT[attempt % len(_HEAT)]
        nodes = _run(basis, targets, limit, random.Random(f"{seed}/{attempt}"), heat)
        if nodes is not None:
            limit = min(limit, len(nodes) - width + _SLACK)
            found.setdefault(tuple(nodes), None)
    networks = [network_of(nodes, width, matrix, points) for nodes in found]
    return sorted(dict.fromkeys(networks), key=lambda network: len(network.gates))


# ---- the search ----------------------------------------------------------------------------------


class _Target:
    """One missing target and its shortest combinations of the points present."""

    def __init__(self, point, width):
        self.point = point
        self.pivot = pivot_of(point)
        self.images = []  # of every present point, modulo the target
        support = [j for j, c in enumerate(point) if c]
        basis = [tuple(int(k == j) for k in range(width)) for j in support]
        self._start_over([(basis, [point[j] for j in support])])

    def _start_over(self, found):
        """Forget all combinations but those of ``found``: [(points, constants), ...]."""
        self.weight = len(found[0][0])
        self.gains = Counter()  # point that shortens the target -> in how many combinations
        self.count = 0
        self.long = []  # the combinations themselves, while they are too long to be looked for
        self._remember(found[:_CAP])

    def _remember(self, found):
        for points, constants in found:
            self.count += 1
            for drawn in _between(tuple(points), tuple(constants)):
                self.gains[drawn] += 1
            if self.weight > MAX_WEIGHT:
                self.long.append((points, constants))

    def see(self, nodes):
        """Take the last of ``nodes`` into account; True when the target is on a line through it."""
        new = nodes[-1]
        image = modulo(new, self.pivot, self.point)
        if image in self.images:
            return True
        # One more point shortens a combination by one at most, except where longer ones than
        # MAX_WEIGHT were not looked for.
        shorter = range(3, self.weight) if self.weight > MAX_WEIGHT + 1 else [self.weight - 1]
        for weight in shorter:
            found = self._combinations(image, nodes, weight)
            if found:
                self._start_over(found)
                break
        else:
            found = self._substituted(new)
            if found:
                self._start_over(found)
            elif self.weight <= MAX_WEIGHT and self.count < _CAP:
                room = _CAP - self.count
                self._remember(self._combinations(image, nodes, self.weight, room))
        self.images.append(image)
        return False

    def _substituted(self, new):
        """Long combinations with two of their points replaced by the new one between them."""
        found = []
        for points, constants in self.long:
            for i, j in combinations(range(len(points)), 2):
                drawn = _mixed(constants[i], points[i], constants[j], points[j])
                if primitive(drawn) == new:
                    at = pivot_of(new)
                    rest = [k for k in range(len(points)) if k not in (i, j)]
                    constant = drawn[at] // new[at]
                    found.append(
                        (
                            [*(points[k] for k in rest), new],
                            [*(constants[k] for k in rest), constant],
                        )
                    )
        return found

    def _combinations(self, image, nodes, weight, room=_CAP):
        """``room`` combinations of ``weight`` points, the newest among them, that give the target."""
        if not 2 < weight <= MAX_WEIGHT:
            return []
        pivot = pivot_of(image)
        images = [modulo(p, pivot, image) for p in self.images]
        if weight == 3:
            chosen = [(-1, i, j) for i, j in equal_pairs(images)]
        else:
            chosen = []
            for k, p in enumerate(images):
                if p is not None:
                    at = pivot_of(p)
                    rest = [None if q is None else modulo(q, at, p) for q in images[k + 1 :]]
                    chosen += [(-1, k, k + 1 + i, k + 1 + j) for i, j in equal_pairs(rest)]
                    if len(chosen) > _CAP:
                        break
        result = []
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
def _between(points, constants):
    """The points that each replace two of a combination."""
    terms = list(zip(constants, points))
    return [primitive(_mixed(a, p, b, q)) for (a, p), (b, q) in combinations(terms, 2)]


def _mixed(a, p, b, q):
    return [a * c + b * d for c, d in zip(p, q)]


def _run(basis, targets, limit, rng, heat):
    """One run: the points drawn, basis first; None when it will need more than ``limit`` gates."""
    width = len(basis)
    nodes, missing = [], [_Target(point, width) for point in targets]
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


def _choose(missing, nodes, rng, heat):
    shortened, share = Counter(), Counter()
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


def network_of(nodes, width, matrix, points):
    """Gates that draw the points in their order; the first line found through each is taken."""
    build = Builder(width)
    signal = {point: (Fraction(1), j) for j, point in enumerate(nodes[:width])}
    for k in range(width, len(nodes)):
        p, q, constants = _line(nodes[k], nodes[:k])
        a, b = (Fraction(c) for c in constants)
        total = build.add((a * signal[p][0], signal[p][1]), (b * signal[q][0], signal[q][1]))
        # ``constants`` give the target up to scale; the scale is read off one coordinate.
        j = pivot_of(nodes[k])
        factor = Fraction(nodes[k][j]) / (a * p[j] + b * q[j])
        signal[nodes[k]] = (factor * total[0], total[1])
    outputs = []
    for row, point in zip(matrix, points):
        if point is None:
            outputs.append(None)
        else:
            j = pivot_of(point)
            factor = row[j] / point[j]
            outputs.append((factor * signal[point][0], signal[point][1]))
    return build.network(outputs)


def _line(point, nodes):
    pivot = pivot_of(point)
    images = [modulo(node, pivot, point) for node in nodes]
    i, j = equal_pairs(images)[0]
    return nodes[i], nodes[j], constants_of(point, [nodes[i], nodes[j]])
