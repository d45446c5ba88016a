"""The operator: its schema, what it computes on the CPU, and what it returns without computing.

| operator | returns |
|---|---|
| `winogen::convolution` | y = activation(conv + bias + add) + add_after, of one to three axes |
| `winogen::convolution_out` | nothing; writes the same to `out` |
| `winogen::convolution_weight_gradient` | the gradient of the weight |

The gradient of the input is a transposed convolution, and that of a transposed one an ordinary
convolution, so that the first operator is its own derivative. They are defined by `Library.define`,
since a call through `torch.library.custom_op` takes twice as long. The last one is in
`winogen/torch/gradients.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from winogen.conv.seams import channels_around
from winogen.errors import InvalidType, InvalidValue, Unsupported
from winogen.torch import packing
from winogen.torch.arrays import array, layout, memory_format, named, tensor
from winogen.torch.settings import LayerSettings, settings
from winogen.torch.shortcut import whole

library = torch.library.Library("winogen", "FRAGMENT")

_ARGUMENTS = """
Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] padding=0,
int[1] dilation=1, int groups=1, str padding_mode="zeros",
str? activation=None, float[] parameters=[], Tensor? slopes=None,
Tensor? add=None, Tensor? add_after=None,
str algorithm="auto", int[] tile=[], str? points=None, str? moduli=None, str? order=None,
str edge="discard", str border="unswitch", int? workspace_limit=None, float? tolerance=None,
int? threads=None, bool transposed=False, int[1] output_padding=0
""".replace("\n", " ").strip()
library.define(f"convolution({_ARGUMENTS}) -> Tensor")
library.define(f"convolution_out({_ARGUMENTS}, *, Tensor(a!) out) -> ()")


_TENSORS = ("input", "weight", "bias", "slopes", "add", "add_after")


def collected(
    weight: Tensor, *given: Any
) -> tuple[LayerSettings, Tensor | None, Tensor | None, Tensor | None]:
    """Return settings, slopes, add and add_after, of an operator's arguments behind the bias."""
    if weight.dim() not in (3, 4, 5):
        raise InvalidValue(
            f"weight: got shape {tuple(weight.shape)}; allowed: 3 to 5 axes (M, C/groups, ...)"
        )
    plain = tuple(tuple(one) if isinstance(one, (list, tuple)) else one for one in given)
    slopes, add, add_after = (*plain[7:10], None, None, None)[:3]
    asked = settings(weight.dim() - 2, *plain[:7], *plain[10:])
    if (slopes is None) == (asked.activation == "prelu"):
        raise InvalidValue(
            f"slopes: got {None if slopes is None else 'a tensor'} with activation "
            f'{asked.activation!r}; allowed: a tensor (M,) or (1,) with "prelu", else None'
        )
    return asked, slopes, add, add_after


def run(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    asked: LayerSettings,
    slopes: Tensor | None = None,
    add: Tensor | None = None,
    add_after: Tensor | None = None,
    out: Tensor | None = None,
    trained: bool = False,
    wanted: Any = None,
) -> Tensor:
    """Compute `winogen::convolution` by a kernel, into ``out`` if that is given.

    ``trained``: as `packing.layer` takes it. ``wanted``, if given: what a later call is known by.

    Plain CPU tensors of float32 or float64; anything else raises InvalidType or InvalidValue.
    """
    way = layout(input, weight)
    packed = packing.layer(weight, bias, slopes, asked, way, trained)
    if add is None and add_after is None and out is None:
        short = whole(input, packed, way, wanted)
        if short is not None:
            if wanted is not None:
                packing.keep(weight, short)
            return short.run(input)
    conv, seams = packed.conv, {}
    if add is not None:
        seams["add"] = array(add, way)
    if add_after is not None:
        seams["add_after"] = array(add_after, way)
    if out is None:
        return tensor(conv(array(input, way), **seams), way)
    view = array(out, way)
    if channels_around(view, named(way, asked.rank)):
        conv(array(input, way), out=view, **seams)
    else:
        out.copy_(tensor(conv(array(input, way), **seams), way))
    return out


