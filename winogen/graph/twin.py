"""A segment step by step in numpy and `Conv2d`, for as long as the kernels have no seams."""

from __future__ import annotations

from typing import Any

import numpy as np

from winogen.conv import Conv2d
from winogen.graph.lower import Step
from winogen.graph.places import Place


def run(steps: list[Step], buffers: dict[Any, np.ndarray]) -> None:
    """Run steps on buffers (N, C, H, W)."""

    def at(place: Place) -> np.ndarray:
        return buffers[place.buffer][:, place.channel : place.channel + place.channels]

    for step in steps:
        options = {**step.op.options, "activation": None}
        x = np.ascontiguousarray(at(step.input))
        y = Conv2d(step.op.weight, step.op.bias, **options)(x)
        if step.add:
            y = y + at(step.add)
        y = activate(y, step.op.activation)
        if step.add_after:
            y = y + at(step.add_after)
        at(step.output)[...] = y


def activate(y: np.ndarray, activation: Any) -> np.ndarray:
    """Apply an activation as `conv2d` spells it."""
    name, *parameters = (activation,) if not isinstance(activation, tuple) else activation
    kind = y.dtype
    if name is None:
        return y
    if name == "relu":
        return np.maximum(y, 0)
    if name == "relu6":
        return np.clip(y, 0, 6)
    if name == "clip":
        return np.clip(y, *parameters).astype(kind)
    if name in ("leaky_relu", "prelu"):
        slope = np.reshape(parameters[0], (-1, 1, 1)) if name == "prelu" else parameters[0]
        return np.where(y < 0, y * slope, y).astype(kind)
    y = y.astype(np.float64)
    if name == "silu":
        return (y / (1 + np.exp(-y))).astype(kind)
    if name == "hardswish":
        return (y * np.clip(y + 3, 0, 6) / 6).astype(kind)
    if parameters:  # ("gelu", "tanh")
        inner = np.sqrt(2 / np.pi) * (y + 0.044715 * y**3)
        return (0.5 * y * (1 + np.tanh(inner))).astype(kind)
    import math

    erf = np.vectorize(math.erf, otypes=[np.float64])
    return (0.5 * y * (1 + erf(y / math.sqrt(2)))).astype(kind)
