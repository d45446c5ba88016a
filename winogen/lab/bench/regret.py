"""How good the planner's choices are: its candidates measured, the chosen one against the best.

The planner's rule is: the fastest candidate that is as accurate as direct convolution usually is,
unless that takes over 18 % longer than the fastest one that is tolerable; then that one, and always
if a tolerance is given. The *best* is what the same rule gives with measured instead of predicted
times, and regret is the time of the choice over that of the best. So accuracy that the rule asks
for is no regret, accuracy that costs more than it allows is. A choice that is faster than the best
has a regret of 1.

Candidates are measured in heats. In the first all take part, in each of the others those that came
close to the fastest of the heat before, and the choice in all. Whoever is left takes turns with the
others, so that a slow moment of the machine hits all; of the last heat that a candidate took part
in the least time counts, which is what the model predicts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median

import numpy as np

from winogen.conv import memory, planner, wisdom
from winogen.conv.execute import Prepared
from winogen.conv.request import Request
from winogen.graph.compiling import compile_all
from winogen.kernels.spec import KernelSpec
from winogen.tasks.turns import clock_of, in_turns
from winogen.toolchain import host_target
from winogen.toolchain.machine import current
from winogen.tuning.layers import BenchLayer

# Rounds of a heat, and how much longer than the fastest those of the next heat may take. All beyond
# the patience of the rule, so that the last heat has whatever may be the best.
_HEATS = ((1, 1.4), (3, 1.25), (8, 1.0))
_CALLS = (3, 3)  # of a turn: the first one fetches its filters from where others left them


@dataclass(frozen=True)
class Candidate:
    """One way to compute a layer: predicted and measured seconds of a call."""

    algorithm: str
    tile: tuple[int, int] | None
    tag: str  # "gaussian": with the modulus x^2 + 1
    error: float  # predicted
    accurate: bool  # as direct convolution usually is, or as the tolerance asks for
    predicted_s: float
    measured_s: float

    @property
    def seconds(self) -> float:
        """What counts in the end."""
        return self.measured_s


@dataclass(frozen=True)
class Regret:
    """The candidates of one layer, in the order of the planner: the first is what it chose."""

    layer: str
    candidates: tuple[Candidate, ...]

    @property
    def fastest(self) -> Candidate:
        """The candidate that was measured to be fastest."""
        return min(self.candidates, key=lambda candidate: candidate.measured_s)

    @property
    def best(self) -> Candidate:
        """The candidate that the planner would have chosen had it known the times."""
        ways = sorted(self.candidates, key=lambda one: one.measured_s)
        return planner.preferred(ways[0], ways, lambda one: one.accurate, planner.PATIENCE)

    @property
    def regret(self) -> float:
        """The chosen candidate's time over the best one's; 1 is perfect."""
        return max(1.0, self.candidates[0].measured_s / self.best.measured_s)

    def to_dict(self) -> dict:
        """Return it as JSON shows it."""
        return {
            "layer": self.layer,
            "regret": self.regret,
            "best": asdict(self.best),
            "fastest": asdict(self.fastest),
            "candidates": [asdict(candidate) for candidate in self.candidates],
        }


def sweep(
    layers: Sequence[BenchLayer],
    *,
    threads: int = 1,
    layout: str = "NCHW",
    tolerance: float | None = None,
    within: float = 1.6,
    progress: Callable[[str], None] = lambda text: None,
) -> Iterator[Regret]:
    """Yield, layer by layer, the candidates predicted ``within`` a factor of the fastest, measured.

    With a ``tolerance`` all of them are within it, and the best is the fastest. ``progress`` is
    called with what happens next, for people.
    """
    for index, layer in enumerate(layers, 1):
        where = f"{index}/{len(layers)} {layer.name}"
        yield _of_layer(
            layer,
            threads,
            layout,
            tolerance,
            within,
            lambda text, at=where: progress(f"{at}: {text}"),
        )


def summary(regrets: Sequence[Regret]) -> dict[str, float]:
    """Return the median and the worst regret."""
    values = [regret.regret for regret in regrets]
    return {"median": median(values), "worst": max(values)}


def _of_layer(
    bench_layer: BenchLayer,
    threads: int,
    layout: str,
    tolerance: float | None,
    within: float,
    say: Callable,
) -> Regret:
    problem, target = bench_layer.problem(layout), host_target()
    layer = problem.layer
    request = Request.of(layer, threads=threads, tolerance=tolerance)
    ranked = planner.ranked(problem, request, target, current(), wisdom=wisdom.current(target))
    ranked = [way for way in ranked if way.seconds <= within * ranked[0].seconds]
    specs = dict.fromkeys(KernelSpec.of(work) for way in ranked for work in way.works(problem))
    compile_all(specs, lambda done, total, _: say(f"kernel {done} of {total}"))
    prepared = [Prepared(problem, [way], target) for way in ranked]
    accurate = planner.usual_error(layer) if tolerance is None else tolerance / planner.MARGIN
    errors = [planner.predicted_error(layer, way.choice, target) for way in ranked]
    return Regret(
        bench_layer.name,
        tuple(
            Candidate(
                way.choice.algorithm,
                way.choice.tile,
                way.choice.tag,
                error,
                error <= accurate,
                way.seconds,
                measured,
            )
            for way, error, measured in zip(ranked, errors, heats(prepared, say))
        ),
    )


def heats(
    prepared: list[Prepared], say: Callable[[str], None], choices: Collection[int] = (0,)
) -> list[float]:
    """Return the seconds of every candidate; ``choices`` are those that take part in all heats."""
    problem = prepared[0].problem
    generator = np.random.default_rng(0)
    x = generator.standard_normal(problem.input_shape, np.float32)
    output = memory.empty(problem.output_shape, np.dtype(np.float32), "output")
    # A kernel's time does not depend on the numbers: all read the same, instead of packed weights.
    packed = memory.aligned(max(one.plan().packed_weight_bytes for one in prepared), "weights")
    numbers = packed.view(np.float32)
    numbers[:] = np.resize(generator.standard_normal(10_000, np.float32), numbers.size)
    weights = [one.pack(numbers, dict.fromkeys(one.kernels, packed)) for one in prepared]
    clock = clock_of(prepared[0].choice.threads)
    seconds = [float("inf")] * len(prepared)
    left = list(range(len(prepared)))
    for heat, (rounds, close) in enumerate(_HEATS, 1):
        say(f"heat {heat} of {len(_HEATS)}, {len(left)} candidates")
        calls = [partial(prepared[i].run, x, weights[i], None, output) for i in left]
        for index, taken in zip(left, in_turns(calls, clock, (rounds, rounds), each=_CALLS)):
            seconds[index] = min(taken)
        fastest = min(seconds[index] for index in left)
        left = [index for index in left if seconds[index] <= close * fastest or index in choices]
    return seconds
