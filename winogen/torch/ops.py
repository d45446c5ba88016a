"""The operators: schemas, what they compute on the CPU, and what they return without computing.

| operator | returns |
|---|---|
| `winogen::conv2d` | y = activation(conv + bias + add) + add_after |
| `winogen::conv2d_out` | nothing; writes the same to `out` |
| `winogen::conv2d_input_gradient` | the gradient of the input of a convolution with zeros around |
| `winogen::conv2d_weight_gradient` | the gradient of its weight |

They are defined by `Library.define`, since a call through `torch.library.custom_op` takes twice as
long. The last three serve the derivatives in `winogen/torch/gradients.py`.
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
from winogen.torch.arrays import array, layout, memory_format, tensor
from winogen.torch.settings import LayerSettings, settings
from winogen.torch.shortcut import whole

library = torch.library.Library("winogen", "FRAGMENT")

_ARGUMENTS = """
Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, int[] padding=[0, 0],
int[2] dilation=1, int groups=1, str padding_mode="zeros",
str? activation=None, float[] parameters=[], Tensor? slopes=None,
Tensor? add=None, Tensor? add_after=None,
str algorithm="auto", int[] tile=[], str? points=None, str? moduli=None, str? order=None,
str edge="discard", str border="unswitch", int? workspace_limit=None, float? tolerance=None,
int? threads=None
""".replace("\n", " ").strip()
_GEOMETRY = (
    "int[2] stride, int[4] padding, int[2] dilation, int groups, "
    'str algorithm="auto", float? tolerance=None, int? threads=None'
)
library.define(f"conv2d({_ARGUMENTS}) -> Tensor")
library.define(f"conv2d_out({_ARGUMENTS}, *, Tensor(a!) out) -> ()")
library.define(
    f"conv2d_input_gradient(Tensor gradient, Tensor weight, SymInt[2] size, {_GEOMETRY}) -> Tensor"
)
library.define(
    "conv2d_weight_gradient(Tensor input, Tensor gradient, SymInt[2] kernel, "
    f"{_GEOMETRY}) -> Tensor"
)


_TENSORS = ("input", "weight", "bias", "slopes", "add", "add_after")


def collected(
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    padding_mode: str = "zeros",
    activation: str | None = None,
    parameters: Sequence[float] = (),
    slopes: Tensor | None = None,
    add: Tensor | None = None,
    add_after: Tensor | None = None,
    *rest: Any,
) -> tuple[LayerSettings, Tensor | None, Tensor | None, Tensor | None]:
    """Return settings, slopes, add and add_after, of an operator's arguments behind the bias."""
    plain = tuple(tuple(one) if isinstance(one, (list, tuple)) else one for one in rest)
    asked = settings(
        tuple(stride),
        tuple(padding),
        tuple(dilation),
        groups,
        padding_mode,
        activation,
        tuple(parameters),
        *plain,
    )
    if (slopes is None) == (activation == "prelu"):
        raise InvalidValue(
            f"slopes: got {None if slopes is None else 'a tensor'} with activation "
            f'{activation!r}; allowed: a tensor (M,) or (1,) with "prelu", else None'
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
    """Compute `winogen::conv2d` by a kernel, into ``out`` if that is given.

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
    if channels_around(view, way):
        conv(array(input, way), view, **seams)
    else:
        out.copy_(tensor(conv(array(input, way), **seams), way))
    return out


def _conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, *rest: Any) -> Tensor:
    asked, slopes, add, add_after = collected(*rest)
    check(input, weight, bias, slopes, add, add_after)
    training = trained(weight, bias, slopes)
    return run(input, weight, bias, asked, slopes, add, add_after, trained=training)


def _conv2d_out(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, *rest: Any, out: Tensor
) -> None:
    asked, slopes, add, add_after = collected(*rest)
    check(input, weight, bias, slopes, add, add_after)
    inputs = input, weight, bias, slopes, add, add_after
    if torch.is_grad_enabled() and any(one is not None and one.requires_grad for one in inputs):
        raise Unsupported(
            "out: got tensors that require gradients; allowed: winogen::conv2d, which returns a "
            "new tensor, or torch.no_grad()"
        )
    if out.shape != _output_shape(input, weight, asked):
        raise InvalidValue(
            f"out: got shape {tuple(out.shape)}; allowed: {_output_shape(input, weight, asked)}"
        )
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


def check(input: Tensor, weight: Tensor, *others: Tensor | None) -> None:
    """Raise InvalidType or InvalidValue for tensors that the operator does not take.

    What `winogen.Conv2d` tells from arrays is left to it, except for what numpy cannot view.
    """
    if forward_ad._current_level >= 0:
        raise Unsupported(
            "input: got a call inside forward-mode differentiation; allowed: reverse mode, or "
            "winogen.torch.conv2d, which leaves such calls to torch"
        )
    if input.dim() != 4:
        raise InvalidValue(
            f"input: got shape {tuple(input.shape)}; allowed: 4 axes (N, C, H, W), which "
            "winogen.torch.conv2d adds to a single image"
        )
    if weight.dim() != 4:
        raise InvalidValue(
            f"weight: got shape {tuple(weight.shape)}; allowed: 4 axes (M, C/groups, KH, KW)"
        )
    for name, one in zip(_TENSORS, (input, weight, *others)):
        if one is None:
            continue
        if one.dtype not in (torch.float32, torch.float64):
            raise InvalidType(f"{name}: got {one.dtype}; allowed: torch.float32 or torch.float64")
        if one.dtype != weight.dtype:
            raise InvalidType(f"{name}: got {one.dtype}; allowed: {weight.dtype}, as weight has")


def _output_shape(input: Tensor, weight: Tensor, asked: LayerSettings) -> tuple:
    """The shape of y, of sizes that may be symbolic; raises InvalidValue where there is none."""
    top, bottom, left, right = asked.padding
    if input.shape[1] != weight.shape[1] * asked.groups or weight.shape[0] % asked.groups:
        raise InvalidValue(
            f"groups: got {asked.groups} with input {tuple(input.shape)} and weight "
            f"{tuple(weight.shape)}; allowed: C channels, weight (M, C/groups, KH, KW), M a "
            "multiple of groups"
        )
    sizes = []
    for axis, (before, after) in enumerate(((top, bottom), (left, right))):
        padded = input.shape[2 + axis] + before + after
        reach = asked.dilation[axis] * (weight.shape[2 + axis] - 1) + 1
        if padded < reach:
            raise InvalidValue(
                f"weight: got a kernel reaching over {reach} along axis {2 + axis}; allowed: at "
                f"most the padded input, {padded}"
            )
        sizes.append((padded - reach) // asked.stride[axis] + 1)
    return (input.shape[0], weight.shape[0], *sizes)


def _fake_conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, *rest: Any) -> Tensor:
    asked, *tensors = collected(*rest)
    check(input, weight, bias, *tensors)
    shape = _output_shape(input, weight, asked)
    _, add, add_after = tensors
    for name, one in (("add", add), ("add_after", add_after)):
        if one is not None and one.shape != shape:
            raise InvalidValue(f"{name}: got shape {tuple(one.shape)}; allowed: {shape}")
    for name, one, counts in (
        ("bias", bias, weight.shape[:1]),
        ("slopes", tensors[0], (weight.shape[0], 1)),
    ):
        if one is not None and (one.dim() != 1 or one.shape[0] not in counts):
            allowed = " or ".join(f"({count},)" for count in counts)
            raise InvalidValue(f"{name}: got shape {tuple(one.shape)}; allowed: {allowed}")
    return _empty(shape, input, layout(input, weight))


def _empty(shape: Sequence, like: Tensor, way: str) -> Tensor:
    return torch.empty(
        shape, dtype=like.dtype, device=like.device, memory_format=memory_format(way)
    )


def _fake_conv2d_out(input: Tensor, weight: Tensor, *rest: Any, out: Tensor) -> None:
    _fake_conv2d(input, weight, *rest)


library.impl("conv2d", _conv2d, "CPU")
library.impl("conv2d_out", _conv2d_out, "CPU")
torch.library.register_fake("winogen::conv2d", _fake_conv2d, lib=library)
torch.library.register_fake("winogen::conv2d_out", _fake_conv2d_out, lib=library)
