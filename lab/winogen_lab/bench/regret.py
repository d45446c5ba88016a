"""How good the planner's choices are: its candidates measured, the chosen one against the best.

The planner's rule is: the candidate whose time, times the price of an error beyond the usual one of
direct convolution (`Tolerance.price`), is the least; with a tolerance, the fastest within it. The
*best* is what the same rule gives with measured instead of predicted times, and regret is the time
of the choice over that of the best. So accuracy within the rule is no regret, accuracy at a higher
price is. A choice that is faster than the best has a regret of 1.

Measured are the candidates that come close by prediction. A wrong model must not hide what it
misjudges: so the two best of every algorithm are measured whatever is predicted, and some of the
others, drawn by a fixed seed.

Candidates are measured in heats. In the first all take part; in each later one, whoever came close
to the fastest of the heat before, and the choice in all. Whoever is left takes turns with the
others, so that a slow moment of the machine hits all; of a candidate's last heat the least time
counts: the model predicts it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from statistics import median

import numpy as np

from winogen.conv import memory, planner, wisdom
from winogen.conv.candidates import is_winograd_worth_it
from winogen.conv.choice import Choice
from winogen.conv.execute import Prepared
from winogen.conv.problem import Problem
from winogen.conv.request import Request
from winogen.conv.tolerance import Tolerance, preferred
from winogen.errors import InvalidValue, Unsupported
from winogen.graph.compiling import compile_all
from winogen.kernels import algorithms, is_tiled
from winogen.kernels.spec import KernelSpec
from winogen.records import Machine, Precision, Target
from winogen.tasks.turns import clock_of, in_turns
from winogen.toolchain import host_target
from winogen.toolchain.machine import current
from winogen.tuning.layers import BenchLayer

# Rounds of a heat, and how much longer than the fastest those of the next heat may take. All beyond
# what the rule pays for a digit of accuracy, so that the last heat has whatever may be the best.
_HEATS = ((1, 1.5), (3, 1.4), (8, 1.0))
_OF_EACH = 2  # candidates of every algorithm that are measured whatever is predicted
DRAWN = 10  # and of all others, by default
_CALLS = (3, 3)  # of a turn: the first one fetches its filters from where others left them


@dataclass(frozen=True)
class Candidate:
    """One way to compute a layer: predicted and measured seconds of a call."""

    algorithm: str
    tile: tuple[int, ...] | None
    tag: str  # "gaussian": with the modulus x^2 + 1
    error: float  # predicted
    price: float  # of the error: how many times the seconds count
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
        return preferred(ways, lambda one: one.price) or ways[0]

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
    drawn: int = DRAWN,
    progress: Callable[[str], None] = lambda text: None,
) -> Iterator[Regret]:
    """Yield, layer by layer, the candidates of `contestants`, measured.

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
            drawn,
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
    drawn: int,
    say: Callable,
) -> Regret:
    problem, target = bench_layer.problem(layout).folded, host_target()
    layer = problem.layer
    request = Request.of(layer, threads=threads, tolerance=tolerance)
    ranked = contestants(problem, request, target, current(), within, drawn)
    specs = dict.fromkeys(KernelSpec.of(work) for way in ranked for work in way.works(problem))
    compile_all(specs, lambda done, total, _: say(f"kernel {done} of {total}"))
    prepared = [Prepared(problem, [way], target) for way in ranked]
    rule = Tolerance.of(layer, tolerance)
    errors = [planner.predicted_error(layer, way.choice, target) for way in ranked]
    return Regret(
        bench_layer.name,
        tuple(
            Candidate(
                way.choice.algorithm,
                way.choice.tile,
                way.choice.tag,
                error,
                rule.price(error),
                way.seconds,
                measured,
            )
            for way, error, measured in zip(ranked, errors, heats(prepared, say))
        ),
    )


def contestants(
    problem: Problem,
    request: Request,
    target: Target,
    machine: Machine,
    within: float,
    drawn: int = DRAWN,
) -> list[planner.Candidate]:
    """Return the planner's choice, and what is measured beside it.

    These are all that are predicted ``within`` a factor of the choice, and whatever is predicted
    two of every algorithm, the fastest ones and the fastest accurate ones, and so many ``drawn`` of
    all others, the same ones every time.
    """
    rule = Tolerance.of(problem.layer, request.tolerance)

    def error(way: planner.Candidate) -> float:
        return planner.predicted_error(problem.layer, way.choice, target)

    known = wisdom.current(target)
    ranked = planner.ranked(problem, request, target, machine, wisdom=known)
    chosen = {way.choice: way for way in ranked if way.seconds <= within * ranked[0].seconds}
    others: dict[Choice, planner.Candidate] = {}
    for algorithm in algorithms(Precision.of(problem.layer.dtype), target):
        if is_tiled(algorithm) and not is_winograd_worth_it(problem.layer):
            continue
        asked = replace(request, algorithm=algorithm)
        with suppress(InvalidValue, Unsupported):  # too coarse for the tolerance
            ways = planner.ranked(problem, asked, target, machine)
            ways.sort(key=lambda way: way.seconds)
            careful = islice((way for way in ways if error(way) <= rule.usual), _OF_EACH)
            chosen = {**{way.choice: way for way in (*ways[:_OF_EACH], *careful)}, **chosen}
            others.update({way.choice: way for way in ways})
    left = [way for choice, way in others.items() if choice not in chosen]
    order = np.random.default_rng(0).permutation(len(left))[:drawn]
    chosen.update({left[index].choice: left[index] for index in order})
    first = chosen.pop(ranked[0].choice)
    return [first, *sorted(chosen.values(), key=lambda way: way.seconds)]


def calls_of(prepared: Sequence[Prepared]) -> list[Callable[[], object]]:
    """Return a call for each of several ways to compute one problem, on the same random arrays.

    A kernel's time does not depend on the numbers: all read the same, instead of packed weights.
    """
    problem = prepared[0].problem
    generator = np.random.default_rng(0)
    x = generator.standard_normal(problem.input_shape, np.float32)
    output = memory.empty(problem.output_shape, np.dtype(np.float32), "output")
    packed = memory.aligned(max(one.plan().packed_weight_bytes for one in prepared), "weights")
    numbers = packed.view(np.float32)
    numbers[:] = np.resize(generator.standard_normal(10_000, np.float32), numbers.size)
    return [
        partial(one.run, x, one.pack(numbers, dict.fromkeys(one.kernels, packed)), None, output)
        for one in prepared
    ]


def heats(
    prepared: list[Prepared], say: Callable[[str], None], choices: Collection[int] = (0,)
) -> list[float]:
    """Return the seconds of every candidate; ``choices`` take part in all heats."""
    every = calls_of(prepared)
    clock = clock_of(prepared[0].choice.threads)
    seconds = [float("inf")] * len(prepared)
    left = list(range(len(prepared)))
    for heat, (rounds, close) in enumerate(_HEATS, 1):
        say(f"heat {heat} of {len(_HEATS)}, {len(left)} candidates")
        calls = [every[index] for index in left]
        for index, taken in zip(left, in_turns(calls, clock, (rounds, rounds), each=_CALLS)):
            seconds[index] = min(taken)
        fastest = min(seconds[index] for index in left)
        left = [index for index in left if seconds[index] <= close * fastest or index in choices]
    return seconds
