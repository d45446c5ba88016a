"""Timing that is fair on a machine that drifts: everybody takes turns, again and again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import mean, median
from typing import Any

from winogen.lab.bench.team import Contestant, ContestantFailed

# Of one turn, however short a call is.
_MOST_CALLS = 1000


@dataclass
class Times:
    """What one contestant needed: a number per turn, seconds per call."""

    medians: list[float] = field(default_factory=list)  # over the calls of a turn
    bests: list[float] = field(default_factory=list)
    cores: list[float] = field(default_factory=list)  # busy on average during a turn
    preempted: list[float] = field(default_factory=list)  # share of the calls of a turn

    @property
    def median(self) -> float:
        """Seconds per call: the median over turns of the median over calls."""
        return median(self.medians)

    @property
    def best(self) -> float:
        """Seconds of the fastest call of all."""
        return min(self.bests)


@dataclass
class Entry:
    """A way to compute something that takes part in a contest."""

    contestant: Contestant
    way: str
    row: dict = field(default_factory=dict)  # for the report; has "error" if it cannot
    seconds: float = 0.0  # first estimate
    output: str = ""  # file of its result


def hold(
    entries: Mapping[Any, Entry],
    rounds: int,
    min_time: float,
    between: Callable[[], None] = lambda: None,
) -> None:
    """Let all that can take their turns; put times, busy cores and peak memory into their rows."""

    def turn(entry: Entry) -> Callable[[], Any]:
        calls = calls_for(entry.seconds, min_time)
        return lambda: entry.contestant.ask("turn", entry.way, calls)

    able = {name: entry for name, entry in entries.items() if "error" not in entry.row}
    turns = {name: turn(entry) for name, entry in able.items()}
    for name, times in take_turns(turns, rounds, between).items():
        if isinstance(times, str):
            able[name].row = {"error": times}
        else:
            able[name].row |= {"median_s": times.median, "best_s": times.best}
            able[name].row["cores"] = round(median(times.cores), 2)
            able[name].row["preempted"] = round(mean(times.preempted), 3)
    by_process: dict[int, list[Entry]] = {}
    for entry in able.values():
        by_process.setdefault(id(entry.contestant), []).append(entry)
    for sharing in by_process.values():
        try:
            peak = sharing[0].contestant.ask("finish")
        except ContestantFailed:
            continue
        # One that died in its turn was started anew just to answer this.
        if peak is not None and len(sharing) == 1 and "error" not in sharing[0].row:
            sharing[0].row["peak_rss_bytes"] = peak


def take_turns(
    turns: Mapping[Any, Callable[[], tuple[list[float], float, float]]],
    rounds: int,
    between: Callable[[], None] = lambda: None,
) -> dict[Any, Times | str]:
    """Let everybody run once per round; return the times, or the message of who failed.

    A turn returns (seconds of each call, busy cores, share of preempted calls). Whoever begins a
    round ends the next, so that nobody has the same rival before it every time. ``between`` is
    called before each round.

    >>> times = take_turns({"a": lambda: ([1.0, 2.0, 9.0], 1.0, 0.0)}, rounds=2)
    >>> times["a"].median, times["a"].best
    (2.0, 1.0)
    """
    results: dict[Any, Times | str] = {name: Times() for name in turns}
    names = list(turns)
    for _ in range(rounds):
        between()
        for name in names:
            times = results[name]
            if isinstance(times, str):
                continue
            try:
                seconds, cores, preempted = turns[name]()
            except ContestantFailed as failure:
                results[name] = str(failure)
                continue
            times.medians.append(median(seconds))
            times.bests.append(min(seconds))
            times.cores.append(cores)
            times.preempted.append(preempted)
        names = names[1:] + names[:1]
    return results


def calls_for(seconds: float, min_time: float) -> int:
    """Return how many calls make a turn of at least ``min_time`` seconds."""
    return min(_MOST_CALLS, max(1, math.ceil(min_time / max(seconds, 1e-9))))
