"""scipy: filters of pictures and signals, by Fourier transforms and by its plain loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from winogen.tuning.layers import BenchLayer
from winogen_lab.peers import Way

_FEW_TAPS = 121  # beyond, plain loops take seconds


def layer(
    layer: BenchLayer, x: np.ndarray, weight: np.ndarray, threads: int
) -> dict[str, Callable[[], Way]]:
    """All channels in one call of `scipy.signal`, each on its own with `scipy.ndimage`."""
    from scipy import ndimage, signal

    axes = tuple(range(-layer.rank, 0))
    planes, kernels = x[0], weight[:, 0]
    turned = np.ascontiguousarray(np.flip(kernels, axes))  # scipy convolves, layers correlate

    def at_once(convolve: Callable[..., Any]) -> Way:
        return Way(lambda: convolve(planes, turned, mode="same", axes=axes), _batched)

    def one_by_one() -> Way:
        def run() -> Any:
            pairs = zip(planes, kernels)
            return [ndimage.correlate(plane, one, mode="constant") for plane, one in pairs]

        return Way(run, _batched)

    ways: dict[str, Callable[[], Way]] = {
        f"signal.{name}": partial(at_once, getattr(signal, name))
        for name in ("fftconvolve", "oaconvolve")
    }
    if kernels[0].size <= _FEW_TAPS:
        ways["ndimage.correlate"] = one_by_one
    return ways


def _batched(planes: Any) -> np.ndarray:
    return np.asarray(planes, np.float32)[None]
