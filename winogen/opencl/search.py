"""The search for the fastest kernels of a layer on a device, within so many seconds.

It begins with what is predicted to be fast, draws points of direct convolution, and goes on near
the best ones. Points that take no workspace are searched first. Those that took least time are
measured again, ever longer. All of that are tasks whose results are kept, so that a search that was
stopped goes on where it was. Every result is compared with the definition, at some outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from winogen.codegen.devices.statements import Array
from winogen.conv.problem import Problem, plane_of
from winogen.conv.request import Request
from winogen.errors import CompileFailed, InvalidValue, OutOfMemory
from winogen.opencl import running, wisdom
from winogen.opencl.choice import Candidate, choose, direct_candidate, predicted_error
from winogen.opencl.devices import Device, platform
from winogen.opencl.rates import rates_of
from winogen.opencl.scheme import Point
from winogen.opencl.space import Points
from winogen.tasks.execute import Executor, Progress
from winogen.tasks.halving import halving
from winogen.tasks.pareto import worth_having
from winogen.tasks.results import Results
from winogen.tasks.traversals import Batch, Traversal, narrowing

# Repetitions of a first look, and of the last one at the best.
_REPEATS = 3
_FINALISTS = 8
# Largest errors of results, of the largest: what is beyond is wrong, not inaccurate.
_WRONG = {"float32": 1e-2, "float16": 3e-2}
_LOOKED_AT = 200  # outputs
_SHARED = 9  # parameters that neighbours have in common


@dataclass
class Found:
    """What a search found."""

    front: list[Candidate]  # worth having by time, memory and error; the fastest first
    every: list[Candidate] = field(default_factory=list)  # that has a time; the fastest first
    tried: int = 0
    wrong: list[str] = field(default_factory=list)  # candidates whose results were wrong


class Measuring:
    """Measures candidates of a problem: a task says which, and how often."""

    def __init__(self, problem: Problem, context: Any):
        cl = platform()
        self.problem = problem
        self.context = context
        self.device = Device.of(context.devices[0])
        self._queue = cl.CommandQueue(
            context, properties=cl.command_queue_properties.PROFILING_ENABLE
        )
        random = np.random.default_rng(0)
        layer = problem.layer
        self._input = random.standard_normal(problem.input_shape).astype(layer.dtype)
        self._weight = random.standard_normal(layer.weight_shape).astype(layer.dtype)
        self._samples = _sampled(problem, self._input, self._weight)
        self._known: dict[str, Any] = {}

    def __call__(self, task: dict) -> dict[str, Any]:
        """Return {"seconds"} of the fastest call, or {"error"}: why there is none."""
        candidate = wisdom.decoded({**task["candidate"], "seconds": 1.0}, self.problem, self.device)
        if candidate is None:
            return {"error": "does not apply"}
        try:
            return self._measured(candidate, task["repeats"])
        except (CompileFailed, OutOfMemory) as error:
            return {"error": str(error).partition("\n")[0]}
        except platform().Error as error:
            return {"error": f"the driver: {error}".partition("\n")[0]}

    def _measured(self, candidate: Candidate, repeats: int) -> dict[str, Any]:
        cl = platform()
        compiled = running.Running(candidate.work(self.problem, self.device), self.context)
        arrays = {one.name: one for one in compiled.work.arrays}
        buffers = compiled.pack(self._queue, self._weight) | compiled.workspace()
        buffers["input"] = self._kept(arrays["input"], self._input)
        output = np.full(self.problem.output_shape, np.nan, self.problem.layer.dtype)
        buffers["output"] = self._kept(arrays["output"], output)
        cl.enqueue_copy(self._queue, buffers["output"], output)
        self._queue.finish()
        times = [sum(running.seconds(compiled.run(self._queue, buffers))) for _ in range(repeats)]
        cl.enqueue_copy(self._queue, output, buffers["output"])
        self._queue.finish()
        if not self._is_right(output):
            return {"error": "wrong"}
        return {"seconds": max(min(times), 1e-9)}

    def _kept(self, array: Array, values: np.ndarray) -> Any:
        """A buffer that all candidates share."""
        if array.name not in self._known:
            self._known[array.name] = running.upload(self.context, array, values)
        return self._known[array.name]

    def _is_right(self, output: np.ndarray) -> bool:
        places, wanted = self._samples
        off = np.abs(output.reshape(-1)[places].astype(np.float64) - wanted).max()
        return bool(off <= _WRONG[self.problem.layer.dtype] * np.abs(wanted).max())


def _sampled(
    problem: Problem, input: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Some outputs by their definition in float64: where they lie, and what they are."""
    layer = problem.layer
    count = int(np.prod(problem.output_shape))
    places = np.unique(np.random.default_rng(1).integers(0, count, _LOOKED_AT))
    size, (height, width) = plane_of(problem.size), plane_of(problem.output_size)
    images = input.reshape(problem.batch, *(
        (layer.channels, *size) if layer.planar else (*size, layer.channels)
    )).astype(np.float64)  # fmt: skip
    images = images if layer.planar else np.moveaxis(images, -1, 1)
    taps = weight.reshape(layer.filters, -1, *(axis.kernel for axis in layer.plane))
    channels, filters = taps.shape[1], layer.filters // layer.groups
    modes = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    ends = [(axis.before, axis.after) for axis in layer.plane]
    padded: Any = np.pad(
        images, [(0, 0), (0, 0), *ends], mode=modes[layer.padding_mode]  # type: ignore[call-overload]
    )  # fmt: skip
    shape = (problem.batch, *(
        (layer.filters, height, width) if layer.planar else (height, width, layer.filters)
    ))  # fmt: skip
    wanted = []
    for index in zip(*np.unravel_index(places, shape)):
        image, filter, row, column = index if layer.planar else (index[0], *index[3:], *index[1:3])
        first = filter // filters * channels
        rows, columns = (
            at * axis.stride + axis.dilation * np.arange(axis.kernel)
            for at, axis in zip((row, column), layer.plane)
        )
        window = padded[image, first : first + channels][:, rows[:, None], columns]
        wanted.append(np.sum(window * taps[filter].astype(np.float64)))
    return places, np.array(wanted)


