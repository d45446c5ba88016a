"""Nodes of one axis as operators of maps: a signal (N, C, W) is a map (N, C, 1, W).

Signals begin at a convolution or a norm, and at whatever reads one of them afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F

from winogen.graph import Conv, ConvTranspose
from winogen.torch import between, layers
from winogen.torch.calls import Call, Translation, Untranslated, array, per_axis
from winogen.torch.translate import is_changed, label, translate

aten = torch.ops.aten


def begins(node: fx.Node, modules: Mapping[str, nn.Module]) -> bool:
    """Return whether a node reads a signal, whatever it is made of."""
    if node.op == "call_module":
        return type(modules.get(str(node.target))) in _BEGINNING
    return node.op == "call_function" and _FUNCTIONS.get(node.target) in _CONVOLUTIONS


def translated(
    node: fx.Node,
    modules: Mapping[str, nn.Module],
    constants: Mapping[str, torch.Tensor],
    shapes: Mapping[str, tuple[int, ...]],
) -> Translation:
    """Return what a node of signals computes of their maps, of ``shapes``; raises Untranslated."""
    call = Call(node, constants, shapes)
    module = modules.get(str(node.target)) if node.op == "call_module" else None
    of_module = _MODULES.get(type(module))
    if of_module is not None and not is_changed(module) and len((*node.args, *node.kwargs)) == 1:
        node.args, node.kwargs = (next(iter((*node.args, *node.kwargs.values()))),), {}
        return of_module(call, module)._replace(label=str(node.target))
    maker = _FUNCTIONS.get(node.target) if node.op == "call_function" else None
    if maker is not None:
        return maker(call)._replace(label=label(node))
    found = translate(node, modules, constants, shapes)
    if not all(op.is_of_signals for op in found.ops):
        raise Untranslated
    if any(op.is_concat for op in found.ops) and _axis(call) != 1:
        raise Untranslated
    return found


def _axis(call: Call) -> Any:
    """The axis of a concatenation: that of the channels is another from behind."""
    return call.bind("tensors dim", dim=0)["dim"]


def _wide(value: Any, narrow: int = 1) -> Any:
    """A number of one axis for both."""
    numbers = list(value) if isinstance(value, (tuple, list)) else [value]
    if len(numbers) != 1 or not isinstance(numbers[0], int):
        raise Untranslated
    return narrow, numbers[0]


def _lifted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of one axis for both."""
    made = dict(options)
    for name in ("stride", "dilation"):
        made[name] = _wide(options[name])
    for name in ("padding", "output_padding"):
        if name in options and not isinstance(options[name], str):
            made[name] = _wide(options[name], 0)
    return made


def _filters(weight: Any) -> Any:
    if weight is None or weight.ndim != 3:
        raise Untranslated
    return weight[:, :, None, :]


def _conv(weight: Any, bias: Any, options: Mapping[str, Any]) -> Conv:
    return layers.conv_of(_filters(weight), bias, _lifted(options))


def _transposed(weight: Any, bias: Any, options: Mapping[str, Any]) -> ConvTranspose:
    return layers.transposed_of(_filters(weight), bias, _lifted(options))


def _convolution(make: Callable[..., Any]) -> Callable[[Call, Any], Translation]:
    """The maker of a module that convolves."""

    def maker(call: Call, module: Any) -> Translation:
        bias = None if module.bias is None else array(module.bias)
        op = make(array(module.weight), bias, vars(module))
        return Translation([op], [call.map(call.node.args[0])])

    return maker


def _function(names: str, make: Callable[..., Any]) -> Callable[[Call], Translation]:
    """The maker of a function that convolves."""

    def maker(call: Call) -> Translation:
        given = {"bias": None, "stride": 1, "padding": 0, "dilation": 1, "groups": 1}
        values = call.bind(names, **given, output_padding=0)
        weight, bias = call.constant(values["weight"]), call.constant(values["bias"])
        op = make(weight, bias, values | {"padding_mode": "zeros"})
        return Translation([op], [call.map(values["input"])])

    return maker


def _pool(make: Callable[..., Translation]) -> Callable[[Call, Any], Translation]:
    """The maker of a module that pools."""

    def maker(call: Call, module: Any) -> Translation:
        return make(call, call.node.args[0], _pooling(vars(module)))

    return maker


def _pooling(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a pooling of one axis has, for both."""
    made = {"divisor_override": None, "dilation": 1} | dict(values)
    stride = made["stride"] or made["kernel_size"]
    made |= {"kernel_size": _wide(made["kernel_size"]), "stride": _wide(stride)}
    return made | {"padding": _wide(made["padding"], 0), "dilation": _wide(made["dilation"])}


def _max_pool(call: Call) -> Translation:
    """The largest numbers of windows, of a function."""
    return between.max_pool(call, _pooling)


def _adapted(call: Call, module: Any) -> Translation:
    """The mean of every channel, if that is what is asked for."""
    return between.adapted(call, call.node.args[0], per_axis(module.output_size))


def _adaptive(call: Call) -> Translation:
    """The same, of a function."""
    values = call.bind("input output_size")
    return between.adapted(call, values["input"], per_axis(values["output_size"]))


_MODULES: dict[type, Callable[[Call, Any], Translation]] = {
    nn.Conv1d: _convolution(_conv),
    nn.ConvTranspose1d: _convolution(_transposed),
    nn.BatchNorm1d: layers.norm_module,
    nn.MaxPool1d: _pool(between.pooled),
    nn.AvgPool1d: _pool(between.averaged),
    nn.AdaptiveAvgPool1d: _adapted,
}
_BEGINNING = (nn.Conv1d, nn.ConvTranspose1d, nn.BatchNorm1d)
_OF_CONV = _function("input weight bias stride padding dilation groups", _conv)
_OF_TRANSPOSED = _function(
    "input weight bias stride padding output_padding groups dilation", _transposed
)
_FUNCTIONS: dict[Any, Callable[[Call], Translation]] = {
    **dict.fromkeys((F.conv1d, torch.conv1d, aten.conv1d.default, aten.conv1d.padding), _OF_CONV),
    **dict.fromkeys((F.conv_transpose1d, torch.conv_transpose1d), _OF_TRANSPOSED),
    aten.conv_transpose1d.default: _OF_TRANSPOSED,
    **dict.fromkeys((F.max_pool1d, torch.max_pool1d, aten.max_pool1d.default), _max_pool),
    **dict.fromkeys((F.adaptive_avg_pool1d, aten.adaptive_avg_pool1d.default), _adaptive),
}
_CONVOLUTIONS = (_OF_CONV, _OF_TRANSPOSED)
