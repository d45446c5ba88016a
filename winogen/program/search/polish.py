"""The last step of a search: kinder constants, at equal length.

A constant that floating point holds exactly is not rounded, and a small one is short to read.
Scales and the order of sums are free to choose among equally short programs, so they are changed
one at a time while constants get better:

    v0 = d0 + 5/4 (1/5 d4 - d2)      ->      v0 = d0 + 1/4 d4 - 5/4 d2
    t0 = 4/17 (d2 + d6) - d4                 t0 = d2 + d6 - 17/4 d4
    v1 = 17/4 t0 - t1                        v1 = t0 - t1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from winogen.program.analysis import is_exact
from winogen.program.search.candidate import OBJECTIVES, PricedProgram
from winogen.program.search.lower import Lowered, assignments, emit
from winogen.program.search.network import ONE, Gate
from winogen.program.search.repair import Repair
from winogen.program.search.scales import CLOSE, Assignment, size

if TYPE_CHECKING:
    from winogen.algebra.scalar import Scalar
    from winogen.program.search.lower import Names
    from winogen.program.search.network import GateNetwork, Signal
    from winogen.program.search.scales import ScaleProblem

_VARIANTS = 100  # orders of sums looked at
_TRIES, _STARTS = 16, 4  # scales looked for, so many already settled
_LONG = 40  # gates; the sums of longer programs keep their order
_GROWN = 1.03  # rounding errors may grow by so much
_EQUAL = 6  # programs returned


def polished(ranking: Sequence[PricedProgram], names: Names, objective: str) -> list[PricedProgram]:
    """Candidates that compute the same, no longer and hardly less accurate, best first.

    ``ranking``: candidates of one matrix, best first; scales that were free are kept. All that are
    returned round equally few constants; the first ones have the shortest critical path (one step
    more than before at most), then the shortest constants.
    """
    cost = OBJECTIVES[objective]
    limit, deepest = ranking[0].growth * _GROWN, ranking[0].depth + 1

    def key(c: PricedProgram) -> tuple[float, ...]:
        worse = c.growth > limit or c.depth > deepest
        return worse, cost(c)[0], c.constants[0], c.depth, c.constants[1]

    def of(network: GateNetwork, tries: int, starts: int) -> list[PricedProgram]:
        cheapest = assignments(network, tries=tries)[:starts]
        return [PricedProgram(network, emit(settled(item), names)) for item in cheapest]

    equal = [c for c in ranking if cost(c)[0] == cost(ranking[0])[0] and c.growth <= limit]
    start = [_fixed(candidate) for candidate in equal[:_STARTS]]
    networks = dict.fromkeys(candidate.network for candidate in start)
    variants = start + [c for network in networks for c in of(network, _TRIES, _STARTS)]
    best, seen = min(variants, key=key), set(networks)
    improved = len(best.network.gates) <= _LONG
    while improved:
        improved = False
        for variant in regrouped(best.network):
            if variant in seen or len(seen) > _VARIANTS:
                continue
            seen.add(variant)
            variants += of(variant, 2, 1)
            if key(variants[-1]) < key(best):
                best, improved = variants[-1], True
                break
    return sorted((c for c in variants if key(c)[:3] == key(best)[:3]), key=key)[:_EQUAL]


def _fixed(candidate: PricedProgram) -> PricedProgram:
    """The same program, as one of a network that leaves no scales free."""
    rows, columns = candidate.lowered.output_scales, candidate.lowered.input_scales
    network = candidate.network.scaled(rows, [1 / scale for scale in columns])
    ones = (ONE,) * len(rows), (ONE,) * len(columns)
    return PricedProgram(network, Lowered(candidate.program, *ones))


def settled(assignment: Assignment) -> Assignment:
    """Scales moved, one at a time, while that makes the constants of an assignment better."""
    problem = assignment.problem
    repair = Repair(problem, assignment.scales)
    improved = True
    while improved:
        improved = False
        for node in range(problem.count):
            if node in problem.fixed:
                continue
            for log, factor, source in _moves(problem, repair, node):
                scale = factor * repair.scales[source]
                scales = (*repair.scales[:node], scale, *repair.scales[node + 1 : -1])
                if not _promising(assignment, node, scales):
                    continue
                other = Assignment(problem, scales)
                if other.cost < assignment.cost:
                    assignment, improved = other, True
                    repair.move(node, log, scale)
                    break
    return assignment


def _moves(problem: ScaleProblem, repair: Repair, node: int) -> list[tuple[float, Scalar, int]]:
    """Other scales of a node that break no more wishes: (logarithm, factor, source)."""
    moves: dict[float, tuple[float, Scalar, int]] = {}
    for wish in problem.concerned[node]:
        for moved, log, factor, source in repair.moves(wish):
            if moved == node and abs(log - repair.logs[node]) > CLOSE:
                moves.setdefault(round(log, 6), (log, factor, source))
    return [move for _, move in sorted(moves.items()) if repair.change(node, move[0]) <= 0]


def _promising(assignment: Assignment, node: int, scales: Sequence[Scalar]) -> bool:
    """Whether the constants next to a node get better, as far as gates read what they do now."""
    width = assignment.problem.width
    before: list[Scalar] = []
    after: list[Scalar] = []
    for k, option in enumerate(assignment.chosen):
        if option is not None and node in (option[1], option[3], width + k):
            p, x, q, y = option
            before += [p, q]
            for constant, read in ((p, x), (q, y)):
                change = scales[width + k] / assignment.scales[width + k]
                after.append(constant * change * assignment.scales[read] / scales[read])
    for out in assignment.problem.network.outputs:
        if out is not None and out[1] == node:
            before.append(out[0] / assignment.scales[node])
            after.append(out[0] / scales[node])
    return _roughness(after) < _roughness(before)


def _roughness(constants: Sequence[Scalar]) -> tuple[int, float]:
    return sum(not is_exact(c) for c in constants), size(constants)


def regrouped(network: GateNetwork) -> Iterator[GateNetwork]:
    """Networks with one sum of three terms in another order: x + (u + w) as (x + u) + w.

    That costs nothing where nobody else reads the sum (u + w).
    """
    width = network.width
    read = [node for gate in network.gates for node in (gate.x, gate.y)]
    read += [out[1] for out in network.outputs if out is not None]
    for k, gate in enumerate(network.gates):
        left, right = (gate.a, gate.x), (gate.b, gate.y)
        for near, (b, y) in ((left, right), (right, left)):
            if y >= width and read.count(y) == 1:
                c, u, d, w = network.gates[y - width]
                yield _moved(network, k, y, (*near, b * c, u), (b * d, w)).compact()
                yield _moved(network, k, y, (*near, b * d, w), (b * c, u)).compact()


def _moved(
    network: GateNetwork, k: int, node: int, first: tuple[Scalar, int, Scalar, int], last: Signal
) -> GateNetwork:
    """Gate ``k`` as ``first`` plus ``last``; the ``node`` that it read so far becomes ``first``."""
    width = network.width
    # The node moves to just before gate k, those in between one place to the front.
    place = {old: old - (node < old < width + k) for old in range(width + len(network.gates))}
    place[node] = width + k - 1
    a, x, b, y = first
    gates = [
        Gate(g.a, place[g.x], g.b, place[g.y])
        for old, g in enumerate(network.gates, width)
        if old not in (node, width + k)
    ]
    new = [Gate(a, place[x], b, place[y]), Gate(ONE, place[node], last[0], place[last[1]])]
    gates[k - 1 : k - 1] = new
    outputs = [None if out is None else (out[0], place[out[1]]) for out in network.outputs]
    return network._replace(gates=tuple(gates), outputs=tuple(outputs))
