"""Layers of 8 bits: the data that everybody gets, and what the result should be.

Inputs and weights are the integers that int8 has, without -128. A rival whose inputs are uint8 gets
the same ones with the zero point 128, so that all of them compute the same outputs.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

import numpy as np

from winogen.tuning.layers import BenchLayer
from winogen_lab.bench import reference

_SPREAD = 40.0  # standard deviation of inputs and outputs, in steps


class Steps(NamedTuple):
    """What one step of the integers means: real = scale * integer."""

    x: np.float32
    w: np.ndarray  # (M,) float32
    y: np.float32


def data(layer: BenchLayer) -> tuple[np.ndarray, np.ndarray]:
    """Return input and weights, the same in every run; int8 from -127 to 127."""
    x, weight = layer.data()
    return _codes(x * _SPREAD), _codes(weight * _SPREAD)


def _codes(values: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(values), -127, 127).astype(np.int8)


def steps(layer: BenchLayer) -> Steps:
    """Return the scales of a layer, a different one for each filter, the same in every run."""
    rng = np.random.default_rng(zlib.crc32(layer.name.encode()) + 1)
    w = (rng.uniform(0.5, 1.0, layer.weight[0]) / _SPREAD).astype(np.float32)
    # Of the sum of so many products of normal numbers: few outputs are cut off.
    spread = np.sqrt(np.prod(layer.weight[1:]))
    return Steps(np.float32(1 / _SPREAD), w, np.float32(spread / _SPREAD))


def exact(layer: BenchLayer, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the outputs as QLinearConv defines them, less their zero point; (N, M, OH, OW).

    Float64 holds the sums exactly. Raises WrongReference as `reference.exact` does.
    """
    sums = reference.exact(layer, x, weight)
    scale = steps(layer)
    factor = (scale.x * scale.w / scale.y).reshape(1, -1, 1, 1)
    return np.clip(np.rint(sums * factor.astype(np.float64)), -128, 127)
