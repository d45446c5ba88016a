"""Local search on scales: move one scale at a time until more gates fit.

The search of WalkSAT (Selman, Kautz, Cohen 1994): take a wish that does not hold, move the scale of
one of its nodes so that it does, preferring the move that breaks fewest others.
"""

import math

from winogen.program.scales import CLOSE

_STEPS = 60
_TABU = 4  # a scale that was moved rests for so many steps


def repair(problem, scales, rng) -> list:
    """Scales that grant at least as many wishes of a ScaleProblem as ``scales`` do."""
    search = _Repair(problem, scales)
    best, fewest = scales, len(search.broken)
    resting = {}
    for step in range(_STEPS):
        if not search.broken:
            break
        wish = rng.choice(sorted(search.broken))
        moves = [m for m in search.moves(wish) if resting.get(m[0], -1) < step]
        if not moves:
            continue
        rng.shuffle(moves)
        node, log, factor, source = min(moves, key=lambda move: search.change(move[0], move[1]))
        search.move(node, log, factor * search.scales[source])
        resting[node] = step + _TABU
        if len(search.broken) < fewest:
            best, fewest = search.scales[:-1], len(search.broken)
    return best


class _Repair:
    def __init__(self, problem, scales):
        self.problem = problem
        self.scales = [*scales, 1]
        self.logs = [*(math.log(float(scale)) for scale in scales), 0.0]
        self.broken = {w for w in range(len(problem.wishes)) if not self._holds(w)}

    def _holds(self, wish):
        logs = self.logs
        for node, _, log, other in self.problem.wishes[wish]:
            if abs(logs[node] + log - logs[other]) < CLOSE:
                return True
        return False

    def moves(self, wish):
        """(node, new logarithm, factor, source): scale of node = factor * scale of source."""
        found = {}
        for node, constant, log, other in self.problem.wishes[wish]:
            if node not in self.problem.fixed:
                found[node, other] = (node, self.logs[other] - log, 1 / constant, other)
            if other not in self.problem.fixed:
                found[other, node] = (other, self.logs[node] + log, constant, node)
        return list(found.values())

    def change(self, node, log):
        """By how many more wishes would be broken after a move."""
        concerned = self.problem.concerned[node]
        before = sum([wish in self.broken for wish in concerned])
        old, self.logs[node] = self.logs[node], log
        after = sum([not self._holds(wish) for wish in concerned])
        self.logs[node] = old
        return after - before

    def move(self, node, log, scale):
        self.scales[node], self.logs[node] = scale, log
        for wish in self.problem.concerned[node]:
            if self._holds(wish):
                self.broken.discard(wish)
            else:
                self.broken.add(wish)
