"""Layers run as others that have the same numbers at the same places: see `Problem.folded`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from winogen.conv.executable import Arrays, Executable, Kept
from winogen.conv.plan import Plan
from winogen.conv.problem import Layer, Problem


class Folded(Executable):
    """A problem bound as another one: what runs, ``maps``, is bound to ``problem.folded``."""

    def __init__(self, problem: Problem, maps: Executable):
        super().__init__(problem, maps.target, maps.calls)
        self._has_fewer_axes = problem.folded.layer.rank < problem.layer.rank
        self._maps = maps
        self.workspace_bytes = maps.workspace_bytes

    def pack(self, weight: np.ndarray, kept: Kept | None = None) -> tuple[Any, ...]:
        """Return the packed weights of the other problem."""
        return self._maps.pack(weight.reshape(self._maps.problem.layer.weight_shape), kept)

    def compute(self, packed: tuple[Any, ...], arrays: Arrays) -> None:
        """Run the other problem on views of the arrays."""
        input, bias, slopes, *others = arrays
        x, *maps = map(self._of_maps, (input, *others))
        self._maps.compute(packed, (x, bias, slopes, *maps))

    def run_at(self, packed: tuple[Any, ...], *addresses: int) -> None:
        """Run the other problem, whose numbers are at the same addresses."""
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
