"""winogen as a user calls it: `Conv2d` on a numpy array, everything included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from winogen.bench.layers import BenchLayer
from winogen.bench.peers import Way


def ways(
    layer: BenchLayer,
    x: np.ndarray,
    weight: np.ndarray,
    threads: int,
    layout: str = "NCHW",
    algorithms: Sequence[str] = ("auto",),
    tile: int | tuple[int, int] | None = None,
    tolerance: float | None = None,
) -> dict[str, Callable[[], Way]]:
    """One `Conv2d` per algorithm; ``tile`` is for the Winograd ones."""
    return {
        name: partial(_conv, layer, x, weight, threads, layout, name, tile, tolerance)
        for name in algorithms
    }


def _conv(
    layer: BenchLayer,
    x: np.ndarray,
    weight: np.ndarray,
    threads: int,
    layout: str,
    algorithm: str,
    tile: int | tuple[int, int] | None,
    tolerance: float | None,
) -> Way:
    from winogen.conv import Conv2d

    conv = Conv2d(
        weight,
        stride=layer.stride,
        padding=tuple((size, size) for size in layer.padding),
        dilation=layer.dilation,
        groups=layer.groups,
        layout=layout,
        algorithm=algorithm,
        tile=None if algorithm in ("direct", "im2col") else tile,
        tolerance=tolerance,
        threads=threads,
    )
    nhwc = layout == "NHWC"
    data = np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if nhwc else x
    plan = conv.plan(data.shape)
    facts = {
        "algorithm": plan.algorithm,
        "tile": None if plan.tile is None else list(plan.tile),
        "workspace_bytes": plan.workspace_bytes,
        "packed_weight_bytes": plan.packed_weight_bytes,
        "multiplications": plan.multiplications,
        "predicted_s": plan.predictions[0][0],
    }
    return Way(lambda: conv(data), lambda y: y.transpose(0, 3, 1, 2) if nhwc else y, facts)
