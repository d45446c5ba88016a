"""Convolutions of 8-bit integers bound to their kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from winogen.conv import memory
from winogen.conv.execute import Call, Environment
from winogen.conv.plan import Prediction
from winogen.conv.quantized_planner import CallNumbers, QuantizedCandidate, rank
from winogen.conv.query import Query
from winogen.conv.solver import Offer, Solver
from winogen.conv.stock import build_of
from winogen.records import Precision


class QuantizedKernels(Solver):
    """Kernels of 8-bit integers."""

    def __init__(self, numbers: CallNumbers):
        self._numbers = numbers

    def offer(self, query: Query, best: Offer | None = None) -> Offer:
        """Return what is predicted to be fastest."""
        ranked = rank(query, self._numbers)
        return Offer(self, query, ranked[0].work.spec.target, ranked, query.request.threads)

    def bind(self, offer: Offer, environment: Environment) -> QuantizedCall:
        """Return a call of its kernel, which lacks packed filters."""
        return QuantizedCall(offer.candidates, environment)

    def prediction(self, offer: Offer, candidate: QuantizedCandidate) -> Prediction:
        """Return what is expected of a candidate."""
        choice, dot = candidate.choice, candidate.work.spec.dot.name
        return Prediction(candidate.seconds, 0.0, choice.algorithm, None, dot)

    def described(self, offer: Offer) -> dict[str, Any]:
        """Return the choice, the sizes and the C of its kernel."""
        best = offer.best
        return {
            "dtype": "int8",
            "precision": Precision("int8", "int8", "int8", "int8", "int32", "int8"),
            "variant": best.choice.variant,
            "sizes": best.choice.sizes,
            "workspace_bytes": best.workspace_bytes,
            "packed_weight_bytes": best.work.packed_bytes,
            "multiplications": best.work.products,
            "measured": best.measured,
            "with_compiler": best.missed,
            "source": str(build_of(best.work.spec).source),
        }


class QuantizedCall(Call):
    """A call for inputs of one shape, bound to its kernel and to packed filters."""

    def __init__(self, ranked: Sequence[QuantizedCandidate], environment: Environment):
        best = ranked[0]
        super().__init__(best.work.spec, best.work, environment, best.seconds)
        self.packed = np.empty(0, np.uint8)  # `QConv2d` packs them at once

    def __call__(self, x: np.ndarray, y: np.ndarray, add: np.ndarray | None = None) -> None:
        """Compute ``y``; nothing is checked. ``add`` is of its shape."""
        pointer = self.kernel.pointer
        arrays = [pointer(x), pointer(self.packed)]
        if self.work.spec.in_reals:
            if add is not None and add.strides != y.strides:
                add = _laid_out_as(y, add)
            arrays.append(pointer(add))
        self.run(*arrays, pointer(y))


def _laid_out_as(array: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return a copy of another array of its shape whose numbers lie as far apart."""
    last = sum(step * (size - 1) for step, size in zip(array.strides, array.shape))
    room = memory.empty((last + other.itemsize,), np.dtype(np.uint8), "add")
    copy = np.ndarray(array.shape, other.dtype, room, strides=array.strides)
    copy[...] = other
    return copy
