"""How convolutions of 8-bit integers are tuned: what to try, and on which arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from winogen.conv import memory, quantized_planner
from winogen.conv.choice import Choice, Cut
from winogen.conv.execute import Environment
from winogen.conv.one_call import OneCall
from winogen.conv.problem import Problem
from winogen.conv.quantization import RANGES, QuantizedFilters, Scales
from winogen.conv.quantized import QuantizedCall, packs_of
from winogen.conv.quantized_planner import CallNumbers
from winogen.conv.request import Request
from winogen.records import Machine, Target
from winogen.tuning.arena import Arena, Contestant, Timer
from winogen.tuning.space import Scope

NUMBERS = CallNumbers(sums=False, x_zero=120, y_zero=3, limits=RANGES["uint8"])
_SPREAD = 40.0  # standard deviation of inputs and weights, in steps


def ready(problem: Problem, way: OneCall) -> Callable[[], object]:
    """Return what runs a way on arrays of its own."""
    return _Arrays(problem).bound(way, Environment.now())


class QuantizedScope(Scope):
    """The same of a layer whose arrays are bytes: all ways are exact."""

    @staticmethod
    def applies(choice: Choice, problem: Problem, target: Target) -> bool:
        """Return whether a choice of unknown origin can compute a problem."""
        return quantized_planner.applies(choice, problem, target)

    def price(self, choice: Choice) -> float:
        """Return 1, as all ways are equally accurate."""
        return 1.0

    def promising(self, choices: Iterable[Choice], most: float) -> Iterator[Any]:
        """Yield the choices by predicted time, up to ``most`` seconds."""
        problem, _, target, machine = self
        ways = (
            quantized_planner.evaluated(problem, choice, NUMBERS, target, machine)
            for choice in choices
        )
        return iter(sorted((way for way in ways if way.seconds <= most), key=lambda w: w.seconds))

    def starting(self) -> list[Any]:
        """Return every algorithm with every instruction, the planner's choice first."""
        problem, request, target, machine = self
        return list(quantized_planner.ranked(problem, request, NUMBERS, target, machine))

    def neighbours(self, way: Any, coordinate: str) -> list[Any]:
        """Return what differs from ``way`` in its blocks, or in its register block."""
        choices = dict.fromkeys(self._beside(way, coordinate))
        choices.pop(way.choice, None)
        problem, _, target, _ = self
        able = (one for one in choices if quantized_planner.applies(one, problem, target))
        return list(self.promising(able, float("inf")))

    def _beside(self, way: OneCall, coordinate: str) -> Iterator[Choice]:
        rows, cols = way.work.block
        if coordinate == "blocks":
            for block in (
                *((rows + 1, cols), (rows - 1, cols), (2 * rows, cols), (-(-rows // 2), cols)),
                *((rows, 2 * cols), (rows, -(-cols // 2)), (2 * rows, -(-cols // 2))),
            ):
                high, wide = map(min, block, way.work.output_size)
                if high > 0 and (high, wide) != (rows, cols):
                    yield replace(way.choice, cut=Cut((high, wide)))
        elif coordinate == "register block":
            for step in (-2, -1, 1, 2):
                sizes = (("rows", way.work.spec.rows + step),)
                yield replace(way.choice, sizes=sizes, cut=None)


class QuantizedArena(Arena):
    """The arrays of one such layer."""

    def __init__(self, scope: Scope, timer: Timer | None = None):
        super().__init__(scope, timer)
        self._exact: np.ndarray | None = None

    def _fill(self, problem: Problem) -> None:
        self._arrays = _Arrays(problem)

    def _specs(self, candidate: Any) -> list[Any]:
        return [candidate.work.spec]

    def _prepared(self, candidate: Any, environment: Environment) -> Contestant:
        run = self._arrays.bound(candidate, environment)
        return Contestant(candidate, run, {})

    def _is_right(self, one: Contestant) -> bool:
        """Whether the output is that of the first, to the bit."""
        output = self._arrays.output
        output.fill(0)
        one.run()
        if self._exact is None:
            self._exact = output.copy()
        return bool((output == self._exact).all())


class _Arrays:
    """Input, weights and output of a layer."""

    def __init__(self, problem: Problem):
        rng = np.random.default_rng(0)
        layer, (least, most) = problem.layer, RANGES["int8"]

        def draw(shape: tuple[int, ...]) -> np.ndarray:
            return np.clip(rng.normal(0, _SPREAD, shape), least, most).astype(np.int8)

        self._x = draw(problem.input_shape).view(np.uint8) ^ np.uint8(128)
        self._filters = QuantizedFilters.of(draw(layer.weight_shape), 0, None)
        terms = layer.channels // layer.groups * layer.kernel[0] * layer.kernel[1]
        step = 1 / (_SPREAD * terms**0.5)
        self._scales = Scales.of(layer.filters, step, 1.0, 1.0, NUMBERS.y_zero, "uint8")
        self.output = memory.empty(problem.output_shape, np.dtype(np.uint8), "output")

    def bound(self, way: OneCall, environment: Environment) -> Callable[[], None]:
        """Return what computes the output in that way."""
        call = QuantizedCall([way], environment)
        call.packed = call.pack(*packs_of(self._filters, self._scales, None, False))
        return lambda: call(self._x, self.output)


def fastest(problem: Problem, algorithm: str, target: Target, machine: Machine) -> OneCall:
    """Return the fastest way of an algorithm on one thread, as predicted."""
    return quantized_planner.ranked(problem, Request(algorithm), NUMBERS, target, machine)[0]
