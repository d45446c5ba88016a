"""Kinds of arrays: the data of a layer in them, the exact result, and who computes it.

Arrays are rounded to them before the exact result is computed, so an error is the convolution's
alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from winogen.records import ARRAY_TYPES, FLYTE_TYPES, NARROW_TYPES
from winogen.tuning.layers import BenchLayer
from winogen_lab.bench import quantized, reference

Data = Callable[[BenchLayer], tuple[np.ndarray, np.ndarray]]
Exact = Callable[[BenchLayer, np.ndarray, np.ndarray], np.ndarray]


class Kind(NamedTuple):
    """How layers with one type of arrays are measured."""

    data: Data  # input and weights
    exact: Exact  # their convolution, float64
    task: str  # of those in `winogen_lab.peers`


def _rounded(dtype: str, layer: BenchLayer) -> tuple[np.ndarray, np.ndarray]:
    """The usual data, rounded to a narrower type; float32."""
    from winogen.rounding.formats import FORMATS

    x, weight = (FORMATS[dtype].round(array) for array in layer.data())
    return x.astype(np.float32), weight.astype(np.float32)


KINDS: dict[str, Kind] = {
    **{
        dtype: Kind(
            partial(_rounded, dtype) if dtype in NARROW_TYPES else BenchLayer.data,
            reference.exact,
            "layer",
        )
        for dtype in ARRAY_TYPES
        if dtype not in FLYTE_TYPES
    },
    "int8": Kind(quantized.data, quantized.exact, "int8"),
}
DTYPES = tuple(KINDS)
