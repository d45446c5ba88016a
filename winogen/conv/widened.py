"""Pictures of integers by ways that know floats alone: widened before, rounded behind, by numpy.

Fourier transforms and two passes have no kernels that read integers. Large filters gain so much by
them that passes over the whole picture do not matter.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from winogen.conv import memory
from winogen.conv.executable import Arrays, Executable, Kept
from winogen.conv.execute import Environment
from winogen.conv.fourier import is_large
from winogen.conv.plan import Plan, Prediction
from winogen.conv.problem import Layer, Problem
from winogen.conv.query import Query
from winogen.conv.request import Request
from winogen.conv.solver import Offer, Solver, chosen
from winogen.conv.solver import looked as all_looked
from winogen.records import PIXEL_TYPES

_AT_ONCE = 1 << 14  # numbers that stay in the first caches between the steps of rounding
# Bytes that the steps move for each number, in caches and memory, besides those of the arrays.
_MOVED = 16


class Widened(Executable):
    """A problem of integers bound to the same one of float32."""

    def __init__(self, offer: Offer, floats: Executable):
        super().__init__(offer, floats.calls)
        self._floats = floats
        self.workspace_bytes = floats.workspace_bytes + _between_bytes(floats.problem)

    def pack(self, weight: np.ndarray, kept: Kept | None = None) -> tuple[Any, ...]:
        """Return the packed weights of the problem of float32."""
        return self._floats.pack(weight, kept)

    def compute(self, packed: tuple[Any, ...], arrays: Arrays) -> None:
        """Widen the arrays, compute, and round what comes of it."""
        input, bias, slopes, add, add_after, output = arrays
        wide = [None if one is None else _widened(one) for one in (input, add, add_after)]
        y = memory.empty(self.output_shape, self._floats.dtype, "output before it is rounded")
        self._floats.compute(packed, (wide[0], bias, slopes, *wide[1:], y))
        _round(y, output)


class Widening(Solver):
    """Integers as floats, where these have a way that is so much faster than kernels."""

    def looked(self, layer: Layer, request: Request, weight: np.ndarray) -> Request:
        """Return the request with what is to be known of the weights, as of float32."""
        if layer.dtype not in PIXEL_TYPES:
            return request
        return all_looked(_of_floats(layer), request, weight)

    def offer(self, query: Query, best: Offer | None = None) -> Offer | None:
        """Return what is taken for floats; None of floats, and of kernels, which read integers."""
        problem = query.problem
        if problem.layer.dtype not in PIXEL_TYPES or not (best is None or is_large(problem)):
            return None
        found = chosen(query._replace(problem=_floats(problem)))
        if best is not None and found.solver is best.solver:
            return None
        return Offer(self, query, found.target, [found], found.threads, best, found.no_kernel)

    def alone(self, offer: Offer) -> float:
        """Return the seconds of the floats on one thread, and of the steps before and behind."""
        return offer.best.solver.alone(offer.best) + _seconds(offer)

    def bind(self, offer: Offer, environment: Environment) -> Widened:
        """Return it bound to the problem of floats."""
        return Widened(offer, offer.best.bind(environment))

    def prediction(self, offer: Offer, candidate: Offer) -> Prediction:
        """Return what is expected of the floats, and of the steps before and behind."""
        floats = candidate.prediction
        return floats._replace(seconds=floats.seconds + _seconds(offer))

    def described(self, offer: Offer) -> dict[str, Any]:
        """Return the plan of the problem of floats."""
        plan, own = Plan.of(offer.best), {*offer.problem.shapes, "predictions"}
        shown = {name: value for name, value in vars(plan).items() if name not in own}
        shown["workspace_bytes"] += _between_bytes(offer.best.problem)
        shown["variant"] += ", of integers as float32"
        return shown


def _of_floats(layer: Layer) -> Layer:
    return replace(layer, dtype="float32")


def _floats(problem: Problem) -> Problem:
    """The same problem of arrays of float32."""
    return replace(problem, layer=_of_floats(problem.layer))


def _between_bytes(floats: Problem) -> int:
    """The bytes of the input and the output as floats."""
    return (prod(floats.input_shape) + prod(floats.output_shape)) * floats.layer.itemsize


def _seconds(offer: Offer) -> float:
    """What widening and rounding take."""
    floats, machine = offer.best.problem, offer.query.machine
    moved = _between_bytes(floats) + _MOVED * prod(floats.output_shape)
    return moved / float(machine.read_rate(moved)) / (machine.clock_ghz * 1e9)


def _widened(array: np.ndarray) -> np.ndarray:
    wide = memory.empty(array.shape, np.dtype(np.float32), "input as float32")
    wide[...] = array
    return wide


def _round(y: np.ndarray, output: Any) -> None:
    """Round to the nearest integer that there is, ties to even; some rows at a time."""
    most = float(np.iinfo(output.dtype).max)
    axis = next((one for one, count in enumerate(y.shape) if count > 1), 0)  # the outermost
    sums, whole = np.moveaxis(y, axis, 0), np.moveaxis(output, axis, 0)
    step = max(1, _AT_ONCE * len(sums) // sums.size)
    for first in range(0, len(sums), step):
        some = sums[first : first + step]
        np.rint(some, out=some)
        np.clip(some, 0, most, out=some)
        whole[first : first + step] = some
