"""winogen as a user calls it: `QConv2d` on a numpy array, everything included."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from winogen.tuning.layers import BenchLayer
from winogen_lab.bench.quantized import steps
from winogen_lab.peers import Way
from winogen_lab.peers.ours import facts_of

if TYPE_CHECKING:  # versions before it have no such module
    from winogen.typing import Layout2d


def ways(
    layer: BenchLayer,
    x: np.ndarray,
    weight: np.ndarray,
    threads: int,
    variants: Mapping[str, Mapping[str, Any]],
) -> dict[str, Callable[[], Way]]:
    """One `QConv2d` for each of ``variants``: a name, "dtype" and options that are not usual."""
    return {n: partial(_conv, layer, x, weight, threads, **one) for n, one in variants.items()}


def _conv(
    layer: BenchLayer,
    x: np.ndarray,
    weight: np.ndarray,
    threads: int,
    dtype: str = "int8",
    layout: Layout2d = "NCHW",
    **options: Any,
) -> Way:
    import winogen

    scale = steps(layer)
    height, width = layer.padding
    conv = winogen.QConv2d(
        weight,
        stride=layer.stride,
        padding=((height, height), (width, width)),
        dilation=layer.dilation,
        groups=layer.groups,
        w_scale=scale.w,
        x_scale=float(scale.x),
        y_scale=float(scale.y),
        layout=layout,
        threads=threads,
        **options,
    )
    nhwc = layout == "NHWC"
    data = np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if nhwc else x
    facts = _facts(conv, data, **options)

    def output(y: np.ndarray) -> np.ndarray:
        found = y.astype(np.float32)
        return found.transpose(0, 3, 1, 2) if nhwc else found

    return Way(lambda: conv(data), output, facts)


def _facts(
    conv: Any,
    data: np.ndarray,
    algorithm: str = "auto",
    tile: int | None = None,
    product_dtype: str | None = None,
    **_: Any,
) -> dict[str, Any]:
    """What the report says of it, the instructions that multiply included."""
    facts: dict[str, Any] = {"algorithm": algorithm, "tile": None}
    if hasattr(conv, "plan"):
        plan = conv.plan(data.shape, data.dtype.name)
        facts = facts_of(plan)
        instruction = getattr(plan, "instruction", "")
        for best in getattr(plan, "predictions", ())[:1]:
            instruction = best.tag
        if algorithm != "mcmr":
            facts["instructions"] = instruction
    # It is that of outputs before they are rounded to bytes, and says nothing of these.
    facts.pop("predicted_error", None)
    if algorithm == "mcmr":
        side = tile or 4
        facts |= {"tile": [side, side], "product_dtype": product_dtype or "int16"}
    return facts
