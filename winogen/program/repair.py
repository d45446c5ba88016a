"""Local search on scales: move one scale at a time until more gates fit.

The search of WalkSAT (Selman, Kautz, Cohen 1994): take a gate that does not fit, move the scale of
one of its three nodes so that it does, preferring the move that breaks fewest others.
"""

import math

_CLOSE = 1e-9  # logarithms of different scales differ by far more
_STEPS = 60
_TABU = 4  # a scale that was moved rests for so many steps


def repair(problem, scales, rng):
    """Better scales than ``scales`` for a :class:`winogen.program.scales.Scales`, or the same.

    What fits is judged by logarithms in floating point; the scales themselves are exact.
    """
    search = _Repair(problem, scales)
    if not search.misfits:
        return scales
    best, fewest = search.scales, len(search.misfits)
    resting = {}
    for step in range(_STEPS):
        wish = rng.choice(sorted(search.misfits))
        moves = [m for m in search.moves(wish) if resting.get(m[0], -1) < step]
        if not moves:
            continue
        rng.shuffle(moves)
        node, scale = min(moves, key=lambda move: search.change(*move))
        search.move(node, scale)
        resting[node] = step + _TABU
        if len(search.misfits) < fewest:
            best, fewest = list(search.scales), len(search.misfits)
            if fewest == 0:
                break
    return best


class _Repair:
    """Scales with their logarithms, and the wishes (gates, then outputs) that do not fit them."""

    def __init__(self, problem, scales):
        network = problem.network
        self.problem, self.width = problem, network.width
        self.scales = list(scales)
        self.logs = [math.log(float(scale)) for scale in scales]
        self.fixed = set() if problem.free_inputs else set(range(network.width))
        self.wishes = []  # per wish: (gate's node or None, [(log a, x), ...] or [(log c, node)])
        self.concerned = [[] for _ in scales]  # node -> wishes
        for k, choices in enumerate(problem.choices):
            edges = [(abs(a), x) for a, x, _, _ in choices] + [(abs(b), y) for _, _, b, y in choices]
            self._wish(self.width + k, edges)
        if not problem.free_outputs:
            for out in network.outputs:
                if out is not None:
                    self._wish(None, [(abs(out[0]), out[1])])
        self.misfits = {w for w in range(len(self.wishes)) if not self._fits(w)}

    def _wish(self, node, edges):
        number = len(self.wishes)
        edges = [(constant, math.log(float(constant)), x) for constant, x in edges]
        self.wishes.append((node, edges))
        for concerned in {node, *(x for _, _, x in edges)} - {None}:
            self.concerned[concerned].append(number)

    def _fits(self, wish):
        node, edges = self.wishes[wish]
        logs = self.logs
        if node is None:
            return abs(edges[0][1] - logs[edges[0][2]]) < _CLOSE
        own = logs[node]
        return any(abs(own + log - logs[x]) < _CLOSE for _, log, x in edges)

    def moves(self, wish):
        """(node, scale): ways to make the wish fit by moving one scale."""
        node, edges = self.wishes[wish]
        if node is None:
            found = [(edges[0][2], edges[0][0])]
        else:
            found = [(node, self.scales[x] / constant) for constant, _, x in edges]
            found += [(x, self.scales[node] * constant) for constant, _, x in edges]
        return [move for move in dict.fromkeys(found) if move[0] not in self.fixed]

    def change(self, node, scale):
        """By how many more wishes would not fit after a move."""
        concerned = self.concerned[node]
        before = sum(wish in self.misfits for wish in concerned)
        old, self.logs[node] = self.logs[node], math.log(float(scale))
        after = sum(not self._fits(wish) for wish in concerned)
        self.logs[node] = old
        return after - before

    def move(self, node, scale):
        """Make a move."""
        self.scales[node], self.logs[node] = scale, math.log(float(scale))
        for wish in self.concerned[node]:
            (self.misfits.discard if self._fits(wish) else self.misfits.add)(wish)
