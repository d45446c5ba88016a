"""Layers run as others that have the same numbers at the same places: see `Problem.folded`."""

from __future__ import annotations

from typing import Any

import numpy as np

from winogen.conv.executable import Arrays, Executable, Kept
from winogen.conv.execute import Environment
from winogen.conv.plan import Plan, Prediction
from winogen.conv.problem import Layer, Problem
from winogen.conv.query import Query
from winogen.conv.solver import Offer, Solver, chosen


class Folded(Executable):
    """A problem bound as another one: what runs, ``maps``, is bound to ``problem.folded``."""

    def __init__(self, offer: Offer, maps: Executable):
        super().__init__(offer, maps.calls)
        self._has_fewer_axes = offer.problem.folded.layer.rank < offer.problem.layer.rank
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


class Folding(Solver):
    """Layers that have better kernels as others; whose solvers have the say."""

    exclusive = True

    def offer(self, query: Query, best: Offer | None = None) -> Offer | None:
        """Return the offer for the other problem; None where there is no other."""
        problem, request = query.problem, query.request
        if problem.folded is problem:
            return None
        asked = request.folded(problem.layer)
        found = chosen(query._replace(problem=problem.folded, request=asked))
        return Offer(self, query, found.target, [found], found.threads)

    def alone(self, offer: Offer) -> float:
        """Return the seconds of the other problem on one thread."""
        return offer.best.solver.alone(offer.best)

    def bind(self, offer: Offer, environment: Environment) -> Folded:
        """Return it bound as the other problem."""
        return Folded(offer, offer.best.bind(environment))

    def prediction(self, offer: Offer, candidate: Offer) -> Prediction:
        """Return what is expected of the other problem."""
        return _unfolded(offer.problem, candidate.prediction)

    def described(self, offer: Offer) -> dict[str, Any]:
        """Return the plan of the other problem, on the axes that this one has."""
        problem, plan = offer.problem, Plan.of(offer.best)
        shown = {name: value for name, value in vars(plan).items() if name not in problem.shapes}
        shown["predictions"] = tuple(_unfolded(problem, one) for one in plan.predictions)
        for name, absent in (("tile", 1), ("points", None), ("moduli", None)):
            shown[name] = unfolded(problem.layer, shown[name], absent)
        return shown


def _unfolded(problem: Problem, one: Prediction) -> Prediction:
    return one._replace(tile=unfolded(problem.layer, one.tile, 1))


def unfolded(layer: Layer, along: tuple[Any, ...] | None, absent: Any) -> tuple[Any, ...] | None:
    """Return what is given along the axes of ``layer.folded``, along those of the layer.

    Axes that the folded layer lacks have ``absent``.
    """
    return along and (*along, *[absent] * (layer.rank - len(along)))
