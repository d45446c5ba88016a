"""What the result of a layer should be."""

from __future__ import annotations

from typing import Any

import numpy as np

from winogen.conv.arguments import LAYOUTS
from winogen.errors import WinogenError
from winogen.tuning.layers import BenchLayer

_SAMPLES = 200
# Far above the rounding of float64 sums, far below any mistake.
_AGREE = 1e-12


class WrongReference(WinogenError):
    """The float64 reference disagrees with the definition of convolution."""


def exact(layer: BenchLayer, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the convolution in float64, (N, M, OH, OW).

    It is computed by winogen's direct algorithm, which is fast enough, and compared with the
    definition in numpy at a sample of outputs. Raises WrongReference if they differ.
    """
    import winogen.conv

    layout = LAYOUTS[layer.rank][0]
    made = getattr(winogen.conv, layer.class_name)(
        weight.astype(np.float64), **layer.options, algorithm="direct", layout=layout
    )
    y = made(x.astype(np.float64))
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
    # Along each axis: the taps that meet the input, and the pixels that they meet.
    taps: list[Any] = []
    pixels: list[Any] = []
    for axis, at in enumerate(position):
        for found, places in zip((taps, pixels), _met(layer, axis, at)):
            found.append(places)
    channels = layer.input[1] // layer.groups
    group, own = divmod(filter, layer.filters // layer.groups)
    first = group * channels
    filters = weight[first : first + channels, own] if layer.transposed else weight[filter]
    every: Any = slice(None)
    patch = x[image, first : first + channels][(every, *np.ix_(*pixels))]
    part = filters[(every, *np.ix_(*taps))]
    return float(np.sum(patch.astype(np.float64) * part.astype(np.float64)))


def _met(layer: BenchLayer, axis: int, at: int) -> tuple[np.ndarray, np.ndarray]:
    """The taps that meet the input for output ``at`` along an axis, and the pixels they meet."""
    step, spread, padding = layer.stride[axis], layer.dilation[axis], layer.padding[axis]
    taps = np.arange(layer.weight[2 + axis])
    if layer.transposed:  # input i adds tap k to output i * step + k * spread - padding
        places = at + padding - spread * taps
        taps, places = taps[places % step == 0], places[places % step == 0] // step
    else:
        places = at * step - padding + spread * taps
    inside = (places >= 0) & (places < layer.input[2 + axis])
    return taps[inside], places[inside]


def relative_error(y: np.ndarray, y64: np.ndarray) -> float:
    """Return max |y - y64| / max |y64|."""
    return float(np.abs(y - y64).max() / np.abs(y64).max())
