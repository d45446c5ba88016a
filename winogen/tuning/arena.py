"""Candidates of one layer measured in turns, on the same arrays; wrong results are found out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from winogen.conv import memory, planner
from winogen.conv.cuts import Candidate
from winogen.conv.execute import Environment, Prepared, kernel
from winogen.conv.problem import Problem
from winogen.conv.tolerance import measured_error
from winogen.errors import BuildError
from winogen.kernels.kind import Spec
from winogen.kernels.spec import KernelSpec
from winogen.tasks.turns import clock_of, in_turns
from winogen.tuning.space import Scope

# A turn: at least so many calls, then as many as fit in some seconds, and no more than so many.
_CALLS, _TURN = (3, 60), 1.5e-3
# How many times the expected errors of both two results may differ by.
_SLACK = 4.0


@dataclass
class Contestant:
    """A candidate that is compiled and ready to run."""

    candidate: Candidate
    run: Callable[[], None]
    kept: dict[Any, np.ndarray]  # its packed weights


# Contestants and rounds -> seconds of each contestant in each round.
Timer = Callable[[Sequence[Contestant], int], list[list[float]]]


class Arena:
    """The arrays of one layer, and what is measured on them."""

    def __init__(self, scope: Scope, timer: Timer | None = None):
        self.scope = scope
        self._fill(scope.problem)
        self._expected: tuple[np.ndarray, float] | None = None
        clock = clock_of(scope.request.threads)
        self._timer = timer or (
            lambda all_, rounds: in_turns(
                [one.run for one in all_], clock, (rounds, rounds), each=_CALLS, turn=_TURN
            )
        )
        self.wrong: list[Candidate] = []

    def _fill(self, problem: Problem) -> None:
        """Make the arrays."""
        rng = np.random.default_rng(0)
        dtype = problem.layer.dtype
        self._x = rng.standard_normal(problem.input_shape).astype(dtype)
        self._weight = rng.standard_normal(problem.layer.weight_shape).astype(dtype)
        shape, place = _lying(problem)
        self._output = memory.empty(shape, np.dtype(dtype), "output")
        self._results = self._output[place]

    def _specs(self, candidate: Candidate) -> list[Spec]:
        """The kernels of a candidate."""
        return [KernelSpec.of(work) for work in candidate.works(self.scope.problem)]

    def admitted(self, candidates: Iterable[Candidate]) -> list[Contestant]:
        """Return the contestants that compile and have right results; the first is the measure.

        Kernels compile side by side, and nothing is measured meanwhile.
        """
        candidates, environment = list(candidates), Environment.now()
        specs = dict.fromkeys(spec for one in candidates for spec in self._specs(one))
        with ThreadPoolExecutor(min(len(specs), os.cpu_count() or 1) or 1) as pool:
            built = dict(zip(specs, pool.map(lambda spec: _builds(spec, environment), specs)))
        contestants = []
        for one in candidates:
            if all(built[spec] for spec in self._specs(one)):
                contestant = self._prepared(one, environment)
                if self._is_right(contestant):
                    contestants.append(contestant)
                else:
                    self.wrong.append(one)
        return contestants

    def ratios(
        self, contestants: Sequence[Contestant], rounds: int
    ) -> tuple[list[float], list[float]]:
        """Return every contestant's seconds, and its time over the first one's in the same round.

        Of each the median over the rounds.
        """
        seconds = self._timer(contestants, rounds)
        ratios = [median(a / b for a, b in zip(times, seconds[0])) for times in seconds]
        return [median(times) for times in seconds], ratios

    def _prepared(self, candidate: Candidate, environment: Environment) -> Contestant:
        prepared = Prepared(self.scope.problem, [candidate], self.scope.target, environment)
        kept: dict[Any, np.ndarray] = {}
        packed = prepared.pack(self._weight, kept)

        def run() -> None:
            prepared.run(self._x, packed, None, self._output)

        return Contestant(candidate, run, kept)

    def _is_right(self, one: Contestant) -> bool:
        """Whether the output agrees with the first one's, up to rounding."""
        self._output.fill(np.nan)
        one.run()
        layer, target = self.scope.problem.layer, self.scope.target
        error = planner.predicted_error(layer, one.candidate.choice, target)
        if self._expected is None:
            self._expected = self._results.copy(), error
            return bool(np.isfinite(self._results).all())
        expected, margin = self._expected
        largest = float(np.abs(expected).max(initial=0.0))
        difference = float(np.abs(self._results - expected).max(initial=0.0))
        return difference <= _SLACK * measured_error(error + margin) * largest


def _lying(problem: Problem) -> tuple[tuple[int, ...], Any]:
    """The shape of the array that the outputs lie in, and where they do."""
    spread = problem.spread
    if spread is None:
        return problem.output_shape, ...
    joint = 2 if spread.filters else 0  # axes of which all phases are computed
    rank, planar = problem.layer.rank, problem.layer.planar
    steps = [*spread.step[: max(0, rank - joint)], *(1,) * min(rank, joint)]
    counts = problem.output_size[: max(0, rank - joint)]
    ends = [*counts, *spread.whole[len(counts) :]]
    places = tuple(slice(0, count * step, step) for count, step in zip(ends, steps))
    image = (problem.seams.output, *spread.whole)
    if not planar:
        image, places = (*image[1:], image[0]), (*places, slice(None))
    return (problem.batch, *image), (..., *places)


def _builds(spec: Spec, environment: Environment) -> bool:
    """Whether a kernel compiles; the message of one that does not is kept in the cache."""
    try:
        kernel(spec, environment)
    except BuildError:
        return False
    return True
