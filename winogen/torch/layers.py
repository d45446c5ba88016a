"""Makers of operators that have weights or join maps: convolutions, normalizations, sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import fx, nn

from winogen.conv.phases import ordinary
from winogen.graph import (
    Add,
    Affine,
    Concat,
    Conv,
    ConvTranspose,
    GroupNorm,
    Multiply,
    Slice,
    Softmax,
)
from winogen.torch.calls import Call, Translation, Untranslated, array, dtype, per_axis, weight_of


def conv_of(weight: Any, bias: Any, options: Mapping[str, Any]) -> Conv:
    """Return a convolution of arrays, with options as `nn.Conv2d` and `nn.Conv3d` have them."""
    if weight is None or weight.ndim not in (4, 5):
        raise Untranslated
    rank = weight.ndim - 2
    stride, dilation = (per_axis(options[name], rank) for name in ("stride", "dilation"))
    padding = options["padding"]
    if padding == "valid":
        padding = 0
    if padding == "same":
        reach = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
        sides = tuple(end for r in reach for end in (r // 2, r - r // 2))
    else:
        sides = both_ends(per_axis(padding, rank))
    groups, mode = int(options["groups"]), options["padding_mode"]
    return Conv(weight, bias, stride, sides, dilation, groups, mode)


def both_ends(padding: Sequence[int]) -> tuple[int, ...]:
    """Return as much padding before each axis as behind it."""
    return tuple(end for one in padding for end in (one, one))


def conv_of_module(module: nn.Conv2d | nn.Conv3d) -> Conv:
    """Return the convolution of a module; raises Untranslated."""
    names = ("stride", "padding", "dilation", "groups", "padding_mode")
    bias = None if module.bias is None else array(module.bias)
    return conv_of(array(module.weight), bias, {name: getattr(module, name) for name in names})


def conv_module(call: Call, module: Any) -> Translation:
    """Return the convolution of a module."""
    return Translation([conv_of_module(module)], [call.map(call.node.args[0])])


def conv_function(call: Call) -> Translation:
    """Return the convolution of a function's arguments."""
    options = call.bind(
        "input weight bias stride padding dilation groups",
        bias=None,
        stride=1,
        padding=0,
        dilation=1,
        groups=1,
    )
    weight, bias = call.constant(options["weight"]), call.constant(options["bias"])
    op = conv_of(weight, bias, {**options, "padding_mode": "zeros"})
    return Translation([op], [call.map(options["input"])])


def transposed_of(weight: Any, bias: Any, options: Mapping[str, Any]) -> ConvTranspose:
    """Return a transposed convolution of arrays, with options as `nn.ConvTranspose2d` and
    `nn.ConvTranspose3d` have them.
    """
    if weight is None or weight.ndim not in (4, 5):
        raise Untranslated
    names = ("stride", "padding", "output_padding", "dilation")
    stride, padding, more, dilation = (per_axis(options[n], weight.ndim - 2) for n in names)
    groups = int(options["groups"])
    filters = ordinary(weight, groups)
    op = ConvTranspose(filters, bias, stride, both_ends(padding), more, groups, dilation)
    if op.is_sparse:
        raise Untranslated("it is transposed, with a dilation beside its stride")
    return op


def transposed_of_module(module: nn.ConvTranspose2d | nn.ConvTranspose3d) -> ConvTranspose:
    """Return the transposed convolution of a module; raises Untranslated."""
    bias = None if module.bias is None else array(module.bias)
    return transposed_of(array(module.weight), bias, vars(module))


def transposed_module(call: Call, module: Any) -> Translation:
    """Return the transposed convolution of a module."""
    return Translation([transposed_of_module(module)], [call.map(call.node.args[0])])


def transposed_function(call: Call) -> Translation:
    """Return the transposed convolution of a function's arguments."""
    options = call.bind(
        "input weight bias stride padding output_padding groups dilation",
        bias=None,
        stride=1,
        padding=0,
        output_padding=0,
        groups=1,
        dilation=1,
    )
    weight, bias = call.constant(options["weight"]), call.constant(options["bias"])
    return Translation([transposed_of(weight, bias, options)], [call.map(options["input"])])


# --- normalization and factors


def norm(call: Call, x: Any, arrays: list[Any], eps: float) -> Translation:
    """Return a normalization by running statistics: mean, variance, weight and bias."""
    mean, var, weight, bias = arrays
    if mean is None or var is None:
        raise Untranslated
    return Translation([Affine.batch_norm(mean, var, weight, bias, eps)], [call.map(x)])


def norm_module(call: Call, module: Any) -> Translation:
    """Return the normalization of a module."""
    if module.training or module.running_mean is None:
        raise Untranslated
    arrays = (module.running_mean, module.running_var, module.weight, module.bias)
    values = [None if one is None else array(one) for one in arrays]
    return norm(call, call.node.args[0], values, module.eps)


