"""What happens to finished sums, by numpy: where no kernel is there to do it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from winogen.records import ACTIVATIONS, Epilogue

_AT_ONCE = 1 << 13  # numbers of an activation, whose steps need some arrays of as many
_erfc = np.frompyfunc(math.erfc, 1, 1)


class _Functions:
    """What formulas of activations call: numpy's, and what numpy lacks."""

    where, exp, expm1 = np.where, np.exp, np.expm1
    log1p, tanh = np.log1p, np.tanh

    @staticmethod
    def erfc(x: np.ndarray) -> np.ndarray:
        return _erfc(x).astype(x.dtype)


def finished(
    epilogue: Epilogue,
    bias: np.ndarray | None,
    slopes: np.ndarray | None,
    add: np.ndarray | None,
    add_after: np.ndarray | None,
    output: Any,
) -> Callable[[np.ndarray, int, slice, tuple[slice, ...]], None]:
    """Return what stores activation(sums + bias + add) + add_after.

    Its arguments are the sums (filters, …), which it may overwrite, and their image, filters and
    place in the output. ``add``, ``add_after`` and ``output`` are views (N, M, …).
    """

    def store(sums: np.ndarray, image: int, filters: slice, place: tuple[slice, ...]) -> None:
        here: Any = (image, filters, *place)
        along: Any = (slice(None), *(None for _ in place))
        if bias is not None:
            sums += bias[filters][along]
        if add is not None:
            sums += add[here]
        if epilogue.activation == "relu":
            np.maximum(sums, 0, out=sums)
        elif epilogue.activation is not None:
            own = None if slopes is None else slopes[filters]
            _activate(epilogue, own, sums)
        if add_after is not None:
            sums += add_after[here]
        output[here] = sums

    return store


def _activate(epilogue: Epilogue, slopes: np.ndarray | None, sums: np.ndarray) -> None:
    """Apply the activation in place, row by row of each filter."""
    formula = ACTIVATIONS[epilogue.activation or ""].formula
    for filter, plane in enumerate(sums):
        numbers = epilogue.parameters if slopes is None else (slopes[filter],)
        rows = plane if plane.ndim > 1 else plane[None]
        step = max(1, _AT_ONCE * len(rows) // max(1, rows.size))
        for first in range(0, len(rows), step):
            some = rows[first : first + step]
            some[...] = formula(_Functions, some, *numbers)
