"""The constants of the kernels' model, fitted to this machine: calls are measured, and explained.

Every constant is moved up and down by a few percent as long as the predictions come closer to what
was measured (coordinate descent on the mean of |log(predicted / measured)|). No constant leaves its
place by more than a factor of four: what a few layers do not show stays as it was.
"""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from statistics import fmean, median

import numpy as np

from winogen.bench.layers import BenchLayer
from winogen.conv import planner
from winogen.conv.execute import Prepared
from winogen.conv.request import Request
from winogen.kernels import Work, named
from winogen.records import Costs, Machine
from winogen.toolchain import host_target
from winogen.toolchain.machine import cpu_name

# Of every layer and layout, so many of the fastest candidates, and the plain algorithms.
_FASTEST = 3
_ALWAYS = ("direct", "im2col")
_CALLS, _SECONDS = 50, 0.1
_STEPS = (1.3, 1.1, 1.03)
_FARTHEST = 4.0


@dataclass(frozen=True)
class Sample:
    """One way to compute a layer, as kernel calls, and the seconds it took on one thread."""

    works: tuple[Work, ...]
    seconds: float

    def error(self, machine: Machine) -> float:
        """|log(predicted / measured)|."""
        cycles = sum(float(named(work.variant).cycles(work, machine).total) for work in self.works)
        return abs(math.log(cycles / (machine.clock_ghz * 1e9) / self.seconds))


def measure(
    layers: Sequence[BenchLayer],
    machine: Machine,
    layouts: Sequence[str] = ("NCHW", "NHWC"),
    progress: Callable[[str], None] = lambda text: None,
) -> list[Sample]:
    """Return measured samples of the layers on one thread; kernels are compiled as needed."""
    samples = []
    jobs = [(layer, layout) for layer in layers for layout in layouts]
    for number, (layer, layout) in enumerate(jobs, 1):
        progress(f"{number}/{len(jobs)} {layer.name} {layout}")
        samples += _of_layer(layer, layout, machine)
    return samples


def _of_layer(layer: BenchLayer, layout: str, machine: Machine) -> list[Sample]:
    problem, target = layer.problem(layout), host_target()
    chosen = {}
    for algorithm in ("auto", *_ALWAYS):
        request = Request.of(problem.layer, algorithm=algorithm, threads=1)
        most = _FASTEST if algorithm == "auto" else 1
        for candidate in planner.ranked(problem, request, target, machine, most):
            chosen[candidate.choice] = candidate
    rng = np.random.default_rng(0)
    x = rng.standard_normal(problem.input_shape, np.float32)
    weight = rng.standard_normal(problem.layer.weight_shape, np.float32)
    output = np.empty(problem.output_shape, np.float32)
    samples = []
    for candidate in chosen.values():
        prepared = Prepared(problem, [candidate], target)
        packed = prepared.pack(weight)
        least, end = math.inf, time.perf_counter() + _SECONDS
        for _ in range(_CALLS):
            begin = time.thread_time()
            prepared.run(x, packed, None, output)
            least = min(least, time.thread_time() - begin)
            if time.perf_counter() > end:
                break
        samples.append(Sample(tuple(call.work for call in prepared.calls), least))
    return samples


def fit(samples: Sequence[Sample], machine: Machine) -> tuple[Costs, float]:
    """Return the constants that explain the samples best, and the residual before."""
    start = machine.costs
    names = [field.name for field in fields(Costs) if field.name not in ("provenance", "residual")]

    def loss(costs: Costs) -> float:
        candidate = replace(machine, costs=costs)
        return fmean(sample.error(candidate) for sample in samples)

    best, least = start, loss(start)
    for step in _STEPS:
        improved = True
        while improved:
            improved = False
            for name in names:
                for factor in (step, 1 / step):
                    value = getattr(best, name) * factor
                    if not 1 / _FARTHEST <= value / getattr(start, name) <= _FARTHEST:
                        continue
                    trial = replace(best, **{name: value})
                    found = loss(trial)
                    if found < least * (1 - 1e-4):
                        best, least, improved = trial, found, True
    today = datetime.date.today().isoformat()
    return (
        replace(
            best,
            provenance=f"fitted to {len(samples)} calls on {cpu_name()}, {today}",
            residual=residual(samples, replace(machine, costs=best)),
        ),
        residual(samples, machine),
    )


def residual(samples: Sequence[Sample], machine: Machine) -> float:
    """Return the median of |log(predicted / measured)|."""
    return median(sample.error(machine) for sample in samples)
