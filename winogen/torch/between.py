"""Makers of operators that lie between convolutions: padding, pooling, enlarging."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from winogen.graph import Conv, MaxPool, Pad, Repeat, Spread
from winogen.torch.calls import Call, Translation, Untranslated, array, dtype, pair

# --- padding


def pad(call: Call) -> Translation:
    """Return a padding by `F.pad`."""
    values = call.bind("input pad mode value", mode="constant", value=None)
    return padded(call, values["input"], values["pad"], values["mode"], values["value"])


def padded(call: Call, x: Any, sides: Any, mode: str, value: Any) -> Translation:
    """Return a padding; ``sides`` begin with the last axis."""
    modes = {"constant": "zeros", "reflect": "reflect", "replicate": "replicate",
             "circular": "circular"}  # fmt: skip
    ends = list(sides) if isinstance(sides, (tuple, list)) else []
    if len(ends) not in (2, 4) or not all(isinstance(end, int) and end >= 0 for end in ends):
        raise Untranslated
    if mode not in modes or (mode == "constant" and value not in (None, 0)):
        raise Untranslated
    left, right, top, bottom = (*ends, 0, 0)[:4]
    return Translation([Pad((top, bottom, left, right), modes[mode])], [call.map(x)])


def pad_module(mode: str) -> Callable[[Call, Any], Translation]:
    """Return the maker of a module that pads."""
    return lambda call, module: padded(call, call.node.args[0], module.padding, mode, 0)


# --- pooling, enlarging


def max_pool(call: Call) -> Translation:
    """Return the maxima of windows."""
    values = call.bind(
        "input kernel_size stride padding dilation ceil_mode return_indices",
        stride=None,
        padding=0,
        dilation=1,
        ceil_mode=False,
        return_indices=False,
    )
    return pooled(call, values["input"], values)


def max_pool_module(call: Call, module: Any) -> Translation:
    """Return the maxima of windows, of a module."""
    return pooled(call, call.node.args[0], vars(module))


def pooled(call: Call, x: Any, values: Mapping[str, Any]) -> Translation:
    """Return the maxima of windows with these arguments."""
    if pair(values["dilation"]) != (1, 1) or values["return_indices"]:
        raise Untranslated
    kernel, stride, (high, wide) = window(call, x, values)
    return Translation([MaxPool(kernel, stride, (high, high, wide, wide))], [call.map(x)])


def window(call: Call, x: Any, values: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Kernel, stride and padding of a pooling."""
    kernel = pair(values["kernel_size"])
    stride = pair(values["stride"]) if values["stride"] else kernel
    padding = pair(values["padding"])
    if values["ceil_mode"]:
        # Without effect, as long as windows and sizes come out even; they may not for others.
        raise Untranslated
    return kernel, stride, padding


def avg_pool(call: Call) -> Translation:
    """Return the means of windows."""
    values = call.bind(
        "input kernel_size stride padding ceil_mode count_include_pad divisor_override",
        stride=None,
        padding=0,
        ceil_mode=False,
        count_include_pad=True,
        divisor_override=None,
    )
    return averaged(call, values["input"], values)


def averaged(call: Call, x: Any, values: Mapping[str, Any]) -> Translation:
    """A mean is a depthwise convolution; large windows, as over the whole map, stay torch's."""
    kernel, stride, (high, wide) = window(call, x, values)
    if values["divisor_override"] or max(kernel) > 5:
        raise Untranslated
    if (high or wide) and not values["count_include_pad"]:
        raise Untranslated
    channels = call.channels(call.map(x))
    kind = str(dtype(x)).removeprefix("torch.")
    weight = np.full((channels, 1, *kernel), 1 / (kernel[0] * kernel[1]), kind)
    op = Conv(weight, None, stride, (high, high, wide, wide), groups=channels)
    return Translation([op], [x])


def repeated(call: Call, x: Any, scale: Any, mode: str, size: Any) -> Translation:
    """Return a map enlarged by whole factors, to the nearest neighbour."""
    factors = scale if isinstance(scale, (tuple, list)) else (scale, scale)
    whole = all(isinstance(f, (int, float)) and f == int(f) and f >= 1 for f in factors)
    if size is not None or mode != "nearest" or not whole or len(factors) != 2:
        raise Untranslated
    return Translation([Repeat((int(factors[0]), int(factors[1])))], [call.map(x)])


def interpolate(call: Call) -> Translation:
    """Return an enlargement by `F.interpolate`."""
    values = call.bind(
        "input size scale_factor mode align_corners recompute_scale_factor antialias",
        size=None,
        scale_factor=None,
        mode="nearest",
    )
    return repeated(call, values["input"], values["scale_factor"], values["mode"], values["size"])


def upsample(call: Call) -> Translation:
    """Return an enlargement by aten's function."""
    values = call.bind("input output_size scale_factors")
    size, scale = values["output_size"], values["scale_factors"]
    return repeated(call, values["input"], scale, "nearest", size)


def shuffled(call: Call, x: Any, factor: Any) -> Translation:
    """Return channels spread over pixels."""
    return Translation([Spread((int(factor), int(factor)))], [call.map(x)])


def pixel_shuffle(call: Call) -> Translation:
    """Return channels spread over pixels, by a function."""
    values = call.bind("input upscale_factor")
    return shuffled(call, values["input"], values["upscale_factor"])


def transposed_module(call: Call, module: Any) -> Translation:
    """Windows side by side are a convolution 1x1, whose filters are spread over pixels."""
    kernel = module.kernel_size
    even = tuple(module.stride) == tuple(kernel) and not any(module.padding)
    if not even or any(module.output_padding) or module.groups != 1 or module.dilation != (1, 1):
        raise Untranslated
    weight = array(module.weight)  # (C, M, KH, KW)
    filters = weight.transpose(2, 3, 1, 0).reshape(-1, weight.shape[0], 1, 1)
    bias = None if module.bias is None else np.tile(array(module.bias), kernel[0] * kernel[1])
    conv = Conv(np.ascontiguousarray(filters), bias)
    return Translation([conv, Spread(tuple(kernel), "pixels")], [call.map(call.node.args[0])])


# --- what changes nothing


def same(call: Call) -> Translation:
    """Return the tensor itself."""
    return Translation([], [call.map(call.node.args[0])])


def dropout(call: Call) -> Translation:
    """Return the tensor itself, unless a dropout is active."""
    values = call.bind("input p training train inplace", training=None, train=None)
    third = values["training"] if values["train"] is None else values["train"]
    if third is not False:
        raise Untranslated
    return Translation([], [call.map(values["input"])])


def dropout_module(call: Call, module: Any) -> Translation:
    """Return the tensor itself, unless a dropout is active."""
    if module.training:
        raise Untranslated
    return Translation([], [call.map(call.node.args[0])])
