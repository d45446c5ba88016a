"""The constants of the kernels' model, fitted to this machine: calls are measured, and explained.

The sum of |log(predicted / measured)|, each algorithm counting alike, is made as small as it gets,
by Newton's method on a weighted sum of squares that comes to the same (iteratively reweighted least
squares: Holland & Welsch, 1977). An absolute value is hardly moved by a call that the model does
not understand. A constant that the calls do not show stays where it was: the square of the
logarithm of its change is added to the sum.
"""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from winogen.conv import gradient_planner, memory, planner
from winogen.conv.cuts import Candidate
from winogen.conv.execute import Environment, Prepared
from winogen.conv.gradients import WeightGradient
from winogen.conv.problem import Problem
from winogen.conv.request import Request
from winogen.graph.compiling import compile_all
from winogen.kernels import Work, named
from winogen.kernels.quantized import QuantizedWork
from winogen.kernels.spec import KernelSpec
from winogen.kernels.weight_gradient import GradientWork
from winogen.records import Costs, Machine
from winogen.toolchain import host_target
from winogen.toolchain.machine_file import cpu_name
from winogen.tuning.layers import BenchLayer
from winogen.tuning.quantized import fastest, ready
from winogen.tuning.sample import calls, gradients, quantized

LAYOUTS = ("NCHW", "NHWC")
# Of a layer set, so many of the fastest candidates, and the plain algorithms.
_FASTEST = 3
_ALWAYS = ("direct", "im2col")
# Every call is measured several times over, some time each: a slow moment hits others then.
_ROUNDS, _SECONDS, _CALLS = 3, 0.04, 40

# Names of the machine's rates that are fitted along: kernels reach less than a loop that only
# reads.
_RATES = ("clock_ghz", "l2_rate", "l3_rate", "memory_rate")
# The weight of a constant's change beside the errors of all calls, and of a rate's, which has been
# measured by itself. No constant leaves its place by more than the factor.
_STAYS, _RATE_STAYS, _FARTHEST = 0.004, 0.04, 4.0
_NEAR = 0.03  # errors below count as squares
_ITERATIONS = 25


@dataclass(frozen=True)
class TimedSample:
    """One way to compute a layer or a gradient, as kernel calls, and its seconds on one thread."""

    works: tuple[Work | GradientWork | QuantizedWork, ...]
    seconds: float

    @property
    def family(self) -> str:
        """The algorithm; depthwise layers, gradients and bytes are families of their own."""
        work = self.works[0]
        if isinstance(work, GradientWork):
            return "gradient"
        if isinstance(work, QuantizedWork):
            return "bytes, depthwise" if work.depthwise else "bytes"
        variant = named(work.variant)
        return "depthwise" if "depthwise" in variant.name else variant.algorithm

    def cycles(self, machine: Machine) -> float:
        """Predicted, of all calls."""
        return sum(
            work.cycles(machine)
            if isinstance(work, (GradientWork, QuantizedWork))
            else float(named(work.variant).cycles(work, machine).total)
            for work in self.works
        )

    def residual(self, machine: Machine) -> float:
        """log(predicted / measured)."""
        return math.log(self.cycles(machine) / (machine.clock_ghz * 1e9) / self.seconds)

    def error(self, machine: Machine) -> float:
        """|log(predicted / measured)|."""
        return abs(self.residual(machine))


@dataclass(frozen=True)
class Fit:
    """A machine whose constants explain the samples, and how well: medians of the error."""

    machine: Machine
    before: float
    after: float
    families: dict[str, tuple[int, float, float]]  # calls, before, after


def measure(
    machine: Machine,
    layers: Sequence[BenchLayer] | None = None,
    layouts: Sequence[str] = LAYOUTS,
    progress: Callable[[str], None] = lambda text: None,
) -> list[TimedSample]:
    """Return measured samples on one thread, by default of the calls in `winogen.tuning.sample`.

    Of ``layers`` the fastest candidates are taken, no gradients and no bytes. Kernels are compiled
    first, as far as they are not yet; nothing else is done while calls are measured.
    """
    target = host_target()
    requests = _of_sample if layers is None else lambda layout: _of_layers(layers, layout)
    pairs: list[tuple[Problem, Candidate]] = []
    for layout in layouts:
        for problem, request, most in requests(layout):
            for candidate in planner.ranked(problem, request, target, machine, most):
                if (problem, candidate.choice) not in [(p, c.choice) for p, c in pairs]:
                    pairs.append((problem, candidate))
    specs = dict.fromkeys(KernelSpec.of(work) for p, c in pairs for work in c.works(p))
    compile_all(specs, lambda done, total, name: progress(f"kernel {done} of {total} compiled"))
    jobs = [_Job(tuple(c.works(p)), partial(_ready, p, c)) for p, c in pairs]
    if layers is None:
        for layer, tile in gradients():
            problem = layer.problem()
            work = gradient_planner.choose(problem, (tile, tile), 1, None, target, machine)
            jobs.append(_Job((work,), partial(_ready_gradient, problem, work)))
        for layout in layouts:
            for layer, algorithm in quantized():
                problem = layer.problem(layout, "uint8")
                way = fastest(problem, algorithm, target, machine)
                jobs.append(_Job((way.work,), partial(ready, problem, way)))
    seconds = [math.inf] * len(jobs)
    for turn in range(_ROUNDS):
        for index, job in enumerate(jobs):
            progress(f"round {turn + 1} of {_ROUNDS}, call {index + 1} of {len(jobs)}")
            seconds[index] = min(seconds[index], _least(job.ready()))
    return [TimedSample(job.works, least) for job, least in zip(jobs, seconds)]


