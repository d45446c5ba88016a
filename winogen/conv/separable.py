"""Filters that are a column times a row, as a blur's: found by their singular values."""

from __future__ import annotations

from math import prod

import numpy as np

from winogen.conv.fourier import LEAST_TAPS
from winogen.conv.problem import Layer
from winogen.conv.request import Request
from winogen.records import COMPUTED_TYPES, NUMBERS

# A filter whose largest number's column and row leave more than this part of it is none.
_CLEARLY = 0.25


def distance(layer: Layer, request: Request, weight: np.ndarray) -> float | None:
    """Return how far the filters are from products of a column and a row; None where that is too
    far, or does not matter.

    It is the largest part of a filter, by its norm, that its first singular value leaves: the error
    of outputs on normal data, relative to them. Zero where the second one is at most a unit in the
    last place of the first. More is allowed within the tolerance of the request.
    """
    kernel = layer.kernel
    if (
        request.algorithm != "auto"
        or layer.dtype not in COMPUTED_TYPES
        or layer.channels != layer.groups
        or len(kernel) != 2
        or min(kernel) < 2
        or prod(kernel) < LEAST_TAPS
        or request.asks_for_numbers
        or not _nearly(weight)
    ):
        return None
    values = np.linalg.svd(weight[:, 0].astype(np.float64), compute_uv=False)
    unit = 2.0 ** (1 - NUMBERS[layer.dtype].bits)
    if (values[:, 1] <= unit * values[:, 0]).all():
        return 0.0
    if request.tolerance is None:
        return None
    norms = np.sqrt((values**2).sum(axis=1))
    rests = np.sqrt((values[:, 1:] ** 2).sum(axis=1))
    part = float((rests / np.where(norms > 0, norms, 1)).max())
    return part if part < request.tolerance else None


def factors(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return filters (M, 1, KH, KW) as columns (M, 1, KH, 1) and rows (M, 1, 1, KW), rounded once.

    >>> column, row = factors(np.full((1, 1, 2, 3), 4.0))
    >>> np.allclose(column * row, 4)
    True
    """
    u, values, v = np.linalg.svd(weight[:, 0].astype(np.float64), full_matrices=False)
    root = np.sqrt(values[:, :1])
    columns, rows = u[:, :, 0] * root, v[:, 0] * root
    return (
        np.ascontiguousarray(columns[:, None, :, None].astype(weight.dtype)),
        np.ascontiguousarray(rows[:, None, None].astype(weight.dtype)),
    )


def _nearly(weight: np.ndarray) -> bool:
    """Whether singular values are worth their time."""
    with np.errstate(all="ignore"):
        for filter in weight[:, 0].astype(np.float64):
            row, column = np.unravel_index(np.abs(filter).argmax(), filter.shape)
            pivot = filter[row, column]
            if not np.isfinite(filter).all():
                return False
            if pivot:
                rest = filter - np.outer(filter[:, column] / pivot, filter[row])
                if not np.abs(rest).max() <= _CLEARLY * abs(pivot):
                    return False
    return True
