"""Makers of operators that lie between convolutions: padding, pooling, enlarging, activations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from winogen.graph import Activation, Conv, MaxPool, Pad, Repeat, Spread
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


# --- activations


def activated(call: Call, x: Any, activation: Any) -> Translation:
    """Return an activation, as `winogen.conv2d` spells it."""
    return Translation([Activation(activation)], [call.map(x)])


def plain(activation: Any) -> Callable[[Call], Translation]:
    """Return the maker of an activation without parameters."""
    return lambda call: activated(
        call, call.bind("input inplace", inplace=False)["input"], activation
    )


def leaky(call: Call) -> Translation:
    """Return a leaky ReLU."""
    values = call.bind("input negative_slope inplace", negative_slope=0.01)
    return activated(call, values["input"], ("leaky_relu", float(values["negative_slope"])))


def gelu(call: Call) -> Translation:
    """Return GELU, exact or by tanh."""
    values = call.bind("input approximate", approximate="none")
    tanh = values["approximate"] == "tanh"
    return activated(call, values["input"], ("gelu", "tanh") if tanh else "gelu")


def clip(names: str, low: float | None = None, high: float | None = None) -> Any:
    """Return the maker of a clipping whose limits have these names."""
    first, second = names.split()

    def maker(call: Call) -> Translation:
        defaults: dict[str, Any] = {first: low, second: high}
        values = call.bind(f"input {names} inplace", **defaults)
        return clipped(call, values["input"], values[first], values[second])

    return maker


def clipped(call: Call, x: Any, low: Any, high: Any) -> Translation:
    """Return a clipping."""
    if not all(isinstance(v, (int, float)) and np.isfinite(v) for v in (low, high)) or low > high:
        raise Untranslated
    if (low, high) == (0, 6):
        return activated(call, x, "relu6")
    return activated(call, x, ("clip", float(low), float(high)))


def prelu(call: Call) -> Translation:
    """Return a PReLU."""
    values = call.bind("input weight")
    return sloped(call, values["input"], call.constant(values["weight"]))


def sloped(call: Call, x: Any, slopes: np.ndarray | None) -> Translation:
    """Return a PReLU with these slopes."""
    x = call.map(x)
    if slopes is None:
        raise Untranslated
    flat = slopes.reshape(-1)
    if flat.size == 1:
        flat = np.repeat(flat, call.channels(x))
    return activated(call, x, ("prelu", flat))


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


def of(maker: Callable[..., Translation], *names: str) -> Callable[[Call, Any], Translation]:
    """A module whose fields are the arguments of an activation."""
    return lambda call, m: maker(call, call.node.args[0], *(getattr(m, name) for name in names))
