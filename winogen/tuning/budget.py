"""Many layers tuned in a given time, shared fairly, with every victory written at once.

The layer that has had least of the time goes on next, for one piece of its search. So whenever the
time ends, by the clock, by Ctrl-C or by a kill, all layers have had about the same, and what was
won is in the file.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from winogen.conv import wisdom
from winogen.conv.choice import Choice
from winogen.conv.cuts import Measured
from winogen.conv.request import Request
from winogen.records import Machine
from winogen.toolchain import host_target
from winogen.tuning.arena import Arena, Timer
from winogen.tuning.layers import BenchLayer
from winogen.tuning.search import Search, Victory
from winogen.tuning.space import Scope

Say = Callable[[str], None]
SECONDS = 20.0  # for a layer


@dataclass
class Outcome:
    """What became of one layer."""

    name: str
    layout: str
    victory: Victory | None = None
    candidates: int = 0  # measured
    spent: float = 0.0  # seconds
    finished: bool = False  # nothing was left to try
    wrong: tuple[str, ...] = ()  # choices whose results were wrong

    @property
    def ratio(self) -> float:
        """The winner's time over the time of the planner's choice; 1 if nothing won."""
        return 1.0 if self.victory is None else self.victory.seconds / self.victory.planner_seconds


class _Job:
    """One layer in one layout: its search, made when its turn comes."""

    def __init__(self, name: str, scope: Scope, where: Path, timer: Timer | None, say: Say):
        self.outcome = Outcome(name, scope.problem.layer.layout)
        self.scope, self._where = scope, where
        self._search: Search | None = None
        self._pieces: Iterator[str] = iter(())
        self._timer = timer
        self._say: Say = lambda text: say(f"{name} {scope.problem.layer.layout}: {text}")

    def advance(self) -> None:
        """Do one piece of the search."""
        if self._search is None:
            arena = Arena(self.scope, self._timer)
            self._search = Search(arena, self._won, self._known(), self._say)
            self._pieces = self._search.pieces()
        begin = time.monotonic()
        finished = next(self._pieces, None) is None
        outcome, search = self.outcome, self._search
        outcome.spent += time.monotonic() - begin
        outcome.candidates = search.measured
        outcome.wrong = tuple(str(one.choice) for one in search.arena.wrong)
        if finished:
            outcome.finished = True
            self._search = None  # arrays and packed weights
            self._pieces = iter(())
            if outcome.victory is None and self._known():
                tolerance = self.scope.request.tolerance  # what won once does not any more
                wisdom.remove(self.scope.problem, tolerance, self.scope.target, self._where)

    def _known(self) -> tuple[Choice, ...]:
        entries = wisdom.of_file(self._where, self.scope.target)
        entry = entries.entry(self.scope.problem, self.scope.request, self.scope.target)
        return () if entry is None else (entry.choice,)

    def _won(self, victory: Victory) -> None:
        self.outcome.victory = victory
        request, today = self.scope.request, datetime.date.today().isoformat()
        measured = Measured(victory.seconds, victory.planner_seconds, request.threads, today)
        made = wisdom.record(
            self.scope.problem, request.tolerance, self.scope.target, victory.choice, measured
        )
        wisdom.add([made], self._where)


def tune(
    layers: Sequence[BenchLayer],
    where: Path,
    *,
    machine: Machine,
    seconds: float | None = None,
    layouts: Sequence[str] = ("NCHW",),
    threads: int = 1,
    tolerance: float | None = None,
    timer: Timer | None = None,
    progress: Callable[[float, str], None] = lambda spent, text: None,
) -> Iterator[Outcome]:
    """Tune layers, and yield what became of each, when it is finished or the time has passed.

    ``where``: the file of wisdom. ``seconds``: in all, by default `SECONDS` for each layer; the
    last piece may end some seconds later. ``progress`` is called with the seconds spent and with
    what is being done. ``timer`` stands in for the clock in tests. Ctrl-C ends it as the time does.
    Raises CacheUnavailable if the file cannot be written, before any work.
    """
    wisdom.check_writable(where)
    target = host_target()
    jobs = []
    begin = time.monotonic()

    def say(text: str) -> None:
        progress(time.monotonic() - begin, text)

    for layer in layers:
        for layout in layouts:
            problem = layer.problem(layout)
            request = Request.of(problem.layer, threads=threads, tolerance=tolerance)
            scope = Scope(problem, request, target, machine)
            jobs.append(_Job(layer.name, scope, where, timer, say))
    limit = SECONDS * len(jobs) if seconds is None else seconds
    left = list(jobs)
    try:
        while left and time.monotonic() - begin < limit:
            job = min(left, key=lambda one: one.outcome.spent)
            job.advance()
            if job.outcome.finished:
                left.remove(job)
                yield job.outcome
    except KeyboardInterrupt:
        pass
    for job in left:
        yield job.outcome