class _Job(NamedTuple):
    """Kernel calls to measure, and what gets their arrays ready and returns a way to run them."""

    works: tuple[Work | GradientWork | QuantizedWork, ...]
    ready: Callable[[], Callable[[], object]]


def _of_sample(layout: str) -> Iterable[tuple[Problem, Request, int]]:
    for layer, options in calls(host_target()):
        problem = layer.problem(layout)
        yield problem, Request.of(problem.layer, threads=1, **options), 1


def _of_layers(layers: Sequence[BenchLayer], layout: str) -> Iterable[tuple[Problem, Request, int]]:
    for layer in layers:
        problem = layer.problem(layout).folded
        for algorithm in ("auto", *_ALWAYS):
            request = Request.of(problem.layer, algorithm=algorithm, threads=1)
            yield problem, request, _FASTEST if algorithm == "auto" else 1


def _ready(problem: Problem, candidate: Candidate) -> Callable[[], object]:
    x, weight = _normal(problem, problem.input_shape, problem.layer.weight_shape)
    output = memory.empty(problem.output_shape, np.dtype(problem.layer.dtype), "output")
    prepared = Prepared(problem, [candidate], host_target())
    kept: dict[Any, np.ndarray] = {}
    packed = prepared.pack(weight, kept)
    return lambda: prepared.run(x, packed, None, output)


def _ready_gradient(problem: Problem, work: GradientWork) -> Callable[[], object]:
    arrays = _normal(problem, problem.input_shape, problem.output_shape)
    gradient = WeightGradient(problem, work, Environment.now())
    return lambda: gradient(*arrays)


def _normal(problem: Problem, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(problem.layer.dtype) for shape in shapes]


def _least(run: Callable[[], object]) -> float:
    """The least seconds of a call; the first call warms up."""
    least, end = math.inf, time.thread_time() + _SECONDS
    for _ in range(_CALLS):
        begin = time.thread_time()
        run()
        now = time.thread_time()
        least = min(least, now - begin)
        if now > end:
            break
    return max(least, 1e-9)


def fit(samples: Sequence[TimedSample], machine: Machine) -> Fit:
    """Return the machine with the constants that explain the samples best.

    Whatever numbers `Costs` has are fitted, and the rates a little.
    """
    numbers = [field.name for field in fields(Costs) if _is_fitted(machine.costs, field.name)]
    names = [*_RATES, *numbers]
    stays = np.array([_RATE_STAYS] * len(_RATES) + [_STAYS] * len(numbers))
    families = [sample.family for sample in samples]
    weights = np.array([1 / math.sqrt(families.count(family)) for family in families])
    weights /= weights.sum()

    def moved(logs: np.ndarray) -> Machine:
        return _scaled(machine, dict(zip(names, np.exp(logs))))

    def residuals(logs: np.ndarray) -> np.ndarray:
        trial = moved(logs)
        return np.array([sample.residual(trial) for sample in samples])

    def loss(errors: np.ndarray, logs: np.ndarray) -> float:
        size = np.abs(errors)
        near = np.where(size < _NEAR, (size**2 / _NEAR + _NEAR) / 2, size)
        return float(weights @ near + stays @ logs**2)

    logs = np.zeros(len(names))
    errors = residuals(logs)
    least, damping, most = loss(errors, logs), 1e-3, math.log(_FARTHEST)
    for _ in range(_ITERATIONS):
        step = 0.02
        slopes = np.stack(
            [(residuals(logs + step * unit) - errors) / step for unit in np.eye(len(names))], axis=1
        )
        pulls = weights / np.maximum(np.abs(errors), _NEAR)
        curvature = slopes.T @ (pulls[:, None] * slopes) + 2 * np.diag(stays)
        downhill = slopes.T @ (pulls * errors) + 2 * stays * logs
        improved = False
        while damping < 1e4:
            change = np.linalg.solve(curvature + damping * np.eye(len(names)), downhill)
            trial = np.clip(logs - change, -most, most)
            deviations = residuals(trial)
            value = loss(deviations, trial)
            if value < least * (1 - 1e-5):
                improved = value < least * (1 - 1e-3)
                logs, errors, least, damping = trial, deviations, value, damping / 4
                break
            damping *= 4
        if not improved:
            break
    return _described(samples, machine, moved(logs))


def _is_fitted(costs: Costs, name: str) -> bool:
    """Whether a field of the constants is a number that can be scaled."""
    value = getattr(costs, name)
    return name != "residual" and isinstance(value, (int, float)) and value > 0


def _scaled(machine: Machine, factors: dict[str, float]) -> Machine:
    costs = {
        name: getattr(machine.costs, name) * factor
        for name, factor in factors.items()
        if name not in _RATES
    }
    rates = {name: getattr(machine, name) * factors[name] for name in _RATES}
    return replace(machine, costs=replace(machine.costs, **costs), **rates)


def _described(samples: Sequence[TimedSample], before: Machine, after: Machine) -> Fit:
    """The fit, with its provenance and residuals."""
    families = {}
    for family in dict.fromkeys(sample.family for sample in samples):
        of_family = [sample for sample in samples if sample.family == family]
        families[family] = (len(of_family), residual(of_family, before), residual(of_family, after))
    today = datetime.date.today().isoformat()
    left = residual(samples, after)
    provenance = f"fitted to {len(samples)} calls on {cpu_name()}, {today}"
    costs = replace(after.costs, provenance=provenance, residual=left)
    return Fit(replace(after, costs=costs), residual(samples, before), left, families)


def residual(samples: Sequence[TimedSample], machine: Machine) -> float:
    """Return the median of |log(predicted / measured)|."""
    return median(sample.error(machine) for sample in samples)