def norm_function(order: str) -> Callable[[Call], Translation]:
    """Return the maker of a normalization whose arguments come in this order."""

    def maker(call: Call) -> Translation:
        values = call.bind(order, weight=None, bias=None, training=False, eps=1e-5)
        if values["training"]:
            raise Untranslated
        names = ("running_mean", "running_var", "weight", "bias")
        arrays = [call.constant(values[name]) for name in names]
        return norm(call, values["input"], arrays, values["eps"])

    return maker


def group_norm_module(call: Call, module: Any) -> Translation:
    """Return the normalization of groups of channels, of a module."""
    scale, shift = (None if one is None else array(one) for one in (module.weight, module.bias))
    op = GroupNorm(module.num_groups, scale, shift, module.eps, needs="batch")
    return Translation([op], [call.map(call.node.args[0])])


def instance_norm_module(call: Call, module: Any) -> Translation:
    """Return the normalization of every channel, of a module that keeps no statistics."""
    x = call.map(call.node.args[0])
    if module.track_running_stats:
        raise Untranslated
    scale, shift = (None if one is None else array(one) for one in (module.weight, module.bias))
    op = GroupNorm(call.channels(x), scale, shift, module.eps, needs="image")
    return Translation([op], [x])


def group_norm(call: Call) -> Translation:
    """Return the normalization of groups of channels, of a function."""
    values = call.bind(
        "input num_groups weight bias eps cudnn_enabled", weight=None, bias=None, eps=1e-5
    )
    scale, shift = (call.constant(values[name]) for name in ("weight", "bias"))
    if not isinstance(values["num_groups"], int):
        raise Untranslated
    op = GroupNorm(values["num_groups"], scale, shift, values["eps"], needs="batch")
    return Translation([op], [call.map(values["input"])])


def softmax(call: Call) -> Translation:
    """Return exp(x) by its sum over channels, of a function."""
    values = call.bind("input dim _stacklevel dtype", dim=None, dtype=None)
    # aten has the type where functions have a number of their own.
    if values["dtype"] is not None or values.get("_stacklevel", 3) not in (3, None):
        raise Untranslated
    return softmax_of(call, values["input"], values["dim"])


def softmax_of(call: Call, x: Any, axis: Any) -> Translation:
    """Return exp(x) by its sum over an axis, which must be that of the channels."""
    if not call.is_channels(x, axis):
        raise Untranslated
    return Translation([Softmax()], [call.map(x)])


def factor(turn: Callable[[float], tuple[float, float]]) -> Callable[[Call], Translation]:
    """Return the maker of y = scale * x + shift, of one number."""

    def maker(call: Call) -> Translation:
        values = call.bind("input other")
        x, number = values["input"], values["other"]
        if turn is times and isinstance(x, fx.Node) and isinstance(number, fx.Node):
            return by_channel(call, x, number, product=True) or product(call, x, number)
        if isinstance(x, (int, float)) and turn is not divided:
            x, number = number, x
        return scaled(call, x, number, turn)

    return maker


def product(call: Call, x: fx.Node, y: fx.Node) -> Translation:
    """Return a product of maps, or of a map and one of a single pixel."""
    one, other = (tuple(call.shapes[call.map(value).name]) for value in (x, y))
    if one == pixel_of(one) and one != other:
        x, y, one, other = y, x, other, one
    if other not in (one, pixel_of(one)) or dtype(x) != dtype(y):
        raise Untranslated
    return Translation([Multiply()], [x, y])


