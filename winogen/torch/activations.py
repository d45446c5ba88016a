"""Activations by torch: their values, and their derivatives for the backward pass.

``saved`` is the output of the activation where the derivative can be told from it
(`told_by_output`), else what went into it. Every function here can be differentiated again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from winogen.records import ACTIVATIONS


def apply(name: str | None, parameters: tuple[Any, ...], z: torch.Tensor) -> torch.Tensor:
    """Return the activation of ``z``, (N, C, H, W); the parameter of "prelu" is a tensor (C,)."""
    if name is None:
        return z
    entry = ACTIVATIONS[name]
    arguments = entry.given(entry.torch[0], parameters)
    if arguments is None:
        result: torch.Tensor = entry.formula(torch, z, *parameters)
    else:
        result = getattr(F, entry.torch[0].names.split()[0])(z, **arguments)
    return result


def told_by_output(name: str | None, parameters: tuple[float, ...]) -> bool:
    """Whether `derivative` needs the output only, and not what went into the activation."""
    if name is None:
        return True
    return not ACTIVATIONS[name].per_filter and ACTIVATIONS[name].by_output(*parameters)


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
    backward = ACTIVATIONS[name].backward
    if slopes is None:
        return backward(torch.ops.aten, gradient, saved, *parameters), None
    pixels = range(2, gradient.dim())
    each = slopes.view(1, -1, *(1 for _ in pixels))
    into, of_slopes = backward(torch.ops.aten, gradient, saved, each)
    return into, of_slopes.sum((0, *pixels)) if len(slopes) > 1 else of_slopes.sum().reshape(1)
