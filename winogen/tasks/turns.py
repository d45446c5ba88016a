"""Times of calls on a machine that drifts: all who are compared take turns, again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

Call = Callable[[], object]
T = TypeVar("T")


def clock_of(threads: int) -> Callable[[], float]:
    """Return the clock for calls on so many threads, in seconds.

    What other programs take away of the time of a lone thread does not count.
    """
    return time.thread_time if threads == 1 else time.perf_counter


def take_turns(
    turns: Sequence[Callable[[], T]],
    rounds: tuple[int, int],
    seconds: float = 0.0,
    between: Call = lambda: None,
) -> list[list[T]]:
    """Return what each of ``turns`` returned in every round.

    ``rounds``: the least and the most; beyond the least, there are as many as ``seconds`` allow.
    Who begins a round ends the next, so that nobody has the same neighbour before it every time.
    ``between`` is called before each round.

    >>> log = []
    >>> take_turns([lambda: log.append("a"), lambda: log.append("b")], (3, 3)) and "".join(log)
    'abbaab'
    """
    taken: list[list[T]] = [[] for _ in turns]
    order = list(range(len(turns)))
    begin = time.perf_counter()
    for count in range(rounds[1]):
        if count >= rounds[0] and time.perf_counter() - begin >= seconds:
            break
        between()
        for index in order:
            taken[index].append(turns[index]())
        order = [*order[1:], *order[:1]]
    return taken


def in_turns(
    calls: Sequence[Call],
    clock: Callable[[], float],
    rounds: tuple[int, int],
    seconds: float = 0.0,
    each: tuple[int, int] = (1, 1),
    turn: float = 0.0,
) -> list[list[float]]:
    """Return the seconds of every call in every round, as ``clock`` counts them.

    ``rounds`` and ``seconds`` are those of `take_turns`. A turn is as many repetitions, of which
    the fastest counts, as ``each`` and the seconds of a ``turn`` allow in the same way.

    >>> ticks = iter(range(100))
    >>> in_turns([lambda: next(ticks), lambda: None], lambda: next(ticks), (2, 2))
    [[2, 2], [1, 1]]
    """
    return take_turns(
        [partial(_fastest, call, clock, each, turn) for call in calls], rounds, seconds
    )


def _fastest(call: Call, clock: Callable[[], float], each: tuple[int, int], turn: float) -> float:
    """The seconds of the fastest repetition in a turn."""
    fastest, begin = float("inf"), clock()
    now = begin
    for count in range(each[1]):
        if count >= each[0] and now - begin >= turn:
            break
        before = clock()
        call()
        now = clock()
        fastest = min(fastest, now - before)
    return fastest
