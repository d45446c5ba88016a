"""A call of winogen's beside one of a framework's, and the rule of which of the two is kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from winogen.tasks.turns import Call, in_turns
from winogen.testing import is_every_layer

# A framework must be faster by these seconds and this factor: its layer would cut a segment in two,
# and measurements differ by some percent.
_OVERHEAD, _MARGIN = 10e-6, 1.05
# Seconds for measuring, about, and how often at least and at most. A layer that would go to the
# framework is measured for longer: on a busy machine the least time comes late.
LAYER = (0.03, 0.3)
_ROUNDS = (3, 10_000)


class Times(NamedTuple):
    """The least seconds of both."""

    ours: float
    theirs: float

    @property
    def gain(self) -> float:
        """How many times as fast winogen is."""
        return self.theirs / self.ours

    @property
    def is_lost(self) -> bool:
        """Whether the framework's call should be kept."""
        return not is_every_layer() and _MARGIN * self.theirs + _OVERHEAD < self.ours

    @property
    def is_slower(self) -> bool:
        """Whether winogen's is not faster at all, as a whole net has to be."""
        return not is_every_layer() and self.ours >= self.theirs

    def __str__(self) -> str:
        return f"{1e3 * self.theirs:.3g} ms, winogen {1e3 * self.ours:.3g} ms"


def duel(
    ours: Call,
    theirs: Call,
    clock: Callable[[], float] = time.perf_counter,
    seconds: Sequence[float] = LAYER,
    each: tuple[int, int] = (1, 1),
    turn: float = 0.0,
    lost: Callable[[Times], bool] = lambda times: times.is_lost,
) -> Times:
    """Return the times of two calls that take turns, the first round of them not counted.

    ``seconds``: for how long; each further number only where winogen has ``lost`` so far. ``each``
    and ``turn``: how often a call is repeated in its turn, as `in_turns` has it.
    """
    for call in (ours, theirs):
        call()
    times = Times(float("inf"), float("inf"))
    for budget in (0.0,) if is_every_layer() else seconds:
        taken = in_turns((ours, theirs), clock, _ROUNDS, budget, each, turn)
        times = Times(min(times.ours, *taken[0]), min(times.theirs, *taken[1]))
        if not lost(times):
            break
    return times
