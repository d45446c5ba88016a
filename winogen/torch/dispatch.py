"""Which of three ways a call takes: a kernel, the operator, or torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from winogen.errors import InvalidType
from winogen.torch import activations, gradients, ops
from winogen.torch.request import LayerRequest, checked
from winogen.torch.shortcut import like_before
from winogen.torch.watched import PLAIN, exported, transformed, watched


def call(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    slopes: Tensor | None,
    add: Tensor | None,
    add_after: Tensor | None,
    wanted: LayerRequest,
) -> Tensor:
    """Compute by a kernel at once, by the operator where somebody watches, or by torch.

    The input is (N, C, H, W) or (C, H, W), or has other axes; ``add`` and ``add_after`` have as
    many.
    """
    is_watched = watched()
    if (
        not (is_watched or torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"))
        and add is None
        and add_after is None
        and type(input) in PLAIN
        and type(weight) in PLAIN
    ):
        y = like_before(input, weight, bias, slopes, wanted)
        if y is not None:
            return y
    taken = takes(input, weight)
    if input.dim() == wanted.rank + 1:
        add, add_after = (None if one is None else one.unsqueeze(0) for one in (add, add_after))
        image = input.unsqueeze(0)
        return call(image, weight, bias, slopes, add, add_after, wanted).squeeze(0)
    if not taken or (is_watched and (exported() or transformed())):
        return by_torch(input, weight, bias, slopes, add, add_after, wanted)
    tensors = (input, weight, bias, slopes, add, add_after)
    needed = torch.is_grad_enabled() and any(
        one is not None and one.requires_grad for one in tensors
    )
    alone = not is_watched and all(type(one) in PLAIN for one in tensors)
    if alone and not needed:
        asked = checked(wanted, weight.shape)
        ops.check(asked, *tensors)
        return ops.run(input, weight, bias, asked, slopes, add, add_after, wanted=wanted)
    name, parameters = wanted.activation, wanted.parameters
    if needed and not (activations.told_by_output(name, parameters) and add_after is None):
        # Fused, the backward pass would have to compute again what went into the activation.
        plain = wanted._replace(activation=None, parameters=())
        z = _recorded(alone, input, weight, bias, None, add, None, plain)
        return _finished(z, slopes, add_after, wanted)
    return _recorded(alone, input, weight, bias, slopes, add, add_after, wanted)


def _recorded(
    alone: bool,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    slopes: Tensor | None,
    add: Tensor | None,
    add_after: Tensor | None,
    wanted: LayerRequest,
) -> Tensor:
    """Compute by the operator, or if nobody watches by what is recorded the same way."""
    if alone:
        asked = checked(wanted, weight.shape)
        y: Tensor = gradients.Recorded.apply(asked, input, weight, bias, slopes, add, add_after)
        return y
    plain = wanted.plain()
    return gradients.convolution(
        input, weight, bias, *plain[:7], slopes, add, add_after, *plain[7:]
    )


def _finished(
    z: Tensor, slopes: Tensor | None, add_after: Tensor | None, wanted: LayerRequest
) -> Tensor:
    """What follows the sums, by torch."""
    parameters: tuple[Any, ...] = wanted.parameters if slopes is None else (slopes,)
    y = activations.apply(wanted.activation, parameters, z)
    return y if add_after is None else y + add_after


def takes(input: Tensor, weight: Tensor) -> bool:
    """Whether the kernels compute with such tensors; raises InvalidType for what is no tensor."""
    if not isinstance(input, Tensor):
        raise InvalidType(f"input: got {type(input).__name__}; allowed: a torch tensor")
    dtype = input.dtype
    return (
        input.is_cpu
        and weight.is_cpu
        and (dtype is torch.float32 or dtype is torch.float64)
        and weight.dtype is dtype
        and input.layout is torch.strided
        and not torch.is_autocast_enabled("cpu")
    )


def by_torch(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    slopes: Tensor | None,
    add: Tensor | None,
    add_after: Tensor | None,
    wanted: LayerRequest,
) -> Tensor:
    """Compute the same by torch's own functions, whatever the device and the dtype."""
    ends, rank = wanted.ends, wanted.rank
    padding: Any = tuple(before for before, _ in ends)
    even = padding == tuple(after for _, after in ends)
    if wanted.transposed:
        z = getattr(F, f"conv_transpose{rank}d")(
            input, weight, bias, wanted.stride, padding if even else 0, wanted.output_padding,
            wanted.groups, wanted.dilation,
        )  # fmt: skip
        for axis, (before, after) in enumerate(() if even else ends, 2):
            z = z.narrow(axis, before, z.shape[axis] - before - after)
    else:
        mode: Any = {} if wanted.padding_mode == "zeros" else {"mode": wanted.padding_mode}
        if mode or not even:
            input = F.pad(input, [end for both in reversed(ends) for end in both], **mode)
            padding = 0
        function = getattr(F, f"conv{rank}d")
        z = function(input, weight, bias, wanted.stride, padding, wanted.dilation, wanted.groups)
    return _finished(z if add is None else z + add, slopes, add_after, wanted)
