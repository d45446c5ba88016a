"""winogen as a user calls it: `QConv2d` on a numpy array, everything included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from winogen.bench.layers import BenchLayer
from winogen.bench.peers import Way
from winogen.bench.quantized import steps


def ways(
    layer: BenchLayer,
    x: np.ndarray,
    weight: np.ndarray,
    threads: int,
    layout: str = "NCHW",
    algorithms: Sequence[str] = ("auto",),
    dtype: str = "int8",
) -> dict[str, Callable[[], Way]]:
    """One `QConv2d` per algorithm; ``dtype``: of inputs and outputs."""
    return {
        name: partial(_conv, layer, x, weight, threads, layout, name, dtype) for name in algorithms
    }


def _conv(
    layer: BenchLayer,
    x: np.ndarray,
    weight: np.ndarray,
    threads: int,
    layout: str,
    algorithm: str,
    dtype: str,
) -> Way:
    import winogen

    scale, zero = steps(layer), 128 if dtype == "uint8" else 0
    conv = winogen.QConv2d(
        weight,
        stride=layer.stride,
        padding=tuple((size, size) for size in layer.padding),
        dilation=layer.dilation,
        groups=layer.groups,
        w_scale=scale.w,
        x_scale=float(scale.x),
        x_zero=zero,
        y_scale=float(scale.y),
        y_zero=zero,
        layout=layout,
        algorithm=algorithm,
        threads=threads,
    )
    nhwc = layout == "NHWC"
    data = (x.astype(np.int16) + zero).astype(dtype)
    data = np.ascontiguousarray(data.transpose(0, 2, 3, 1)) if nhwc else data
    facts = {"algorithm": algorithm, "tile": None, "workspace_bytes": 0}

    def output(y: np.ndarray) -> np.ndarray:
        found = y.astype(np.float32) - zero
        return found.transpose(0, 3, 1, 2) if nhwc else found

    return Way(lambda: conv(data), output, facts)