def results_at(path: Path | None) -> Results:
    """Return what earlier searches measured, in a file that this one adds to."""
    return Results(path, _check)


def _check(entry: Any) -> None:
    task, result = entry["task"], entry["result"]
    if not isinstance(task["candidate"], dict) or not {"seconds", "error"} & set(result):
        raise InvalidValue("no measurement of a device")


class Search:
    """A search of one layer's kernels on the first device of a context.

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
        self.problem = problem
        self.device = Device.of(context.devices[0])
        self._context = context
        self._seed = seed
        # The data of a large layer take a while: they are made when something is measured.
        self._measuring: Measuring | None = None
        self._execute = Executor(
            results_at(None) if results is None else results, self._run, progress=progress
        )
        self._seconds: dict[str, tuple[Candidate, float]] = {}
        self._wrong: list[str] = []

    def __call__(self, seconds: float) -> Found:
        """Search for so many seconds, and at least until something is measured.

        Ctrl-C stops earlier, with what is there.
        """
        until = monotonic() + seconds
        self._measure("predicted", self._predicted(), until)
        traversals = self._traversals()
        while self._has_time(until) and (following := next(traversals, None)):
            self._follow(*following, until)
        self._compare(until)
        timed = (found.measured_as(time) for found, time in self._seconds.values() if time < inf)
        every = sorted(timed, key=lambda one: one.seconds)
        return Found(self._front(every), every, len(self._seconds), self._wrong)

    def _has_time(self, until: float) -> bool:
        return monotonic() < until and not self._execute.stopped

    def _run(self, task: dict) -> dict[str, Any]:
        if self._measuring is None:
            self._measuring = Measuring(self.problem, self._context)
        return self._measuring(task)

    def _predicted(self) -> list[Candidate]:
        """What is predicted to be fast: the best of each algorithm and tile."""
        rates, found = rates_of(self._context), list[Candidate]()
        for algorithm in ("auto", "direct"):
            asked = Request(algorithm=algorithm, threads=1)
            with suppress(InvalidValue):
                found += choose(self.problem, asked, self.device, rates)
        return [*{str(self._task(one, 1)): one for one in found}.values()]

    def _traversals(self) -> Iterator[tuple[str, Traversal]]:
        """Ways through the points of direct convolution: those without a workspace, and all."""
        every = Points(self.problem, self.device)
        with suppress(InvalidValue):
            alone = every.first.where(
                "chunks", "pad", "crop",
                holds=lambda path: path["chunks"] == 1 and not path["pad"] and not path["crop"],
            )  # fmt: skip
            yield "direct alone", narrowing(alone, 12, 3, 3, 3, _SHARED, seed=self._seed)
        yield "direct", narrowing(every.first, 24, 4, 6, 4, _SHARED, seed=self._seed)

    def _follow(self, name: str, traversal: Traversal, until: float) -> None:
        """Measure what a traversal asks for, as long as there is time."""
        batch: Batch | None = next(traversal, None)
        while batch is not None and self._has_time(until):
            points = [Point(**path) for path in batch.paths]
            candidates = [direct_candidate(self.problem, one, self.device) for one in points]
            costs = self._measure(name, candidates, until)
            try:
                batch = traversal.send(costs)
            except StopIteration:
                batch = None

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
        self, stage: str, candidates: Sequence[Candidate], until: float, effort: int = 1
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

    def _task(self, candidate: Candidate, effort: int) -> dict[str, Any]:
        parameters = {k: v for k, v in wisdom.encoded(candidate).items() if k != "seconds"}
        return {
            "place": wisdom.place(self.device),
            "layer": wisdom.layer_of(self.problem),
            "candidate": parameters,
            "repeats": _REPEATS * effort,
        }

    def _front(self, every: list[Candidate]) -> list[Candidate]:
        """What is worth having by time, bytes and predicted error; the fastest first."""
        given = sum(self.problem.layer.itemsize * int(np.prod(shape)) for shape in (
            self.problem.input_shape, self.problem.output_shape
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
