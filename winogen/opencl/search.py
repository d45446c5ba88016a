"""The search for the fastest kernels of a layer on a device, within so many seconds.

It begins with what is predicted to be fast, draws points of direct convolution, and goes on near
the best ones. Points that take no workspace are searched first. As long as there is time, the best
point's parameters are then improved one after the other. Those that took least time are measured
again, ever longer. All of that are tasks whose results are kept, so that a search that was
stopped goes on where it was. Every result is compared with the definition, at some outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from math import inf, isfinite, prod
from pathlib import Path
from time import monotonic
from typing import Any

from winogen.conv.problem import Problem, Seams
from winogen.conv.request import Request
from winogen.errors import InvalidValue
from winogen.opencl import wisdom
from winogen.opencl.bounds import by_least_seconds
from winogen.opencl.choice import DeviceCandidate, choose, direct_candidate, predicted_error
from winogen.opencl.devices import DeviceInfo
from winogen.opencl.measuring import DeviceMeasuring
from winogen.opencl.rates import rates_of
from winogen.opencl.scheme import DirectPoint
from winogen.opencl.space import DirectSpace
from winogen.opencl.stores import stored
from winogen.opencl.usual import in_turns, usual
from winogen.records import Epilogue
from winogen.tasks.execute import Executor, Progress
from winogen.tasks.halving import halving
from winogen.tasks.pareto import worth_having
from winogen.tasks.results import Results
from winogen.tasks.space import Space
from winogen.tasks.traversals import Batch, Traversal, descent, narrowing

# Repetitions of a first look, and of the last one at the best.
_REPEATS = 3
_FINALISTS = 8
_COMPARED = 0.1  # of the time is for them
_USUAL = 16  # points of direct convolution, of which half is measured
_RIVALS = 5  # other values of a parameter that compete with the best one's
# How many points are drawn, how many of the best have neighbours, how often, and how many each.
NARROWING = 24, 4, 6, 4
SHARED = 9  # parameters that neighbours have in common


@dataclass
class Findings:
    """What a search found."""

    front: list[DeviceCandidate]  # worth having by time, memory and error; the fastest first
    every: list[DeviceCandidate] = field(default_factory=list)  # that has a time; the fastest first
    tried: int = 0
    wrong: list[str] = field(default_factory=list)  # candidates whose results were wrong


def results_at(path: Path | None) -> Results:
    """Return what earlier searches measured, in a file that this one adds to."""
    return Results(path, _check)


def _check(entry: Any) -> None:
    task, result = entry["task"], entry["result"]
    if not isinstance(task["candidate"], dict) or not {"seconds", "error"} & set(result):
        raise InvalidValue("no measurement of a device")


class DeviceSearch:
    """A search of one layer's kernels on the first device of a context.

    What follows the sums, activation and additions, is left out: it takes all candidates as long.

    ``results``: what earlier searches measured, see `results_at`. ``seed``: of the draws; the same
    seed and the same times give the same search.
    """

    def __init__(
        self,
        problem: Problem,
        context: Any,
        results: Results | None = None,
        *,
        seed: int = 0,
        progress: Progress | None = None,
    ):
        self.problem = _plain(problem)
        self.device = DeviceInfo.of(context.devices[0])
        self._context = context
        self._seed = seed
        # The data of a large layer take a while: they are made when something is measured.
        self._measuring: DeviceMeasuring | None = None
        self._execute = Executor(
            results_at(None) if results is None else results, self._run, progress=progress
        )
        self._seconds: dict[str, tuple[DeviceCandidate, float]] = {}
        self._wrong: list[str] = []
        self._points: dict[DirectPoint, DeviceCandidate] = {}

    def __call__(self, seconds: float) -> Findings:
        """Search for so many seconds, and at least until something is measured.

        Ctrl-C stops earlier, with what is there.
        """
        until = monotonic() + seconds
        drawn = until - _COMPARED * seconds
        self._measure("predicted", self._predicted(), drawn)
        traversals = self._traversals()
        while self._has_time(drawn) and (following := next(traversals, None)):
            self._follow(*following, drawn)
        self._compare(until)
        timed = (found.measured_as(time) for found, time in self._seconds.values() if time < inf)
        every = sorted(timed, key=lambda one: one.seconds)
        return Findings(self._front(every), every, len(self._seconds), self._wrong)

    def _has_time(self, until: float) -> bool:
        return monotonic() < until and not self._execute.stopped

    def _run(self, task: dict) -> dict[str, Any]:
        if self._measuring is None:
            self._measuring = DeviceMeasuring(self.problem, self._context)
        return self._measuring(task)

    def _predicted(self) -> list[DeviceCandidate]:
        """What is predicted to be fast, of all algorithms and of direct convolution in turns.

        Of direct convolution `choose` returns one point: others that are usually good follow.
        """
        rates, found = rates_of(self._context), list[list[DeviceCandidate]]()
        for algorithm in ("auto", "direct"):
            asked = Request(algorithm=algorithm, threads=1)
            with suppress(InvalidValue):
                found.append(choose(self.problem, asked, self.device, rates))
        mixed = [*in_turns(found)]
        with suppress(InvalidValue):
            points = DirectSpace(self.problem, self.device)
            ordered = by_least_seconds(points, usual(points, _USUAL), rates)
            mixed += [self._of_point(point) for _, point in ordered[: _USUAL // 2]]
        return [*{str(self._task(one, 1)): one for one in mixed}.values()]

    def _traversals(self) -> Iterator[tuple[str, Traversal]]:
        """Ways through the points of direct convolution: those without a workspace, and all."""
        every = DirectSpace(self.problem, self.device)
        with suppress(InvalidValue):
            alone = every.first.where(
                "chunks", "pad", "crop",
                holds=lambda path: path["chunks"] == 1 and not path["pad"] and not path["crop"],
            )  # fmt: skip
            yield "direct alone", narrowing(alone, 12, 3, 3, 3, SHARED, seed=self._seed)
        yield "direct", narrowing(every.first, *NARROWING, SHARED, seed=self._seed)
        yield from self._nearer(every.first)

    def _nearer(self, space: Space) -> Iterator[tuple[str, Traversal]]:
        """Ways from the best point so far, each with other draws, until one finds nothing new."""
        for seed in count(self._seed + 1):
            before = len(self._seconds)
            best = self._best_point()
            known = [] if best is None else [best.as_values()]
            yield "direct", descent(space, 2, 2, width=_RIVALS, seed=seed, known=known)
            if len(self._seconds) == before:
                return

    def _best_point(self) -> DirectPoint | None:
        """The point of direct convolution that took least time so far."""
        tried = [
            (time, one.parameters) for one, time in self._seconds.values()
            if isinstance(one.parameters, DirectPoint) and time < inf
        ]  # fmt: skip
        return min(tried, key=lambda pair: pair[0])[1] if tried else None

    def _follow(self, name: str, traversal: Traversal, until: float) -> None:
        """Measure what a traversal asks for, as long as there is time."""
        batch: Batch | None = next(traversal, None)
        while batch is not None and self._has_time(until):
            candidates = [self._of_point(DirectPoint(**path)) for path in batch.paths]
            costs = self._measure(name, candidates, until, batch.effort)
            try:
                batch = traversal.send(costs)
            except StopIteration:
                batch = None

    def _of_point(self, point: DirectPoint) -> DeviceCandidate:
        """The candidate of a point. Ways come by the same ones, and a work takes milliseconds."""
        if point not in self._points:
            self._points[point] = direct_candidate(self.problem, point, self.device)
        return self._points[point]

    def _compare(self, until: float) -> None:
        """Measure those that took least time again, ever fewer of them ever longer."""
        tried = sorted(self._seconds.values(), key=lambda pair: pair[1])
        finalists = [found for found, time in tried[:_FINALISTS] if isfinite(time)]
        if len(finalists) < 2:
            return
        rounds = halving(finalists, effort=2)
        question: Any = next(rounds)
        with suppress(StopIteration):
            while self._has_time(until):
                left, effort = question
                question = rounds.send(self._measure("the best", left, until, effort))

    def _measure(
        self, stage: str, candidates: Sequence[DeviceCandidate], until: float, effort: int = 1
    ) -> list[float]:
        tasks = [self._task(one, effort) for one in candidates]
        costs = []
        for one, result in zip(candidates, self._execute(stage, tasks, until)):
            cost = result.get("seconds", inf) if result else inf
            costs.append(cost)
            if result is None:
                continue
            if result.get("error") == "wrong":
                self._wrong.append(str(one.parameters))
            self._seconds[str(self._task(one, 1))] = one, cost
        return costs

    def _task(self, candidate: DeviceCandidate, effort: int) -> dict[str, Any]:
        parameters = {k: v for k, v in wisdom.encoded(candidate).items() if k != "seconds"}
        return {
            "place": wisdom.place(self.device),
            "layer": wisdom.layer_of(self.problem),
            "candidate": parameters,
            "repeats": _REPEATS * effort,
        }

    def _front(self, every: list[DeviceCandidate]) -> list[DeviceCandidate]:
        """What is worth having by time, bytes and predicted error; the fastest first."""
        given = sum(self.problem.layer.itemsize * prod(shape) for shape in (
            self.problem.input_shape, stored(self.problem).output_shape
        ))  # fmt: skip
        costs = [
            (one.seconds, float(given + one.workspace_bytes), predicted_error(self.problem, one))
            for one in every
        ]
        return [
            replace(one, error=cost[-1])
            for one, cost, good in zip(every, costs, worth_having(costs))
            if good
        ]


def _plain(problem: Problem) -> Problem:
    """The problem without activation and additions."""
    layer = replace(problem.layer, epilogue=Epilogue())
    return replace(problem, layer=layer, seams=Seams(layer.channels, layer.filters))
