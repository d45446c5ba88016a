"""Many layers tuned in a given time, shared fairly, with every victory written at once.

The layer that has had least of the time goes on next, for one piece of its search. So whenever the
time ends, by the clock, by Ctrl-C or by a kill, all layers have had about the same, and what was
won is in the file.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from winogen.conv import arguments, wisdom
from winogen.conv.choice import Choice
from winogen.conv.cuts import MeasuredChoice
from winogen.conv.problem import Seams
from winogen.conv.query import Query
from winogen.conv.request import Request
from winogen.conv.transposed import ways
from winogen.conv.transposed_problem import TransposedProblem
from winogen.errors import InvalidValue
from winogen.records import Machine
from winogen.toolchain import host_target
from winogen.tuning.arena import Arena, Timer
from winogen.tuning.layers import BenchLayer
from winogen.tuning.quantized import QuantizedArena, QuantizedScope
from winogen.tuning.search import LayerSearch, Victory
from winogen.tuning.space import Scope

Say = Callable[[str], None]
SECONDS = 20.0  # for a layer
DTYPES = ("float32", "int8")


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


class _LayerJob:
    """One layer in one layout: its search, made when its turn comes."""

    def __init__(self, name: str, scope: Scope, where: Path, timer: Timer | None, say: Say):
        self.outcome = Outcome(name, scope.problem.layer.layout)
        self.scope, self._where = scope, where
        self._search: LayerSearch | None = None
        self._pieces: Iterator[str] = iter(())
        self._timer = timer
        self._say: Say = lambda text: say(f"{name} {scope.problem.layer.layout}: {text}")

    def advance(self) -> None:
        """Do one piece of the search."""
        if self._search is None:
            kind = QuantizedArena if isinstance(self.scope, QuantizedScope) else Arena
            arena = kind(self.scope, self._timer)
            self._search = LayerSearch(arena, self._won, self._known(), self._say)
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
        entry = entries.entry(*self.scope[:3], self.scope.applies)
        return () if entry is None else (entry.choice,)

    def _won(self, victory: Victory) -> None:
        self.outcome.victory = victory
        request, today = self.scope.request, datetime.date.today().isoformat()
        measured = MeasuredChoice(victory.seconds, victory.planner_seconds, request.threads, today)
        made = wisdom.record(
            self.scope.problem, request.tolerance, self.scope.target, victory.choice, measured
        )
        wisdom.add([made], self._where)


def scopes(
    layers: Sequence[BenchLayer],
    machine: Machine,
    *,
    layouts: Sequence[str] = ("NCHW",),
    threads: int = 1,
    tolerance: float | None = None,
    dtype: str = "float32",
) -> list[tuple[str, Scope]]:
    """Return what is tuned of layers, each with a name: see `tune`.

    Of a transposed layer that is every part of both ways to compute it, which has kernels of its
    own. Raises InvalidValue.
    """
    found: list[tuple[str, Scope]] = []
    target, kind = host_target(), QuantizedScope if dtype == "int8" else Scope
    for layer, layout in product(layers, layouts):
        if layer.transposed and dtype != "int8":
            parts = _parts(layer, layout, machine, threads=threads, tolerance=tolerance)
            found += [(f"{layer.name}, {name}", scope) for name, scope in parts]
            continue
        problem = layer.problem(layout, "uint8" if dtype == "int8" else dtype).folded
        request = Request.of(problem.layer, threads=threads, tolerance=tolerance)
        found.append((layer.name, kind(problem, request, target, machine)))
    return found


def _parts(
    layer: BenchLayer, layout: str, machine: Machine, **asked: Any
) -> Iterator[tuple[str, Scope]]:
    """The parts of a transposed layer that multiply, each named by its phases."""
    target = host_target()
    described = layer.transposed_layer(layout=layout, **asked)
    sample, problem = described.sample, layer.posed(layout)
    assert isinstance(problem, TransposedProblem)
    problem = replace(problem, layer=described)
    seams = Seams(sample.channels, sample.filters)
    for parts, request, _ in ways(Query(problem, Request(), target, machine), seams):
        for part in parts:
            kind, *taps = part.weight
            place = ",".join(map(str, part.first[: len(taps)]))
            name = f"phase {place}" if kind == "one" else "all phases" + f" of {place}" * bool(taps)
            if kind != "none":
                yield name, Scope(part.problem, request, target, machine)


def tune(
    layers: Sequence[BenchLayer],
    where: Path,
    *,
    machine: Machine,
    seconds: float | None = None,
    layouts: Sequence[str] = ("NCHW",),
    threads: int = 1,
    tolerance: float | None = None,
    dtype: str = "float32",
    timer: Timer | None = None,
    progress: Callable[[float, str], None] = lambda spent, text: None,
) -> Iterator[Outcome]:
    """Tune layers, and yield what became of each, when it is finished or the time has passed.

    ``where``: the file of wisdom. ``seconds``: in all, by default `SECONDS` for each of `scopes`;
    the last piece may end some seconds later. ``dtype``: "float32", or "int8" for layers of bytes,
    which have no tolerance. ``progress`` is called with the seconds spent and with what is being
    done. ``timer`` stands in for the clock in tests. Ctrl-C ends it as the time does. Raises
    InvalidValue, and CacheUnavailable if the file cannot be written, before any work.
    """
    dtype = arguments.choice("dtype", dtype, DTYPES)
    if dtype == "int8" and tolerance is not None:
        raise InvalidValue(f"tolerance: got {tolerance:g}; allowed: None with dtype int8")
    wisdom.check_writable(where)
    begin = time.monotonic()

    def say(text: str) -> None:
        progress(time.monotonic() - begin, text)

    jobs = [
        _LayerJob(name, scope, where, timer, say)
        for name, scope in scopes(
            layers, machine, layouts=layouts, threads=threads, tolerance=tolerance, dtype=dtype
        )
    ]
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
