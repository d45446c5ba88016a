"""Filters that are a column times a row, run: two passes, one along each axis.

Exact where a filter sees one channel: the sum over its taps is then a sum of sums. Between the
passes lies a map with the outputs' rows and the input's columns.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from winogen.conv import memory, planner, separable
from winogen.conv.execute import Environment, prepare
from winogen.conv.plan import Plan, Prediction
from winogen.conv.problem import Layer, Problem, Seams
from winogen.conv.request import Request
from winogen.errors import InvalidValue
from winogen.records import Axis, Epilogue, Machine


class Separated:
    """A problem bound to two others, with the interface of `winogen.conv.execute.Prepared`."""

    def __init__(self, whole: Any, columns: Any, rows: Any, distance: float):
        self.problem: Problem = whole.problem
        self.target = whole.target
        self.dtype = whole.dtype
        self.output_shape = whole.output_shape
        self.output_bytes = whole.output_bytes
        self._whole, self._passes, self._distance = whole, (columns, rows), distance
        self.calls = [call for one in self._passes for call in one.calls]
        self.kernels = list(dict.fromkeys(call.kernel for call in self.calls))
        self._between = prod(columns.output_shape) * self.problem.layer.itemsize
        self.workspace_bytes = self._between + max(one.workspace_bytes for one in self._passes)

    @classmethod
    def faster(
        cls, whole: Any, request: Request, machine: Machine, environment: Environment
    ) -> Separated | None:
        """Return the two passes of a problem that is bound as a ``whole``, if they are predicted to
        be faster and keep to the request; None otherwise.
        """
        distance, problem, target = request.separable, whole.problem, whole.target
        assert distance is not None
        first, second = _problems(problem)
        threads = request.threads
        asked = Request(threads=threads, tolerance=request.tolerance)
        limit = request.workspace_limit
        if limit is not None:
            limit -= prod(first.output_shape) * problem.layer.itemsize
            if limit <= 0:
                return None
            asked = replace(asked, workspace_limit=limit)
        try:
            passes = [prepare(one, asked, target, machine, environment) for one in (first, second)]
        except InvalidValue:  # within the limits there is no such way
            return None
        columns, rows = passes
        made = cls(whole, columns, rows, distance)
        if threads > 1:
            # Decided for one thread, so that results do not depend on their number.
            alone = replace(request, threads=1, separable=None)
            one = prepare(problem, alone, target, machine, environment)
            asked = replace(request, threads=1)
            return made if cls.faster(one, asked, machine, environment) else None
        plan, other = made.plan(), whole.plan()
        layer = problem.layer
        most = planner.tolerance_of(layer, request.tolerance) / planner.MARGIN
        if (
            plan.predicted_error > most
            or plan.predictions[0].seconds > other.predictions[0].seconds
        ):
            return None
        return made

    def pack(
        self, weight: np.ndarray, kept: MutableMapping[Any, np.ndarray] | None = None
    ) -> tuple[Any, ...]:
        """Return the packed columns and rows, for `run`."""
        both = zip(self._passes, separable.factors(weight), ("columns", "rows"))
        return tuple(one.pack(array, _Part(kept, name)) for one, array, name in both)

    def run(
        self,
        input: np.ndarray,
        packed: tuple[Any, ...],
        bias: np.ndarray | None,
        output: np.ndarray,
        slopes: np.ndarray | None = None,
        add: np.ndarray | None = None,
        add_after: np.ndarray | None = None,
    ) -> None:
        """Compute ``output`` from arrays that fit the problem; nothing is checked."""
        if not output.size:
            return
        (first, second), (columns, rows) = self._passes, packed
        between = memory.empty(first.output_shape, self.dtype, "map between two passes")
        first.run(input, columns, None, between)
        second.run(between, rows, bias, output, slopes, add, add_after)

    def run_at(self, packed: tuple[Any, ...], *addresses: int) -> None:
        """Compute as `run` does, with arrays given by the addresses of their memory."""
        (first, second), (columns, rows) = self._passes, packed
        between = memory.empty(first.output_shape, self.dtype, "map between two passes")
        at = between.ctypes.data
        first.run_at(columns, addresses[0], 0, 0, 0, 0, at)
        second.run_at(rows, at, *addresses[1:])

    def plan(self) -> Plan:
        """Return the description of what `run` does."""
        whole, (columns, rows) = self._whole.plan(), (one.plan() for one in self._passes)
        seconds = columns.predictions[0].seconds + rows.predictions[0].seconds
        error = columns.predicted_error + rows.predicted_error + self._distance
        algorithms = dict.fromkeys((columns.algorithm, rows.algorithm))
        sources = dict.fromkeys(one.source for one in (columns, rows) if one.source)
        kernel = "x".join(map(str, self.problem.layer.kernel))
        passes = " then ".join(
            f"{'x'.join(map(str, one.weight_shape[2:]))} by {one.variant}"
            for one in (columns, rows)
        )
        return replace(
            whole,
            algorithm=" and ".join(algorithms),
            variant=f"{kernel} in two passes: {passes}",
            tile=None,
            points=None,
            moduli=None,
            threads=max(columns.threads, rows.threads),
            workspace_bytes=self.workspace_bytes,
            packed_weight_bytes=columns.packed_weight_bytes + rows.packed_weight_bytes,
            multiplications=columns.multiplications + rows.multiplications,
            predicted_error=error,
            sizes=(),
            measured=None,
            with_compiler=None,
            predictions=(
                Prediction(seconds, error, "two passes", None, ""),
                *whole.predictions[: planner.ALTERNATIVES - 1],
            ),
            source="\n".join(sources),
            rim_source=None,
        )


class _Part(dict):
    """What is remembered of one of two weights under names that both may use."""

    def __init__(self, kept: MutableMapping[Any, np.ndarray] | None, name: str):
        self._kept, self._name = {} if kept is None else kept, name

    def get(self, key: Any, default: Any = None) -> Any:
        return self._kept.get((self._name, key), default)

    def __setitem__(self, key: Any, value: np.ndarray) -> None:
        self._kept[self._name, key] = value


def _problems(problem: Problem) -> tuple[Problem, Problem]:
    """The problems of the two passes: columns of the input, then rows with all that follows."""
    layer, seams = problem.layer, problem.seams
    height, width = layer.axes
    filters = layer.filters
    columns: Layer = replace(layer, axes=(height, Axis(1)), epilogue=Epilogue())
    rows: Layer = replace(layer, axes=(Axis(1), width), channels=filters, groups=filters)
    first = columns.problem(problem.input_shape)
    first = first.sewn(Seams(seams.input, filters))
    return first, rows.problem(first.output_shape).sewn(seams._replace(input=filters))