def pixel_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a map with a single pixel, else as this one."""
    return (*shape[:2], *[1] * (len(shape) - 2))


def by_channel(call: Call, x: fx.Node, y: fx.Node, product: bool) -> Translation | None:
    """Return a product or a sum with a constant, a number per channel or one; None for another."""
    for one, other in ((x, y), (y, x)):
        numbers = weight_of(other, call.constants)
        shape = call.shapes.get(one.name, ())
        if numbers is None or len(shape) not in (4, 5) or numbers.dtype != dtype(one):
            continue
        channels = call.channels(one)
        sizes = (1,) * (len(shape) - numbers.dim()) + tuple(numbers.shape)
        alone = pixel_of((1, 1, *shape[2:]))
        if len(sizes) > len(shape) or sizes not in ((1, channels, *alone[2:]), alone):
            continue
        given = np.ascontiguousarray(np.broadcast_to(array(numbers).reshape(-1), (channels,)))
        pair = (given, np.zeros_like(given)) if product else (np.ones_like(given), given)
        return Translation([Affine(*pair)], [one])
    return None


def scaled(call: Call, x: Any, number: Any, turn: Any) -> Translation:
    """Return y = scale * x + shift; ``turn`` makes both of the number."""
    x = call.map(x)
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise Untranslated
    kind = np.dtype(str(dtype(x)).removeprefix("torch."))
    scale, shift = turn(float(number))
    channels = call.channels(x)
    return Translation(
        [Affine(np.full(channels, scale, kind), np.full(channels, shift, kind))], [x]
    )


def times(number: float) -> tuple[float, float]:
    """Scale and shift of x * number."""
    return number, 0.0


def divided(number: float) -> tuple[float, float]:
    """Scale and shift of x / number."""
    if not number:
        raise Untranslated
    return 1 / number, 0.0


def plus(number: float) -> tuple[float, float]:
    """Scale and shift of x + number."""
    return 1.0, number


# --- sums and concatenations


def add(call: Call) -> Translation:
    """Return a sum of maps, or of a map and a number."""
    values = call.bind("input other alpha", alpha=1)
    x, y, alpha = values["input"], values["other"], values["alpha"]
    if isinstance(x, (int, float)) and alpha == 1:
        x, y = y, x
    if isinstance(y, (int, float)) and isinstance(alpha, (int, float)):
        return scaled(call, x, y * alpha, plus)
    if isinstance(x, fx.Node) and isinstance(y, fx.Node) and alpha == 1:
        found = by_channel(call, x, y, product=False)
        if found is not None:
            return found
    x, y = call.map(x), call.map(y)
    one, other = tuple(call.shapes[x.name]), tuple(call.shapes[y.name])
    if one == pixel_of(one) and one != other:
        x, y, one, other = y, x, other, one
    if other not in (one, pixel_of(one)) or dtype(x) != dtype(y) or alpha != 1:
        raise Untranslated
    return Translation([Add(repeated=other != one)], [x, y])


def getitem(call: Call) -> Translation:
    """Return a slice of the channels, as x[:, start:stop] spells it, or one of some equal ones."""
    whole, index = call.node.args[:2]
    if isinstance(whole, fx.Node) and isinstance(index, int):
        return part(call, whole, index)
    x = call.map(whole)
    whole = slice(None)
    if not isinstance(index, tuple) or len(index) < 2 or not isinstance(index[1], slice):
        raise Untranslated
    if any(one not in (whole, Ellipsis) for one in (index[0], *index[2:])) or index[0] != whole:
        raise Untranslated
    return sliced(call, x, index[1].start, index[1].stop, index[1].step)


def part(call: Call, whole: fx.Node, index: int) -> Translation:
    """Return one of the slices of the channels that `chunk` or `split` makes."""
    name = whole.target if isinstance(whole.target, str) else getattr(whole.target, "__name__", "")
    name = str(name).partition(".")[0]
    if whole.op not in ("call_function", "call_method") or name not in _PARTS:
        raise Untranslated
    values = Call(whole, call.constants, call.shapes).bind(_PARTS[name], dim=0)
    x, count = call.map(values["input"]), values["count"]
    channels = call.channels(x)
    if not call.is_channels(x, values["dim"]):
        raise Untranslated
    if isinstance(count, int) and count > 0:
        each = -(-channels // count) if name == "chunk" else count
        count = [min(each, channels - start) for start in range(0, channels, each)]
    if not isinstance(count, (list, tuple)) or not all(isinstance(one, int) for one in count):
        raise Untranslated
    if not -len(count) <= index < len(count) or not count[index]:
        raise Untranslated
    start = sum(count[: index % len(count)])
    return Translation([Slice(start, start + count[index])], [x])


_PARTS = {
    "chunk": "input count dim",
    "split": "input count dim",
    "split_with_sizes": "input count dim",
}


def slice_function(call: Call) -> Translation:
    """Return a slice of the channels by aten's function."""
    values = call.bind("self dim start end step", dim=0, start=None, end=None, step=1)
    if values["dim"] != 1:
        raise Untranslated
    return sliced(call, call.map(values["self"]), values["start"], values["end"], values["step"])


def sliced(call: Call, x: fx.Node, start: Any, stop: Any, step: Any) -> Translation:
    """Return channels from start to before stop."""
    channels = call.channels(x)
    if not all(one is None or isinstance(one, int) for one in (start, stop, step)):
        raise Untranslated
    begin, end, step = slice(start, stop, step).indices(channels)
    if step != 1 or begin >= end:
        raise Untranslated
    return Translation([Slice(begin, end)], [x])


def cat(call: Call) -> Translation:
    """Return a concatenation along the channels."""
    values = call.bind("tensors dim", dim=0)
    if not isinstance(values["tensors"], (tuple, list)):
        raise Untranslated
    parts = [call.map(part) for part in values["tensors"]]
    if not all(call.is_channels(part, values["dim"]) for part in parts):
        raise Untranslated
    if len({dtype(part) for part in parts}) != 1:
        raise Untranslated
    return Translation([Concat()], parts)
