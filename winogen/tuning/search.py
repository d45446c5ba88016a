"""From the planner's choice to what is fastest here: all algorithms, then step by step beside it.

Coordinate descent: along one coordinate after the other the neighbours of the best are measured in
turns with it, until no coordinate has a better one. Whatever seems to win must win twice against
the planner's choice before it is believed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from winogen.conv.choice import Choice
from winogen.conv.cuts import Candidate
from winogen.tuning import space
from winogen.tuning.arena import Arena, Contestant

# What is kept is faster than the planner's choice by this part at least, in two duels.
GAIN = 0.03
_DUELS, _DUEL_ROUNDS = 2, 9
# A neighbour replaces the best if it is faster by this part; heats are as in `regret`.
_BETTER = 0.015
_HEATS = ((2, 1.12), (6, 1.0))
_BATCH = 4  # candidates compiled at a time, so that the search can be left in between
_PASSES = 3


@dataclass(frozen=True)
class Victory:
    """A choice that won both duels with the planner's, and the seconds of both."""

    choice: Choice
    seconds: float
    planner_seconds: float


class LayerSearch:
    """The search for one layer, in pieces of some seconds: ``for _ in search.pieces(): ...``.

    ``won``: called with every victory, each better than the one before. ``known``: choices to try
    first, from an earlier search.
    """

    def __init__(
        self,
        arena: Arena,
        won: Callable[[Victory], None] = lambda victory: None,
        known: tuple[Choice, ...] = (),
        say: Callable[[str], None] = lambda text: None,
    ):
        self.arena, self.scope = arena, arena.scope
        self.victory: Victory | None = None
        self.measured = 0  # candidates
        self.finished = False
        self._won, self._known, self._say = won, known, say
        self._tried: set[Choice] = set()

    def pieces(self) -> Iterator[str]:
        """Search on with every step; yields what was done."""
        self._say("predicting")
        first, *others = self.scope.starting()
        choices = list(self.scope.promising(self._known, math.inf))
        contestants = self.arena.admitted([first])
        if not contestants:  # the planner's choice does not compile: nothing to compare with
            self.finished = True
            return
        self._tried.add(first.choice)
        self._planned = self._best = contestants[0]
        yield from self._try([*choices, *others], "algorithm")
        for _ in range(_PASSES):
            before = self._best
            for coordinate in space.COORDINATES:
                start = self._best
                yield from self._try(self.scope.neighbours(start.candidate, coordinate), coordinate)
                if self._best is not start:
                    self._duel()
                    yield "duel"
            if self._best is before:
                break
        self._duel()
        self.finished = True

    def _try(self, candidates: list[Candidate], what: str) -> Iterator[str]:
        """Measure candidates beside the best, some at a time; the best may become another."""
        new = [one for one in candidates if one.choice not in self._tried]
        start = self._best
        for first in range(0, len(new), _BATCH):
            batch = new[first : first + _BATCH]
            self._tried.update(one.choice for one in batch)
            self._say(f"{what}: compiling")
            contestants = self.arena.admitted(batch)
            self._say(f"{what}: measuring")
            self._heats(contestants)
            self.measured += len(contestants)
            yield what
        if what == "algorithm" and self._best is not start:
            self._duel()
            yield "duel"

    def _heats(self, left: list[Contestant]) -> None:
        """All take turns with the best, then all that come close; the winner is the best."""
        best, price = self._best, self.scope.price
        of_best = price(best.candidate.choice)
        for rounds, close in _HEATS:
            if not left:
                return
            _, ratios = self.arena.ratios([best, *left], rounds)
            rated = sorted(
                (ratio * price(one.candidate.choice) / of_best, index)
                for index, (one, ratio) in enumerate(zip(left, ratios[1:]))
            )
            left = [left[index] for rating, index in rated if rating <= close]
            fastest = rated[0][0]
        if left and fastest < 1 - _BETTER:
            self._best = left[0]

    def _duel(self) -> None:
        """The best against the planner's choice: a victory only if it wins every time."""
        if self._best is self._planned:
            return
        if self.victory and self.victory.choice == self._best.candidate.choice:
            return
        self._say("duel with the planner's choice")
        times = []
        for _ in range(_DUELS):
            seconds, ratios = self.arena.ratios([self._planned, self._best], _DUEL_ROUNDS)
            if ratios[1] >= 1 - GAIN:
                return
            times.append(seconds)
        planned, challenger = (min(both) for both in zip(*times))
        if challenger >= planned * (1 - GAIN):
            return
        if self.victory is None or challenger / planned < self._ratio(self.victory):
            self.victory = Victory(self._best.candidate.choice, challenger, planned)
            self._won(self.victory)

    @staticmethod
    def _ratio(victory: Victory) -> float:
        return victory.seconds / victory.planner_seconds
