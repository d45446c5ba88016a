"""Filters that are a column times a row, run: two passes, one along each axis.

Exact where a filter sees one channel: the sum over its taps is then a sum of sums. Between the
passes lies a map with the outputs' rows and the input's columns.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from winogen.conv import memory, planner, separable
from winogen.conv.executable import Arrays, Executable, Kept
from winogen.conv.plan import Plan, Prediction
from winogen.conv.problem import Layer, Problem, Seams
from winogen.records import Axis, Epilogue


class Separated(Executable):
    """A problem bound to two others."""

    def __init__(self, whole: Executable, columns: Executable, rows: Executable, distance: float):
        super().__init__(whole.problem, whole.target, (*columns.calls, *rows.calls))
        self._whole, self._passes, self._distance = whole, (columns, rows), distance
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
