"""How good the planner's choices are: every candidate measured, the chosen one against the best.

Candidates take turns, so that a slow moment of the machine hits all of them; the least time of each
counts, which is what the model predicts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median

import numpy as np

from winogen.bench.layers import BenchLayer
from winogen.build import host_target
from winogen.conv import Layer, planner
from winogen.conv.execute import Prepared
from winogen.conv.request import request


@dataclass(frozen=True)
class Candidate:
    """One way to compute a layer: predicted and measured seconds of a call."""

    algorithm: str
    tile: tuple[int, int] | None
    predicted_s: float
    measured_s: float


@dataclass(frozen=True)
class Regret:
    """The candidates of one layer, in the order of the planner: the first is what it chose."""

    layer: str
    candidates: tuple[Candidate, ...]

    @property
    def best(self) -> Candidate:
        """The candidate that was measured to be fastest."""
        return min(self.candidates, key=lambda candidate: candidate.measured_s)

    @property
    def regret(self) -> float:
        """The chosen candidate's time over the best one's; 1 is perfect."""
        return self.candidates[0].measured_s / self.best.measured_s

    def to_dict(self) -> dict:
        """Return it as JSON shows it."""
        return {
            "layer": self.layer,
            "regret": self.regret,
            "candidates": [asdict(candidate) for candidate in self.candidates],
        }


def sweep(
    layers: Sequence[BenchLayer],
    *,
    threads: int = 1,
    layout: str = "NCHW",
    rounds: int = 7,
    within: float = 2.0,
    progress: Callable[[int, int, str], None] = lambda done, total, name: None,
) -> list[Regret]:
    """Measure, for every layer, all candidates predicted ``within`` a factor of the fastest.

    ``progress`` is called as (layers done, all, name of the next).
    """
    found = []
    for done, layer in enumerate(layers):
        progress(done, len(layers), layer.name)
        found.append(_of_layer(layer, threads, layout, rounds, within))
    progress(len(layers), len(layers), "")
    return found


def summary(regrets: Sequence[Regret]) -> dict[str, float]:
    """Return the median and the worst regret."""
    values = [regret.regret for regret in regrets]
    return {"median": median(values), "worst": max(values)}


def _of_layer(
    bench_layer: BenchLayer, threads: int, layout: str, rounds: int, within: float
) -> Regret:
    generator = np.random.default_rng(0)
    weight = generator.standard_normal(bench_layer.weight).astype(np.float32)
    x = generator.standard_normal(bench_layer.input).astype(np.float32)
    if layout == "NHWC":
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    layer = Layer.of(
        weight.shape,
        "float32",
        stride=bench_layer.stride,
        padding=tuple((size, size) for size in bench_layer.padding),
        dilation=bench_layer.dilation,
        groups=bench_layer.groups,
        layout=layout,
    )
    problem, target = layer.problem(x.shape), host_target()
    ranked = planner.ranked(problem, request(layer, threads=threads), target)
    ranked = [pair for pair in ranked if pair[0] <= within * ranked[0][0]]
    prepared = [Prepared(problem, [pair], target) for pair in ranked]
    packed = [one.pack(weight) for one in prepared]
    output = np.empty(problem.output_shape, np.float32)
    least = [float("inf")] * len(prepared)
    for _ in range(rounds):
        for index, (one, filters) in enumerate(zip(prepared, packed)):
            for _ in range(2):  # the second call finds its filters where they stay
                begin = time.perf_counter()
                one.run(x, filters, None, output)
                least[index] = min(least[index], time.perf_counter() - begin)
    return Regret(
        bench_layer.name,
        tuple(
            Candidate(choice.algorithm, choice.tile, predicted, measured)
            for (predicted, choice), measured in zip(ranked, least)
        ),
    )
