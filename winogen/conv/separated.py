"""Filters that are a column times a row, run: two passes, one along each axis.

Exact where a filter sees one channel: the sum over its taps is then a sum of sums. Between the
passes lies a map with the outputs' rows and the input's columns.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from winogen.conv import memory, separable
from winogen.conv.executable import Arrays, Executable, Kept
from winogen.conv.execute import Environment
from winogen.conv.plan import Plan, Prediction
from winogen.conv.problem import Layer, Problem, Seams
from winogen.conv.query import Query
from winogen.conv.request import Request
from winogen.conv.solver import Offer, Solver, chosen
from winogen.errors import InvalidValue
from winogen.records import COMPUTED_TYPES, Axis, Epilogue


class TwoPassesCandidate(NamedTuple):
    """Two passes instead of one, and how far the filters are from products of both."""

    columns: Offer
    rows: Offer
    distance: float

    @property
    def seconds(self) -> float:
        """Predicted, of both."""
        return self.columns.prediction.seconds + self.rows.prediction.seconds


class Separated(Executable):
    """A problem bound to two others."""

    def __init__(self, offer: Offer, columns: Executable, rows: Executable):
        super().__init__(offer, (*columns.calls, *rows.calls))
        self._passes = columns, rows
        self.workspace_bytes = columns.output_bytes + max(
            one.workspace_bytes for one in self._passes
        )

    def pack(self, weight: np.ndarray, kept: Kept | None = None) -> tuple[Any, ...]:
        """Return the packed columns and rows."""
        both = zip(self._passes, separable.factors(weight), ("columns", "rows"))
        return tuple(one.pack(array, _PassWeights(kept, name)) for one, array, name in both)

    def compute(self, packed: tuple[Any, ...], arrays: Arrays) -> None:
        """Run both passes."""
        (first, second), (columns, rows) = self._passes, packed
        between = memory.empty(first.output_shape, self.dtype, "map between two passes")
        first.compute(columns, (arrays[0], *(None,) * 4, between))
        second.compute(rows, (between, *arrays[1:]))

    def run_at(self, packed: tuple[Any, ...], *addresses: int) -> None:
        """Run both passes, with addresses."""
        (first, second), (columns, rows) = self._passes, packed
        between = memory.empty(first.output_shape, self.dtype, "map between two passes")
        at = between.ctypes.data
        first.run_at(columns, addresses[0], 0, 0, 0, 0, at)
        second.run_at(rows, at, *addresses[1:])


class TwoPasses(Solver):
    """One pass along each axis, for filters that are a column times a row."""

    def looked(self, layer: Layer, request: Request, weight: np.ndarray) -> Request:
        """Return the request with how far the filters are from such products."""
        return replace(request, separable=separable.distance(layer, request, weight))

    def offer(self, query: Query, best: Offer | None = None) -> Offer | None:
        """Return both passes as they are planned by themselves; None where none are."""
        problem, request, distance = query.problem, query.request, query.request.separable
        if distance is None or best is None or problem.layer.dtype not in COMPUTED_TYPES:
            return None
        first, second = passes_of(problem)
        limit = request.workspace_limit
        if limit is not None:
            limit -= prod(first.output_shape) * problem.layer.itemsize
            if limit <= 0:
                return None
        asked = Request(threads=request.threads, tolerance=request.tolerance, workspace_limit=limit)
        try:
            columns, rows = (
                chosen(query._replace(problem=one, request=asked)) for one in (first, second)
            )
        except InvalidValue:  # within the limits there is no such way
            return None
        threads = max(columns.threads, rows.threads)
        found = TwoPassesCandidate(columns, rows, distance)
        return Offer(self, query, best.target, [found], threads, best, best.no_kernel)

    def alone(self, offer: Offer) -> float:
        """Return the seconds of both passes on one thread."""
        return sum(one.solver.alone(one) for one in (offer.best.columns, offer.best.rows))

    def bind(self, offer: Offer, environment: Environment) -> Separated:
        """Return both passes bound to what computes them."""
        return Separated(
            offer, offer.best.columns.bind(environment), offer.best.rows.bind(environment)
        )

    def prediction(self, offer: Offer, candidate: TwoPassesCandidate) -> Prediction:
        """Return what is expected of both."""
        both = candidate.columns.prediction, candidate.rows.prediction
        error = sum(one.error for one in both) + candidate.distance
        return Prediction(candidate.seconds, error, "two passes", None, "")

    def described(self, offer: Offer) -> dict[str, Any]:
        """Return what both passes are computed by."""
        columns, rows = both = [Plan.of(one) for one in offer.best[:2]]
        passes = " then ".join(
            f"{'x'.join(map(str, one.weight_shape[2:]))} by {one.variant}" for one in both
        )
        between = prod(columns.output_shape) * offer.problem.layer.itemsize
        return {
            "algorithm": " and ".join(dict.fromkeys(one.algorithm for one in both)),
            "variant": f"{'x'.join(map(str, offer.problem.layer.kernel))} in two passes: {passes}",
            "workspace_bytes": between + max(one.workspace_bytes for one in both),
            "packed_weight_bytes": columns.packed_weight_bytes + rows.packed_weight_bytes,
            "multiplications": columns.multiplications + rows.multiplications,
            "source": "\n".join(dict.fromkeys(one.source for one in both if one.source)),
        }


class _PassWeights(dict):
    """What is remembered of one of two weights under names that both may use."""

    def __init__(self, kept: Kept | None, name: str):
        self._kept, self._name = {} if kept is None else kept, name

    def get(self, key: Any, default: Any = None) -> Any:
        return self._kept.get((self._name, key), default)

    def __setitem__(self, key: Any, value: np.ndarray) -> None:
        self._kept[self._name, key] = value


def passes_of(problem: Problem) -> tuple[Problem, Problem]:
    """Return the problems of both passes: columns of the input, then rows with all that follows."""
    layer, seams = problem.layer, problem.seams
    height, width = layer.axes
    filters = layer.filters
    columns: Layer = replace(layer, axes=(height, Axis(1)), epilogue=Epilogue())
    rows: Layer = replace(layer, axes=(Axis(1), width), channels=filters, groups=filters)
    first = columns.problem(problem.input_shape)
    first = first.sewn(Seams(seams.input, filters))
    return first, rows.problem(first.output_shape).sewn(seams._replace(input=filters))
