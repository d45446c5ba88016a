"""Activations by torch: their values, and their derivatives for the backward pass.

``saved`` is the output of the activation where the derivative can be told from it, else what went
into it. Every function here can be differentiated again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

aten = torch.ops.aten

# Those whose derivative is told by their output: what is negative, or cut off, stays so.
_FROM_OUTPUT = ("relu", "relu6", "clip")


def apply(
    name: str | None,
    parameters: tuple[float, ...],
    slopes: torch.Tensor | None,
    z: torch.Tensor,
) -> torch.Tensor:
    """Return the activation of ``z``, (N, C, H, W); ``slopes`` are those of "prelu", (C,)."""
    if name is None:
        return z
    if name == "prelu":
        return F.prelu(z, slopes)
    return _VALUES[name](z, *parameters)


_VALUES: dict[str, Any] = {
    "relu": F.relu,
    "relu6": F.relu6,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda z: F.gelu(z, approximate="tanh"),
    "hardswish": F.hardswish,
    "leaky_relu": F.leaky_relu,
    "clip": F.hardtanh,
}


SPELLED = (
    '"relu", "relu6", "silu", "gelu", ("gelu", "tanh"), "hardswish", ("leaky_relu", slope), '
    '("prelu", slopes), ("clip", lo, hi)'
)
_PARAMETERS = {"leaky_relu": 1, "clip": 2}


def exists(name: str | None, parameters: tuple[float, ...]) -> bool:
    """Whether there is an activation of this name, with so many parameters."""
    if name is not None and name != "prelu" and name not in _VALUES:
        return False
    return len(parameters) == _PARAMETERS.get(name or "", 0)


def told_by_output(name: str | None, parameters: tuple[float, ...]) -> bool:
    """Whether `derivative` needs the output only, and not what went into the activation."""
    if name == "leaky_relu":
        return parameters[0] >= 0
    return name is None or name in _FROM_OUTPUT


def derivative(
    name: str | None,
    parameters: tuple[float, ...],
    slopes: torch.Tensor | None,
    gradient: torch.Tensor,
    saved: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the gradients of what went into an activation, and of the slopes.

    Where the derivative jumps it is torch's for the same function; "clip" is `F.hardtanh`.
    """
    if name is None:
        return gradient, None
    if name == "prelu":
        assert slopes is not None
        negative = saved <= 0
        into = torch.where(negative, gradient * slopes.view(-1, 1, 1), gradient)
        of_slopes = torch.where(negative, gradient * saved, torch.zeros_like(gradient))
        return into, of_slopes.sum((0, 2, 3)) if len(slopes) > 1 else of_slopes.sum().reshape(1)
    return _DERIVATIVES[name](gradient, saved, *parameters), None


_DERIVATIVES: dict[str, Any] = {
    "relu": lambda g, y: aten.threshold_backward(g, y, 0),
    "relu6": lambda g, y: aten.hardtanh_backward(g, y, 0, 6),
    "clip": aten.hardtanh_backward,
    "leaky_relu": lambda g, y, slope: aten.leaky_relu_backward(g, y, slope, slope >= 0),
    "silu": aten.silu_backward,
    "gelu": lambda g, z: aten.gelu_backward(g, z, approximate="none"),
    "gelu_tanh": lambda g, z: aten.gelu_backward(g, z, approximate="tanh"),
    "hardswish": aten.hardswish_backward,
}
