"""Fair timing on a machine that drifts: processes take turns, again and again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import mean, median
from typing import Any, NamedTuple

from winogen.tasks.turns import take_turns
from winogen.toolchain.disturbance import Watch
from winogen_lab.bench.team import Contestant, ContestantFailed

# Of one turn, however short a call is.
_MOST_CALLS = 1000


class Turn(NamedTuple):
    """What a contestant says of one turn."""

    seconds: list[float]  # of each call that counts
    cores: float  # busy on average
    preempted: float  # share of the calls


@dataclass
class Entry:
    """A way to compute something that takes part in a contest."""

    contestant: Contestant
    way: str
    row: dict = field(default_factory=dict)  # for the report; has "error" if it cannot
    seconds: float = 0.0  # first estimate
    output: str = ""  # file of its result

    def turn(self, min_time: float) -> Turn | None:
        """Let it have its turn; None once it has failed, which its row then says."""
        if "error" not in self.row:
            try:
                calls = calls_for(self.seconds, min_time)
                return Turn(*self.contestant.ask("turn", self.way, calls))
            except ContestantFailed as failure:
                self.row = {"error": str(failure)}
        return None


def hold(
    entries: Mapping[Any, Entry],
    rounds: int,
    min_time: float,
    between: Callable[[], object] = lambda: None,
) -> tuple[str, ...]:
    """Let all that can take their turns; put times, busy cores and peak memory into their rows.

    A time is the median over turns of the median over calls. ``between`` is called before each
    round. Returns what speaks for other programs having computed meanwhile, in words.
    """
    able = [entry for entry in entries.values() if "error" not in entry.row]
    processes = {id(entry.contestant): entry.contestant for entry in able}
    watch = Watch(False, lambda: sum(one.cpu_seconds() for one in processes.values()))

    def turn_of(entry: Entry) -> Callable[[], Turn | None]:
        return lambda: entry.turn(min_time)

    taken = take_turns([turn_of(entry) for entry in able], (rounds, rounds), between=between)
    failed = any("error" in entry.row for entry in able)  # its CPU time went with it
    signs = () if failed else watch.signs()
    for entry, turns in zip(able, taken):
        if "error" not in entry.row:
            entry.row |= _figures(filter(None, turns))
    for one in processes.values():
        sharing = [entry for entry in able if entry.contestant is one]
        try:
            peak = one.ask("finish")
        except ContestantFailed:
            continue
        # One that died in its turn was started anew just to answer this.
        if peak is not None and len(sharing) == 1 and "error" not in sharing[0].row:
            sharing[0].row["peak_rss_bytes"] = peak
    return signs


def _figures(turns: Iterable[Turn]) -> dict[str, float]:
    turns = list(turns)
    return {
        "median_s": median(median(turn.seconds) for turn in turns),
        "best_s": min(min(turn.seconds) for turn in turns),
        "cores": round(median(turn.cores for turn in turns), 2),
        "preempted": round(mean(turn.preempted for turn in turns), 3),
    }


def calls_for(seconds: float, min_time: float) -> int:
    """Return how many calls make a turn of at least ``min_time`` seconds."""
    return min(_MOST_CALLS, max(1, math.ceil(min_time / max(seconds, 1e-9))))