def _convolution(input: Tensor, weight: Tensor, bias: Tensor | None = None, *rest: Any) -> Tensor:
    asked, slopes, add, add_after = collected(weight, *rest)
    check(asked, input, weight, bias, slopes, add, add_after)
    training = trained(weight, bias, slopes)
    return run(input, weight, bias, asked, slopes, add, add_after, trained=training)


def _convolution_out(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, *rest: Any, out: Tensor
) -> None:
    asked, slopes, add, add_after = collected(weight, *rest)
    check(asked, input, weight, bias, slopes, add, add_after)
    inputs = input, weight, bias, slopes, add, add_after
    if torch.is_grad_enabled() and any(one is not None and one.requires_grad for one in inputs):
        raise Unsupported(
            "out: got tensors that require gradients; allowed: winogen::convolution, which returns "
            "a new tensor, or torch.no_grad()"
        )
    shape = asked.output_shape(input.shape, weight.shape)
    if out.shape != shape:
        raise InvalidValue(f"out: got shape {tuple(out.shape)}; allowed: {shape}")
    run(input, weight, bias, asked, slopes, add, add_after, out, trained(weight, bias, slopes))
    if not out.is_inference():
        torch.autograd.graph.increment_version(out)


def trained(*parameters: Tensor | None) -> bool:
    """Whether parameters may be in training, as far as an operator can see.

    It cannot see whether gradients are wanted: inside of it they never are.
    """
    return not torch.is_inference_mode_enabled() and any(
        one is not None and one.requires_grad for one in parameters
    )


def check(asked: LayerSettings, input: Tensor, weight: Tensor, *others: Tensor | None) -> None:
    """Raise InvalidType or InvalidValue for tensors that the operator does not take.

    What winogen's layers tell from arrays is left to them, except for what numpy cannot view.
    """
    if forward_ad._current_level >= 0:
        raise Unsupported(
            "input: got a call inside forward-mode differentiation; allowed: reverse mode, or "
            "the functions of winogen.torch, which leave such calls to torch"
        )
    axes = asked.rank + 2
    if input.dim() != axes:
        raise InvalidValue(
            f"input: got shape {tuple(input.shape)}; allowed: {axes} axes "
            f"(N, C, {', '.join('DHW'[-asked.rank :])}), as a weight (M, C/groups, ...) of so many "
            "has; the functions of winogen.torch add N to a single image"
        )
    for name, one in zip(_TENSORS, (input, weight, *others)):
        if one is None:
            continue
        if one.dtype not in (torch.float32, torch.float64):
            raise InvalidType(f"{name}: got {one.dtype}; allowed: torch.float32 or torch.float64")
        if one.dtype != weight.dtype:
            raise InvalidType(f"{name}: got {one.dtype}; allowed: {weight.dtype}, as weight has")
    if asked.transposed:  # whose turned filters would be told of
        asked.output_shape(input.shape, weight.shape)


def _fake(input: Tensor, weight: Tensor, bias: Tensor | None = None, *rest: Any) -> Tensor:
    asked, *tensors = collected(weight, *rest)
    check(asked, input, weight, bias, *tensors)
    shape = asked.output_shape(input.shape, weight.shape)
    slopes, add, add_after = tensors
    for name, one in (("add", add), ("add_after", add_after)):
        if one is not None and one.shape != shape:
            raise InvalidValue(f"{name}: got shape {tuple(one.shape)}; allowed: {shape}")
    for name, one, counts in (("bias", bias, shape[1:2]), ("slopes", slopes, (shape[1], 1))):
        if one is not None and (one.dim() != 1 or one.shape[0] not in counts):
            allowed = " or ".join(f"({count},)" for count in counts)
            raise InvalidValue(f"{name}: got shape {tuple(one.shape)}; allowed: {allowed}")
    return empty(shape, input, layout(input, weight))


def empty(shape: Sequence, like: Tensor, way: str) -> Tensor:
    """Return a tensor for an output, which lies as a layout says."""
    form = memory_format(way, len(shape))
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=form)


def _fake_out(input: Tensor, weight: Tensor, *rest: Any, out: Tensor) -> None:
    _fake(input, weight, *rest)


library.impl("convolution", _convolution, "CPU")
library.impl("convolution_out", _convolution_out, "CPU")
torch.library.register_fake("winogen::convolution", _fake, lib=library)
torch.library.register_fake("winogen::convolution_out", _fake_out, lib=library)
