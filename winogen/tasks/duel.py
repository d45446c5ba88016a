"""A call of winogen's beside one of a framework's, and the rule of which of the two is kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from winogen.tasks.turns import Call, in_turns
from winogen.testing import is_every_layer

# A framework must be faster by these seconds and this factor: its layer would cut a segment in two,
# and measurements differ by some percent.
_OVERHEAD, _MARGIN = 10e-6, 1.05
# Seconds for measuring a layer and a whole net, about, and how often at least and at most. What
# would go to the framework is measured for longer: on a busy machine the least time comes late.
LAYER, WHOLE = (0.03, 0.1), (1.0, 4.0)
_ROUNDS = (3, 10_000)
FEW = (2, 10_000)  # of a whole net, at the first look: its calls are long, and full of layers
# Seconds of two calls of a net whose first ones are not much slower: one more is enough.
_LONG = 1.0
# ... where the first ones tell enough, if they are clear: what a framework does once takes less.
_VERY_LONG = 4.0
# A whole net that is so many times as fast as the framework's, or as slow, is not measured longer.
# Where the framework's takes very long and was measured just before, ours alone tells that it is
# faster by far.
_CLEARLY, _BY_FAR = 1.1, 1.5
# Calls in a turn, as many as its seconds allow, of which the fastest counts: the first one meets
# the rival's data in the caches, and the rival's threads, which still wait for work in a loop.
_EACH, _TURN = (1, 3), 0.01

T = TypeVar("T")


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
    lost: Callable[[Times], bool] = lambda times: times.is_lost,
    rounds: tuple[int, int] = _ROUNDS,
    clear: float = _CLEARLY,
) -> Times:
    """Return the times of two calls that take turns, the first round of them not counted.

    ``seconds``: for how long; each further number only where winogen has ``lost`` so far.
    ``rounds``: how often at least and at most. ``clear``: the gain that a first round of very long
    calls tells, which is all, then.
    """
    ends = [clock()]
    for call in (ours, theirs):
        call()
        ends.append(clock())
    if rounds == FEW and ends[2] - ends[0] > _LONG:
        rounds = (1, rounds[1])
        first = Times(ends[1] - ends[0], ends[2] - ends[1])
        if ends[2] - ends[0] > _VERY_LONG and first.gain >= clear:
            return first
    times = Times(float("inf"), float("inf"))
    for budget in (0.0,) if is_every_layer() else seconds:
        taken = in_turns((ours, theirs), clock, rounds, budget, _EACH, _TURN)
        times = Times(min(times.ours, *taken[0]), min(times.theirs, *taken[1]))
        if not lost(times):
            break
    return times


def duel_of_wholes(
    ours: Call,
    theirs: Call,
    clock: Callable[[], float] = time.perf_counter,
    earlier: float = 1.0,
    known: float = 0.0,
) -> Times:
    """Return the times of two calls of a whole net, as `duel` does; a few where they are clear.

    ``earlier``: the gain of another draft of the net, if it has any. One below that is not taken.
    ``known``: the seconds of the other call, if it was measured just before.
    """
    if 2 * known > _VERY_LONG:
        begin = clock()
        ours()
        once = Times(clock() - begin, known)
        if once.gain >= _BY_FAR:
            return once
    times = duel(ours, theirs, clock, (0.0,), rounds=FEW)
    gain = times.gain
    if gain >= _CLEARLY or _CLEARLY * gain <= 1.0 or gain <= earlier > 1.0:
        return times
    return duel(ours, theirs, clock, WHOLE, lambda times: times.is_slower and earlier <= 1.0)


def settled(
    draft: Callable[[bool], T], has_lost: Callable[[T], bool], gain: Callable[[T], float]
) -> T:
    """Return the draft of a net that is faster as a whole: with slower layers in it, or without.

    ``draft(False)`` leaves to the framework the layers that it computes faster, and each of them
    may cut a segment in two. Where a draft ``has_lost`` any, ``draft(True)`` has them all. ``gain``
    says how many times as fast as the framework's a draft is; one of no gain should be the
    framework's own net.

    >>> settled(lambda uncut: "uncut" if uncut else "cut", lambda draft: True, len)
    'uncut'
    """
    cut = draft(False)
    if not has_lost(cut):
        return cut
    uncut = draft(True)
    return uncut if gain(uncut) > gain(cut) else cut
