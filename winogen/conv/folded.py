"""Layers run as others that have the same numbers at the same places: see `Problem.folded`."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any

import numpy as np

from winogen.conv.plan import Plan
from winogen.conv.problem import Layer, Problem


class Folded:
    """A problem bound as another one, with the interface of `winogen.conv.execute.Prepared`.

    What runs, ``maps``, is bound to ``problem.folded``.
    """

    def __init__(self, problem: Problem, maps: Any):
        self._has_fewer_axes = problem.folded.layer.rank < problem.layer.rank
        self.problem = problem
        self.target = maps.target
        self.dtype = maps.dtype
        self.output_shape = problem.output_shape
        self.output_bytes = maps.output_bytes
        self._maps = maps
        self.calls = maps.calls
        self.kernels = maps.kernels
        self.workspace_bytes = maps.workspace_bytes

    def pack(
        self, weight: np.ndarray, kept: MutableMapping[Any, np.ndarray] | None = None
    ) -> tuple[Any, ...]:
        """Return the packed weights, for `run`."""
        return self._maps.pack(weight.reshape(self._maps.problem.layer.weight_shape), kept)

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
        x, y, before, after = map(self._of_maps, (input, output, add, add_after))
        self._maps.run(x, packed, bias, y, slopes, before, after)

    def run_at(self, packed: tuple[Any, ...], *addresses: int) -> None:
        """Compute as `run` does, with arrays given by the addresses of their memory."""
        self._maps.run_at(packed, *addresses)

    def plan(self) -> Plan:
        """Return the description of what `run` does."""
        plan, layer = self._maps.plan(), self.problem.layer
        plan = replace(
            plan,
            input_shape=self.problem.input_shape,
            weight_shape=layer.weight_shape,
            output_shape=self.problem.output_shape,
            layout=layer.layout,
        )
        if not self._has_fewer_axes:
            return plan
        return replace(
            plan,
            tile=unfolded(layer, plan.tile, 1),
            points=unfolded(layer, plan.points, None),
            moduli=unfolded(layer, plan.moduli, None),
            predictions=tuple(
                one._replace(tile=unfolded(layer, one.tile, 1)) for one in plan.predictions
            ),
            stride=layer.stride,
        )

    def _of_maps(self, array: np.ndarray | None) -> np.ndarray | None:
        """A view of an array, or of a slice of its channels, as the other problem has it: planes
        as rows of pixels, or the one channel first.
        """
        if array is None:
            return None
        if not self._has_fewer_axes:
            return np.moveaxis(array, -1, -1 - self.problem.layer.rank)
        place = array.ndim - 2 if self.problem.layer.planar else array.ndim - 3
        high, wide = array.shape[place : place + 2]
        view = array.view()
        view.shape = (*array.shape[:place], high * wide, *array.shape[place + 2 :])
        return view


def unfolded(layer: Layer, along: tuple[Any, ...] | None, absent: Any) -> tuple[Any, ...] | None:
    """Return what is given along the axes of ``layer.folded``, along those of the layer.

    Axes that the folded layer lacks have ``absent``.
    """
    return along and (*along, *[absent] * (layer.rank - len(along)))
