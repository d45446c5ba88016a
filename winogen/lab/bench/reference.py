"""The data that everybody gets, and what the result should be."""

from __future__ import annotations

import zlib

import numpy as np

from winogen.errors import WinogenError
from winogen.tuning.layers import BenchLayer

_SAMPLES = 200
# Far above the rounding of float64 sums, far below any mistake.
_AGREE = 1e-12


class WrongReference(WinogenError):
    """The float64 reference disagrees with the definition of convolution."""


def data(layer: BenchLayer) -> tuple[np.ndarray, np.ndarray]:
    """Return input and weights from the normal distribution, the same in every run; float32."""
    rng = np.random.default_rng(zlib.crc32(layer.name.encode()))
    x = rng.standard_normal(layer.input, dtype=np.float32)
    return x, rng.standard_normal(layer.weight, dtype=np.float32)


def exact(layer: BenchLayer, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the convolution in float64, (N, M, OH, OW).

    It is computed by winogen's direct algorithm, which is fast enough, and compared with the
    definition in numpy at a sample of outputs. Raises WrongReference if they differ.
    """
    from winogen.conv import conv1d, conv2d, conv3d

    convolve = (conv1d, conv2d, conv3d)[layer.rank - 1]
    wide = x.astype(np.float64), weight.astype(np.float64)
    y = convolve(*wide, **layer.options, algorithm="direct")
    check(layer, x, weight, y)
    return y


def check(layer: BenchLayer, x: np.ndarray, weight: np.ndarray, y: np.ndarray) -> None:
    """Raise WrongReference unless ``y`` is right at its corners and at random places."""
    last = [size - 1 for size in y.shape]
    odd = [at if i % 2 else 0 for i, at in enumerate(last)]
    even = [0 if i % 2 else at for i, at in enumerate(last)]
    corners = [(0,) * y.ndim, tuple(last), tuple(odd), tuple(even)]
    rng = np.random.default_rng(0)
    places = corners + [tuple(int(i) for i in rng.integers(y.shape)) for _ in range(_SAMPLES)]
    largest = np.abs(y).max()
    for place in places:
        value = output_at(layer, x, weight, place)
        if not abs(y[place] - value) <= _AGREE * largest:
            raise WrongReference(f"{layer.name}: reference {y[place]} at {place}, really {value}")


def output_at(
    layer: BenchLayer, x: np.ndarray, weight: np.ndarray, place: tuple[int, ...]
) -> float:
    """Return one output by the definition, in float64."""
    image, filter, *position = place
    per_group = layer.weight[1]
    first = filter // (layer.weight[0] // layer.groups) * per_group
    taps, pixels = [], []
    # Along each axis: the taps that fall on the input, and their pixels.
    for at, step, pad, spread, taps_there, size in zip(
        position, layer.stride, layer.padding, layer.dilation, layer.weight[2:], layer.input[2:]
    ):
        positions = at * step - pad + spread * np.arange(taps_there)
        inside = (positions >= 0) & (positions < size)
        taps.append(np.flatnonzero(inside))
        pixels.append(positions[inside])
    patch = x[image, first : first + per_group][(slice(None), *np.ix_(*pixels))]
    part = weight[filter][(slice(None), *np.ix_(*taps))]
    return float(np.sum(patch.astype(np.float64) * part.astype(np.float64)))


def relative_error(y: np.ndarray, y64: np.ndarray) -> float:
    """Return max |y - y64| / max |y64|."""
    return float(np.abs(y - y64).max() / np.abs(y64).max())
