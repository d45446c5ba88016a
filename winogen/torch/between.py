"""Makers of operators that lie between convolutions: padding, pooling, enlarging, shuffling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import fx

from winogen.graph import AveragePool, GlobalAverage, MaxPool, Pad, Repeat, Shuffle, Spread
from winogen.graph.ops.base import by_axis
from winogen.graph.ops.pools import pool_padding
from winogen.torch import layers
from winogen.torch.calls import Call, Translation, Untranslated, first, others, per_axis

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
    most = 2 * call.rank(x)
    if len(ends) not in range(2, most + 1, 2):
        raise Untranslated
    if not all(isinstance(end, int) and end >= 0 for end in ends):
        raise Untranslated
    if mode not in modes or (mode == "constant" and value not in (None, 0)):
        raise Untranslated
    axes = by_axis([*ends, *[0] * (most - len(ends))])[::-1]
    padding = tuple(end for both in axes for end in both)
    return Translation([Pad(padding, modes[mode])], [call.map(x)])


def pad_module(mode: str) -> Callable[[Call, Any], Translation]:
    """Return the maker of a module that pads."""
    return lambda call, module: padded(call, call.node.args[0], module.padding, mode, 0)


# --- pooling, enlarging


def max_pool(call: Call, read: Callable[[dict[str, Any]], dict[str, Any]] = dict) -> Translation:
    """Return the maxima of windows; ``read`` brings what the function was given to two axes."""
    values = call.bind(
        "input kernel_size stride padding dilation ceil_mode return_indices",
        stride=None,
        padding=0,
        dilation=1,
        ceil_mode=False,
        return_indices=False,
    )
    return pooled(call, values["input"], read(values))


def max_pool_module(call: Call, module: Any) -> Translation:
    """Return the maxima of windows, of a module."""
    return pooled(call, call.node.args[0], vars(module))


def pooled(call: Call, x: Any, values: Mapping[str, Any]) -> Translation:
    """Return the maxima of windows with these arguments."""
    dilation = per_axis(values["dilation"], call.rank(x))
    if values["return_indices"]:
        raise Untranslated
    kernel, stride, padding = window(values, dilation)
    return Translation([MaxPool(kernel, stride, padding, dilation)], [call.map(x)])


def window(values: Mapping[str, Any], dilation: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """Kernel, stride and padding, before and after each axis, of a pooling."""
    rank = len(dilation)
    kernel = per_axis(values["kernel_size"], rank)
    stride = per_axis(values["stride"], rank) if values["stride"] else kernel
    sides = layers.both_ends(per_axis(values["padding"], rank))
    padding = pool_padding(kernel, stride, sides, dilation, values["ceil_mode"])
    if padding is None:
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


def avg_pool_module(call: Call, module: Any) -> Translation:
    """Return the means of windows, of a module."""
    return averaged(call, call.node.args[0], vars(module))


def averaged(call: Call, x: Any, values: Mapping[str, Any]) -> Translation:
    """Return the means of windows with these arguments."""
    kernel, stride, padding = window(values, (1,) * call.rank(x))
    padded = any(per_axis(values["padding"], call.rank(x)))
    counted = bool(values["count_include_pad"]) and padded
    # Of what lies beyond the padding nothing is counted.
    if values["divisor_override"] or (counted and values["ceil_mode"]):
        raise Untranslated
    return Translation([AveragePool(kernel, stride, padding, counted)], [call.map(x)])


def adaptive(call: Call) -> Translation:
    """Return the mean of every channel, if that is what is asked for."""
    values = call.bind("input output_size")
    return adapted(call, values["input"], values["output_size"])


def adaptive_module(call: Call, module: Any) -> Translation:
    """Return the mean of every channel, of a module."""
    return adapted(call, call.node.args[0], module.output_size)


def adapted(call: Call, x: Any, size: Any) -> Translation:
    """Return the mean of every channel where the output has one pixel."""
    sizes = tuple(size) if isinstance(size, (tuple, list)) else (size,) * call.rank(x)
    if sizes != (1,) * call.rank(x):
        raise Untranslated
    return Translation([GlobalAverage()], [call.map(x)])


def mean(call: Call) -> Translation:
    """Return the mean of every channel, by `mean` over all axes behind the channels."""
    values = call.bind("input dim keepdim dtype", dim=None, keepdim=False, dtype=None)
    axes = values["dim"] if isinstance(values["dim"], (tuple, list)) else ()
    if not values["keepdim"] or values["dtype"] is not None:
        raise Untranslated
    all_axes = 2 + call.rank(values["input"])
    if not all(isinstance(axis, int) for axis in axes):
        raise Untranslated
    if {axis % all_axes for axis in axes} != set(range(2, all_axes)):
        raise Untranslated
    return Translation([GlobalAverage()], [call.map(values["input"])])


def repeated(call: Call, x: Any, scale: Any, mode: str, size: Any) -> Translation:
    """Return a map enlarged by whole factors, to the nearest neighbour."""
    rank = call.rank(x)
    factors = scale if isinstance(scale, (tuple, list)) else (scale,) * rank
    whole = all(isinstance(f, (int, float)) and f == int(f) and f >= 1 for f in factors)
    if size is not None or mode != "nearest" or not whole or len(factors) != rank:
        raise Untranslated
    return Translation([Repeat(tuple(map(int, factors)))], [call.map(x)])


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


def channels_shuffled(call: Call) -> Translation:
    """Return channels (g, c) as (c, g), by a function."""
    values = call.bind("input groups")
    return regrouped(call, values["input"], values["groups"])


def regrouped(call: Call, x: Any, groups: Any) -> Translation:
    """Return channels (g, c) as (c, g)."""
    if not isinstance(groups, int) or call.channels(call.map(x)) % groups:
        raise Untranslated
    return Translation([Shuffle(groups)], [call.map(x)])


def viewed(call: Call) -> Translation:
    """Return channels (g, c) as (c, g): a view with groups as an axis, exchanged with the next."""
    exchanged = _source(first(call.node), "contiguous clone")
    split = _source(exchanged, "transpose")
    x = None if split is None else _source(split, "view reshape")
    if exchanged is None or split is None or x is None or x is split or split is exchanged:
        raise Untranslated
    sizes = others(split)
    groups, shape = sizes[1] if len(sizes) == 5 else None, tuple(call.shapes[call.map(x).name])
    if not isinstance(groups, int) or groups < 1 or call.channels(x) % groups:
        raise Untranslated
    between = (shape[0], groups, shape[1] // groups, *shape[2:])
    seen = [tuple(call.shapes.get(node.name, ())) for node in (split, call.node)]
    if set(others(exchanged)) not in ({1, 2}, {-4, -3}) or seen != [between, shape]:
        raise Untranslated
    return Translation([Shuffle(groups)], [x])


def _source(node: Any, names: str) -> fx.Node | None:
    """What a node reads that is a function or method of these names; any other node itself."""
    if not isinstance(node, fx.Node) or node.op not in ("call_function", "call_method"):
        return None
    target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if str(target).partition(".")[0] not in names.split():
        return node
    source = first(node)
    return source if isinstance(source, fx.Node) else None


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
