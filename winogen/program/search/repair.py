"""Local search on scales: move one scale at a time until more gates fit.

The search of WalkSAT (Selman, Kautz, Cohen 1994): take an unfulfilled wish and fulfil it by moving
the scale of one of its nodes, preferring the move that breaks fewest others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from winogen.program.search.network import ONE
from winogen.program.search.scales import CLOSE

if TYPE_CHECKING:
    import random

    from winogen.algebra.scalar import Scalar
    from winogen.program.search.scales import Move, ScaleProblem

_STEPS = 60
_TABU = 4  # a scale that was moved rests for so many steps


def repair(problem: ScaleProblem, scales: Sequence[Scalar], rng: random.Random) -> Sequence[Scalar]:
    """Scales that grant at least as many wishes of a ScaleProblem as ``scales`` do."""
    search = Repair(problem, scales)
    best, fewest = scales, len(search.broken)
    resting: dict[int, int] = {}
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


class Repair:
    """Scales in motion, and the wishes that they leave broken."""

    def __init__(self, problem: ScaleProblem, scales: Sequence[Scalar]) -> None:
        self.problem = problem
        self.scales: list[Scalar] = [*scales, ONE]
        self.logs = [*(math.log(float(scale)) for scale in scales), 0.0]
        self.broken = {w for w in range(len(problem.wishes)) if not self._holds(w)}

    def _holds(self, wish: int) -> bool:
        logs = self.logs
        for node, log, other in self.problem.gaps[wish]:
            if -CLOSE < logs[node] + log - logs[other] < CLOSE:
                return True
        return False

    def moves(self, wish: int) -> list[Move]:
        """(node, new logarithm, factor, source): scale of node = factor * scale of source."""
        logs = self.logs
        return [(p, logs[q] + log, factor, q) for p, log, factor, q in self.problem.moves[wish]]

    def change(self, node: int, log: float) -> int:
        """By how many more wishes would be broken after a move."""
        # ``_holds`` is written out: most of the time of a repair is spent here.
        logs, broken, gaps, more = self.logs, self.broken, self.problem.gaps, 0
        old, logs[node] = logs[node], log
        for wish in self.problem.concerned[node]:
            if wish not in broken:
                more += 1
            for p, gap, q in gaps[wish]:
                if -CLOSE < logs[p] + gap - logs[q] < CLOSE:
                    more -= 1
                    break
        logs[node] = old
        return more

    def move(self, node: int, log: float, scale: Scalar) -> None:
        """Give ``node`` another scale."""
        self.scales[node], self.logs[node] = scale, log
        for wish in self.problem.concerned[node]:
            if self._holds(wish):
                self.broken.discard(wish)
            else:
                self.broken.add(wish)
