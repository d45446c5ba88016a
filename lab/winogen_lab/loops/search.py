"""The search for a fast loop nest: a traversal of the space, answered by measurements.

Nests are compiled several at a time, and measured one by one on a machine that compiles nothing
meanwhile. Every result goes into a file as soon as it is there. Draws follow from the seed and
from the results, so a search that was stopped goes on where it was when it is started again with
the same file.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from winogen.errors import InvalidValue
from winogen.records import Target
from winogen.tasks import Executor, Results, executor, traversals
from winogen.tasks.execute import Progress
from winogen.tasks.space import Space
from winogen.tuning.layers import BenchLayer
from winogen_lab.bench.cachegrind import COUNTS
from winogen_lab.loops import counting, tasks
from winogen_lab.loops.nests import nest, nests
from winogen_lab.loops.parameters import LoopProblem, Parameters
from winogen_lab.loops.usual import usual

COSTS = ("seconds", *COUNTS)


@dataclass(frozen=True)
class NestSearch:
    """What to search, and how: the arguments of `winogen.tasks.traversals`."""

    layer: BenchLayer
    layout: str
    target: Target
    traversal: str = "elite"
    draws: int = 24  # n
    best: int = 4  # s
    rounds: int = 8  # r
    near: int = 4  # q
    shared: int = 18  # p
    seed: int = 0
    in_place: bool = True
    ranges: Mapping[str, Collection] = field(default_factory=dict)
    cost: str = "seconds"  # of `COSTS`: what the search makes least

    def __post_init__(self) -> None:
        """Raise InvalidValue for numbers that are none, before anything is compiled."""
        for name in ("draws", "best", "rounds", "near", "shared"):
            value = getattr(self, name)
            if value < 1:
                raise InvalidValue(f"{name}: got {value}; allowed: a number >= 1")
        if self.cost not in COSTS:
            raise InvalidValue(f"cost: got {self.cost!r}; allowed: {', '.join(COSTS)}")
        if self.cost != "seconds":
            counting.check(self.target)

    def problem(self) -> LoopProblem:
        """Return what the nests compute."""
        return tasks.problem_of_layer(self.layer, self.layout, self.target)

    def space(self) -> Space:
        """Return the space; raises InvalidValue for ranges that leave nothing."""
        space = nests(self.problem(), self.target, in_place=self.in_place)
        return space.restrict(**self.ranges) if self.ranges else space

    def way(self, space: Space) -> traversals.Traversal:
        """Return the traversal; raises InvalidValue for wrong arguments."""
        n, s, r, seed = self.draws, self.best, self.rounds, self.seed
        ways: dict[str, Callable[[], traversals.Traversal]] = {
            "random": lambda: traversals.random(space, n * r, seed=seed),
            "elite": lambda: traversals.elite(space, n, s, r, seed=seed),
            "narrowing": lambda: traversals.narrowing(
                space, n, s, r, self.near, self.shared, seed=seed
            ),
            "descent": lambda: traversals.descent(space, n, r, seed=seed),
        }
        if self.traversal not in ways:
            raise InvalidValue(f"traversal: got {self.traversal!r}; allowed: {', '.join(ways)}")
        return ways[self.traversal]()


@dataclass(frozen=True)
class Measured:
    """A nest, its time and what cachegrind counts of it; ``seconds`` is infinite if it failed."""

    nest: Parameters
    seconds: float
    error: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)  # empty where seconds are the cost

    def cost(self, name: str) -> float:
        """Return what is made least: seconds, or one of the counts."""
        return self.counts.get(name, self.seconds)


def search(
    wanted: NestSearch, compilers: Executor, measurers: Executor, seconds: float = math.inf
) -> list[Measured]:
    """Follow the traversal until it ends or the time is over; return all nests, the best first.

    The usual nest of the layer, which takes no search, is measured first. ``compilers`` and
    ``measurers`` do the tasks, and share a file of results. What is in it takes no time. A nest
    counts with its last measurement, which is the most thorough one.
    """
    space = wanted.space()
    end = time.monotonic() + seconds
    way = wanted.way(space)
    simple = usual(wanted.problem(), wanted.target)
    found = {one.nest: one for one in _of(wanted, [simple], 1, compilers, measurers)}
    try:
        batch = next(way)
        while True:
            costs: list[float] = []
            chosen = [nest(space, path) for path in batch.paths]
            for part in _parts(chosen, _at_once(compilers)):
                if time.monotonic() >= end:
                    return _sorted(found, wanted.cost)
                for one in _of(wanted, part, batch.effort, compilers, measurers):
                    found[one.nest] = one
                    costs.append(one.cost(wanted.cost))
            batch = way.send(costs)
    except StopIteration:
        return _sorted(found, wanted.cost)


def _of(
    wanted: NestSearch,
    chosen: list[Parameters],
    effort: int,
    compilers: Executor,
    measurers: Executor,
) -> Iterator[Measured]:
    """Compile and measure nests; what cannot be compiled is not measured."""
    of = wanted.layer, wanted.layout, wanted.target
    compiled = _done(compilers, "compile", [tasks.compile_task(*of, one) for one in chosen])
    able = [one for one, result in zip(chosen, compiled) if result and "error" not in result]
    work = [tasks.measure_task(*of, one, effort) for one in able]
    results = dict(zip(chosen, compiled)) | dict(zip(able, _done(measurers, "measure", work)))
    if wanted.cost != "seconds":
        right = [one for one in able if "error" not in results[one]]
        counted = _done(measurers, "count", [tasks.count_task(*of, one) for one in right])
        results |= {one: {**results[one], **found} for one, found in zip(right, counted)}
    for one in chosen:
        found = results[one]
        error = found.get("error", "")
        seconds = math.inf if error else found["seconds"]
        yield Measured(one, seconds, error, found.get("counts", {}))


def _done(execute: Executor, stage: str, work: list[dict]) -> list:
    """Return all results; raises KeyboardInterrupt after Ctrl-C: what is done lies in the file."""
    results = execute(stage, work)
    if execute.stopped:
        raise KeyboardInterrupt
    return results


def compare(wanted: NestSearch, chosen: list[Parameters]) -> list[float]:
    """Return the seconds of direct convolution, then of each nest, measured in turns.

    Raises ContestantFailed.
    """
    fields = tasks.compile_task(wanted.layer, wanted.layout, wanted.target, chosen[0])
    del fields["nest"]
    return tasks.ask({**fields, "task": "compare", "nests": [one.to_dict() for one in chosen]})


@contextmanager
def workers(
    path: Path | None, jobs: int | str = 1, progress: Progress | None = None
) -> Iterator[tuple[Executor, Executor]]:
    """Yield who compiles and who measures, with one file of results; see `winogen.tasks.executor`.

    ``jobs`` processes compile, and one measures. With Dask each worker does both, so the machines
    of the cluster should be alike and their workers have one thread each.
    """
    results = Results(path, tasks.check_entry)
    try:
        with executor(results, tasks.run, jobs, progress) as compilers:
            here = Executor(results, tasks.run, 1, progress)
            yield compilers, compilers if ":" in str(jobs) else here
    finally:
        tasks.close()
        results.close()


def _at_once(executor: Executor) -> int:
    """So many that nobody waits long for compilers, and a search ends when its time is over."""
    return 8 if executor.jobs == -1 else 2 * executor.jobs


def _parts(chosen: list[Parameters], size: int) -> Iterator[list[Parameters]]:
    for first in range(0, len(chosen), size):
        yield chosen[first : first + size]


def _sorted(found: Mapping[Parameters, Measured], cost: str) -> list[Measured]:
    return sorted(found.values(), key=lambda one: (one.cost(cost), one.nest.text))
