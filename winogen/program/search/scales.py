"""Which multiple of its form every node of a network computes.

A gate ``a x + b y`` is one instruction if one of its constants is ±1 once values are scaled. Each
gate therefore wishes its own scale to fit one operand's, each output wishes the scale demanded by
its matrix, and inputs are given. Wishes are granted one after another, as in Kruskal's algorithm:
groups of nodes whose scales are tied to one another merge as long as nothing contradicts. A gate
left out costs one multiplication, which others may share.

Scales are positive here, signs are chosen later. Whether they fit is judged by their logarithms in
floating point, where different scales differ by far more than rounding; the scales are exact.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from winogen.program.analysis import is_exact
from winogen.program.ir import magnitude
from winogen.program.search.geometry import (
    Lines,
    Point,
    between,
    is_rational,
    modulo,
    modulo_any,
    pivot_of,
    point_of,
)
from winogen.program.search.network import ONE, GateNetwork, Signal

if TYPE_CHECKING:
    from winogen.algebra.scalar import Scalar
    from winogen.program.search.network import Gate

Choice: TypeAlias = "tuple[Scalar, int, Scalar, int]"  # a, x, b, y: a * value x + b * value y
Move: TypeAlias = "tuple[int, float, Scalar, int]"  # node, log, factor, source

CLOSE = 1e-9
_CHOICES = 8  # ways to make a node that are considered


class Edge(NamedTuple):
    """The wish ``scale of node * constant = scale of other``."""

    node: int
    constant: Scalar
    log: float
    other: int


class ScaleProblem:
    """What there is to choose for one network, prepared once for many attempts.

    ``choices``: per gate all pairs of earlier nodes that give it, [(a, x, b, y), ...]: three nodes
    on a line define each other, and the scales of other neighbours may suit better. ``wishes``:
    lists of edges; one edge of each should hold; gates first, then outputs. ``gaps``: their (node,
    log, other), for the inner loops. ``concerned``: per node the wishes that mention it. ``moves``:
    per wish what would grant it, [(node, log, factor, source)]: scale of node = factor * scale of
    source, where ``log`` is the factor's. The number one is the node after the last; what is tied
    to it is fixed.
    """

    def __init__(self, network: GateNetwork, free_outputs: bool, free_inputs: bool) -> None:
        self.network, self.width = network, network.width
        self.free_outputs, self.free_inputs = free_outputs, free_inputs
        self.count = network.width + len(network.gates)
        self.one = self.count
        self.choices = _choices(network.width, network.gates)
        self.wishes: list[list[Edge]] = []
        for k, choices in enumerate(self.choices):
            edges = []
            for a, x, b, y in choices:
                edges += [self._edge(self.width + k, a, x), self._edge(self.width + k, b, y)]
            self.wishes.append(edges)
        if not free_outputs:
            for out in network.outputs:
                if out is not None:
                    self.wishes.append([self._edge(self.one, out[0], out[1])])
        self.gaps = [[(e.node, e.log, e.other) for e in edges] for edges in self.wishes]
        self.concerned: list[list[int]] = [[] for _ in range(self.count + 1)]
        for wish, edges in enumerate(self.wishes):
            for node in {edge.node for edge in edges} | {edge.other for edge in edges}:
                self.concerned[node].append(wish)
        self.fixed = {self.one} if free_inputs else {self.one, *range(self.width)}
        self.moves = [self._moves(edges) for edges in self.wishes]

    def _moves(self, edges: Sequence[Edge]) -> list[Move]:
        moves: dict[tuple[int, int], Move] = {}
        for node, constant, log, other in edges:
            if node not in self.fixed:
                moves[node, other] = (node, -log, 1 / constant, other)
            if other not in self.fixed:
                moves[other, node] = (other, log, constant, node)
        return list(moves.values())

    @staticmethod
    def _edge(node: int, constant: Scalar, other: int) -> Edge:
        return Edge(node, magnitude(constant), math.log(abs(float(constant))), other)


@lru_cache(maxsize=256)
def _choices(width: int, gates: tuple[Gate, ...]) -> list[list[Choice]]:
    forms = GateNetwork(width, gates, ()).forms()
    points = [cast(Point, point_of(form)) for form in forms]  # none is zero
    all_rational = all(map(is_rational, points))
    through = modulo if all_rational else modulo_any
    lines = Lines(points) if all_rational else None
    result = []
    for index, gate in enumerate(gates):
        node = width + index
        pivot = pivot_of(points[node])
        places: dict[Point, list[int]] = {}
        for k in range(node) if lines is None else lines.shared(node):
            image = through(points[k], pivot, points[node])
            if image is not None:
                places.setdefault(image, []).append(k)
        choices: list[Choice] = [(gate.a, gate.x, gate.b, gate.y)]
        pairs = (pair for group in places.values() for pair in combinations(group, 2))
        for x, y in pairs:
            if len(choices) == _CHOICES:
                break
            if {x, y} != {gate.x, gate.y}:
                constants = between(forms[node], forms[x], forms[y])
                if constants is not None:
                    choices.append((constants[0], x, constants[1], y))
        result.append(choices)
    return result


def tie(problem: ScaleProblem, rng: random.Random, order: str | None = None) -> list[Scalar]:
    """Exact scales of all nodes, found by granting wishes one after another.

    ``order``: "forward" from the inputs, "backward" from the outputs, None for a random one.
    """
    groups = _Groups(problem.count + 1)
    for node in problem.fixed:
        if node != problem.one:
            groups.tie(Edge(problem.one, ONE, 0.0, node))
    wishes = list(problem.wishes)
    if order == "backward":
        wishes.reverse()
    elif order is None:
        rng.shuffle(wishes)
    for edges in wishes:
        if any(groups.holds(edge) for edge in edges):
            continue
        open_edges = [edge for edge in edges if groups.is_open(edge)]
        if open_edges:
            if order is None:
                rng.shuffle(open_edges)
            # A constant of one ties without leaving an odd scale to the others.
            groups.tie(min(open_edges, key=lambda edge: edge.log != 0.0))
    # What is still loose can make second constants vanish.
    for edges in rng.sample(problem.wishes, len(problem.wishes)):
        for edge in edges[:2]:
            if groups.is_open(edge):
                groups.tie(edge)
    for node in range(problem.count):
        edge = Edge(problem.one, ONE, 0.0, node)
        if groups.is_open(edge):
            groups.tie(edge)
    return groups.scales(problem.one)


class _Groups:
    """Nodes whose scales are tied: ``log of a node = shift + log of its root``."""

    def __init__(self, count: int) -> None:
        self.root = list(range(count))
        self.shift = [0.0] * count
        self.members = [[node] for node in range(count)]
        self.ties: list[list[tuple[int, Scalar, bool]]] = [[] for _ in range(count)]

    def is_open(self, edge: Edge) -> bool:
        return self.root[edge.node] != self.root[edge.other]

    def holds(self, edge: Edge) -> bool:
        return (
            self.root[edge.node] == self.root[edge.other]
            and abs(self.shift[edge.node] + edge.log - self.shift[edge.other]) < CLOSE
        )

    def tie(self, edge: Edge) -> None:
        p, q, gap = edge.node, edge.other, edge.log
        if len(self.members[self.root[p]]) > len(self.members[self.root[q]]):
            p, q, gap = q, p, -gap
        # log of q = gap + log of p; the group of p moves into the group of q.
        old, new = self.root[p], self.root[q]
        change = self.shift[q] - gap - self.shift[p]
        for node in self.members[old]:
            self.root[node] = new
            self.shift[node] += change
        self.members[new] += self.members[old]
        self.members[old] = []
        self.ties[edge.node].append((edge.other, edge.constant, True))
        self.ties[edge.other].append((edge.node, edge.constant, False))

    def scales(self, one: int) -> list[Scalar]:
        """Exact scales of all nodes but the last, following the ties from the number one."""
        scale: dict[int, Scalar] = {one: ONE}
        pending = [one]
        while pending:
            node = pending.pop()
            for other, constant, times in self.ties[node]:
                if other not in scale:
                    value = scale[node]
                    if constant != 1:
                        value = value * constant if times else value / constant
                    scale[other] = value
                    pending.append(other)
        return [scale[node] for node in range(one)]


class Assignment:
    """What a network costs with given scales, and the choices behind this cost.

    ``chosen``: gate -> (p, x, q, y), ``value = p * value x + q * value y``, None for a gate that
    nobody needs any more. ``multiples``: output -> its product. ``products``: ``(constant, node)``
    in order. ``cost``: (statements, constants that are rounded, constants, their size).
    """

    def __init__(self, problem: ScaleProblem, scales: tuple[Scalar, ...]) -> None:
        self.problem, self.scales = problem, scales
        network, width = problem.network, problem.width
        logs = [math.log(float(scale)) for scale in scales]
        self.chosen: list[Choice | None] = []
        depth = [0] * width
        for k, choices in enumerate(problem.choices):
            edges = problem.gaps[k]
            log = logs[width + k]
            best: tuple[int, int, float] = (3, 0, 0.0)  # constants, depth, how far they are from 1
            a, x, b, y = choices[0]
            for c, choice in enumerate(choices):
                _, first_log, first = edges[2 * c]
                _, second_log, second = edges[2 * c + 1]
                gap, other = (
                    abs(log + first_log - logs[first]),
                    abs(log + second_log - logs[second]),
                )
                level = 1 + max(depth[first], depth[second])
                key: tuple[int, int, float]
                if gap < CLOSE:
                    key = (0, level, 0) if other < CLOSE else (1, level, other)
                else:
                    key = (1, level, gap) if other < CLOSE else (2, level, gap + other)
                if key < best:
                    best = key
                    a, x, b, y = choice
            depth.append(best[1])
            of_gate = scales[width + k]
            self.chosen.append((_ratio(of_gate, a, scales[x]), x, _ratio(of_gate, b, scales[y]), y))
        self._drop_unneeded()
        self.multiples: dict[int, Signal] = {}
        self.products: dict[Signal, None] = {}
        if not problem.free_outputs:
            for i, out in enumerate(network.outputs):
                if out is not None and magnitude(out[0]) != scales[out[1]]:
                    product = (magnitude(out[0]) / scales[out[1]], out[1])
                    self.multiples[i] = product
                    self.products[product] = None
        self._share_products()
        gates = [option for option in self.chosen if option is not None]
        constants = [c for p, _, q, _ in gates for c in (magnitude(p), magnitude(q)) if c != 1]
        constants += [c for c, _ in self.products]
        rounded = sum(not is_exact(c) for c in constants)
        statements = len(gates) + len(self.products)
        self.cost = (statements, rounded, len(constants), size(constants))

    def _drop_unneeded(self) -> None:
        width = self.problem.width
        needed = {out[1] for out in self.problem.network.outputs if out is not None}
        for k in reversed(range(len(self.chosen))):
            option = self.chosen[k]
            if option is not None and width + k in needed:
                needed.update((option[1], option[3]))
            else:
                self.chosen[k] = None

    def _share_products(self) -> None:
        """Products for the gates with two constants; what most gates want comes first."""
        waiting = []
        for option in self.chosen:
            if option is not None and abs(option[0]) != 1 != abs(option[2]):
                p, x, q, y = option
                pair = ((magnitude(p), x), (magnitude(q), y))
                if not any(product in self.products for product in pair):
                    waiting.append(pair)
        # Products as numbers in the order of their occurrence, so that little is hashed.
        number: dict[Signal, int] = {}
        merits: list[tuple[float, int]] = []
        for product in (product for pair in waiting for product in pair):
            if product not in number:
                number[product] = len(merits)
                merits.append((-size([product[0]]), -product[1]))
        pairs = [(number[first], number[second]) for first, second in waiting]
        products = list(number)
        while pairs:
            votes = Counter(index for numbered in pairs for index in numbered)
            most = max(votes, key=lambda p: (votes[p], *merits[p]))
            self.products[products[most]] = None
            pairs = [numbered for numbered in pairs if most not in numbered]


def _ratio(own: Scalar, constant: Scalar, below: Scalar) -> Scalar:
    """own * constant / below, which mostly is 1 or -1: fractions are reduced once or never."""
    if isinstance(own, Fraction) and isinstance(constant, Fraction) and isinstance(below, Fraction):
        top = own.numerator * constant.numerator * below.denominator
        bottom = own.denominator * constant.denominator * below.numerator
        if top == bottom:
            return ONE
        return -ONE if top == -bottom else Fraction(top, bottom)
    return own * constant / below


def size(constants: Iterable[Scalar]) -> float:
    """How long constants are to write: 0 for 1, small for 2 or 1/2.

    Powers of two count half, because multiplying by them is exact.
    """
    total = 0.0
    for constant in constants:
        if not isinstance(constant, Fraction):  # irrational
            total += 8
            continue
        top, bottom = constant.numerator, constant.denominator
        bits = math.log2(abs(top)) + math.log2(bottom)
        total += bits / 2 if abs(top) & (abs(top) - 1) == 0 == bottom & (bottom - 1) else bits
    return total
