"""One node of a traced model as operators of the graph, if it is one or lies between some.

A table per kind: modules by their exact type (a subclass may compute something else), functions and
aten operators by what they are, methods by name. All end in the same few makers of operators, which
read the arguments by the names that torch gives them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import fx, nn
from torch.nn import functional as F

from winogen.graph import Activation, Add, Affine, Concat, Conv, Pad

aten = torch.ops.aten


class Untranslated(Exception):
    """A node that stays torch's."""


class Translation(NamedTuple):
    """Operators one behind the other, and the tensors that they read; none: the tensor itself."""

    ops: list[Any]
    inputs: list[fx.Node]
    label: str = ""


class _Call:
    """The arguments of one node, by name, and what is known of the tensors among them."""

    def __init__(
        self,
        node: fx.Node,
        constants: Mapping[str, torch.Tensor],
        shapes: Mapping[str, tuple[int, ...]],
    ):
        self.node, self.constants, self.shapes = node, constants, shapes

    def bind(self, names: str, **defaults: Any) -> dict[str, Any]:
        """The arguments by these names, in their order."""
        order = names.split()
        if len(self.node.args) > len(order) or not set(self.node.kwargs) <= set(order):
            raise Untranslated
        values = {**defaults, **dict(zip(order, self.node.args)), **self.node.kwargs}
        return values

    def map(self, value: Any) -> fx.Node:
        """``value`` as a map (N, C, H, W) of floats."""
        if not isinstance(value, fx.Node) or len(self.shapes.get(value.name, ())) != 4:
            raise Untranslated
        return value

    def channels(self, value: fx.Node) -> int:
        """Of a map; they must be known."""
        channels = self.shapes[value.name][1]
        if not isinstance(channels, int):
            raise Untranslated
        return channels

    def constant(self, value: Any) -> np.ndarray | None:
        """The numbers of a weight; None for None."""
        if value is None:
            return None
        tensor = self.constants.get(value.name) if isinstance(value, fx.Node) else value
        return array(tensor)


def array(tensor: Any) -> np.ndarray:
    """Return a CPU tensor of float32 or float64 as an array of its own; raises Untranslated."""
    if not isinstance(tensor, torch.Tensor) or tensor.device.type != "cpu":
        raise Untranslated
    if tensor.dtype not in (torch.float32, torch.float64):
        raise Untranslated
    return np.array(tensor.detach().numpy(), order="C")


def translate(
    node: fx.Node,
    modules: Mapping[str, nn.Module],
    constants: Mapping[str, torch.Tensor],
    shapes: Mapping[str, tuple[int, ...]],
) -> Translation:
    """Return a node's translation; raises Untranslated if there is none."""
    call = _Call(node, constants, shapes)
    if node.op == "call_module":
        module = modules.get(str(node.target))
        maker = _MODULES.get(type(module))
        # A hook may do anything.
        if module is None or maker is None or _has_hooks(module) or len(node.args) != 1:
            raise Untranslated
        result = maker(call, module)
        return result._replace(label=str(node.target))
    table: Mapping[Any, Any] = _METHODS if node.op == "call_method" else _FUNCTIONS
    try:
        maker = table.get(node.target)
    except TypeError:  # a target that cannot be hashed
        maker = None
    if maker is None:
        raise Untranslated
    result = maker(call)
    return result._replace(label=_label(node))


def _label(node: fx.Node) -> str:
    """The path of the innermost module that a function was called in, if the tracer noted it."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = stack[-1][0] if stack and isinstance(stack[-1], tuple) else ""
    return str(path).removeprefix("L['self'].").removeprefix("L['self']") or node.name


def _has_hooks(module: nn.Module) -> bool:
    names = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
    return any(getattr(module, name, None) for name in names)


# --- convolutions


def conv_of(weight: Any, bias: Any, options: Mapping[str, Any]) -> Conv:
    """Return a convolution of arrays, with options as `nn.Conv2d` has them."""
    if weight is None or weight.ndim != 4:
        raise Untranslated
    stride, dilation = _pair(options["stride"]), _pair(options["dilation"])
    padding = options["padding"]
    if padding == "valid":
        sides = (0, 0, 0, 0)
    elif padding == "same":
        reach = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
        (top, left), (bottom, right) = zip(*((r // 2, r - r // 2) for r in reach))
        sides = (top, bottom, left, right)
    else:
        high, wide = _pair(padding)
        sides = (high, high, wide, wide)
    groups, mode = int(options["groups"]), options["padding_mode"]
    return Conv(weight, bias, stride, sides, dilation, groups, mode)


def conv_of_module(module: nn.Conv2d) -> Conv:
    """Return the convolution of a module; raises Untranslated."""
    names = ("stride", "padding", "dilation", "groups", "padding_mode")
    bias = None if module.bias is None else array(module.bias)
    return conv_of(array(module.weight), bias, {name: getattr(module, name) for name in names})


def _conv_module(call: _Call, module: Any) -> Translation:
    return Translation([conv_of_module(module)], [call.map(call.node.args[0])])


def _conv_function(call: _Call) -> Translation:
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


def _pair(value: Any) -> tuple[int, int]:
    values = list(value) if isinstance(value, (tuple, list)) else [value]
    if not all(isinstance(v, int) for v in values) or len(values) not in (1, 2):
        raise Untranslated
    return values[0], values[-1]


# --- normalization and factors


def _norm(call: _Call, x: Any, arrays: list[Any], eps: float) -> Translation:
    mean, var, weight, bias = arrays
    if mean is None or var is None:
        raise Untranslated
    return Translation([Affine.batch_norm(mean, var, weight, bias, eps)], [call.map(x)])


def _norm_module(call: _Call, module: Any) -> Translation:
    if module.training or module.running_mean is None:
        raise Untranslated
    arrays = (module.running_mean, module.running_var, module.weight, module.bias)
    values = [None if one is None else array(one) for one in arrays]
    return _norm(call, call.node.args[0], values, module.eps)


def _norm_function(order: str) -> Callable[[_Call], Translation]:
    def maker(call: _Call) -> Translation:
        values = call.bind(order, weight=None, bias=None, training=False, eps=1e-5)
        if values["training"]:
            raise Untranslated
        names = ("running_mean", "running_var", "weight", "bias")
        arrays = [call.constant(values[name]) for name in names]
        return _norm(call, values["input"], arrays, values["eps"])

    return maker


def _factor(turn: Callable[[float], tuple[float, float]]) -> Callable[[_Call], Translation]:
    """y = scale * x + shift, of one number."""

    def maker(call: _Call) -> Translation:
        values = call.bind("input other")
        x, number = values["input"], values["other"]
        if isinstance(x, (int, float)) and turn is not _divided:
            x, number = number, x
        return _scaled(call, x, number, turn)

    return maker


def _scaled(call: _Call, x: Any, number: Any, turn: Any) -> Translation:
    x = call.map(x)
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise Untranslated
    kind = np.dtype(str(_dtype(x)).removeprefix("torch."))
    scale, shift = turn(float(number))
    channels = call.channels(x)
    return Translation(
        [Affine(np.full(channels, scale, kind), np.full(channels, shift, kind))], [x]
    )


def _dtype(node: fx.Node) -> torch.dtype:
    for key in ("val", "example_value", "tensor_meta"):
        if node.meta.get(key) is not None:
            kind: torch.dtype = node.meta[key].dtype
            return kind
    raise Untranslated


def _times(number: float) -> tuple[float, float]:
    return number, 0.0


def _divided(number: float) -> tuple[float, float]:
    if not number:
        raise Untranslated
    return 1 / number, 0.0


def _plus(number: float) -> tuple[float, float]:
    return 1.0, number


# --- sums and concatenations


def _add(call: _Call) -> Translation:
    values = call.bind("input other alpha", alpha=1)
    x, y, alpha = values["input"], values["other"], values["alpha"]
    if isinstance(x, (int, float)) and alpha == 1:
        x, y = y, x
    if isinstance(y, (int, float)) and isinstance(alpha, (int, float)):
        return _scaled(call, x, y * alpha, _plus)
    x, y = call.map(x), call.map(y)
    if call.shapes[x.name] != call.shapes[y.name] or _dtype(x) != _dtype(y) or alpha != 1:
        raise Untranslated
    return Translation([Add()], [x, y])


def _cat(call: _Call) -> Translation:
    values = call.bind("tensors dim", dim=0)
    if values["dim"] not in (1, -3) or not isinstance(values["tensors"], (tuple, list)):
        raise Untranslated
    parts = [call.map(part) for part in values["tensors"]]
    if len({_dtype(part) for part in parts}) != 1:
        raise Untranslated
    return Translation([Concat()], parts)


# --- padding


def _pad(call: _Call) -> Translation:
    values = call.bind("input pad mode value", mode="constant", value=None)
    return _padded(call, values["input"], values["pad"], values["mode"], values["value"])


def _padded(call: _Call, x: Any, sides: Any, mode: str, value: Any) -> Translation:
    modes = {"constant": "zeros", "reflect": "reflect", "replicate": "replicate",
             "circular": "circular"}  # fmt: skip
    ends = list(sides) if isinstance(sides, (tuple, list)) else []
    if len(ends) not in (2, 4) or not all(isinstance(end, int) and end >= 0 for end in ends):
        raise Untranslated
    if mode not in modes or (mode == "constant" and value not in (None, 0)):
        raise Untranslated
    left, right, top, bottom = (*ends, 0, 0)[:4]
    return Translation([Pad((top, bottom, left, right), modes[mode])], [call.map(x)])


def _pad_module(mode: str) -> Callable[[_Call, Any], Translation]:
    return lambda call, module: _padded(call, call.node.args[0], module.padding, mode, 0)


# --- activations


def _activation(call: _Call, x: Any, activation: Any) -> Translation:
    return Translation([Activation(activation)], [call.map(x)])


def _plain(activation: Any) -> Callable[[_Call], Translation]:
    return lambda call: _activation(
        call, call.bind("input inplace", inplace=False)["input"], activation
    )


def _leaky(call: _Call) -> Translation:
    values = call.bind("input negative_slope inplace", negative_slope=0.01)
    return _activation(call, values["input"], ("leaky_relu", float(values["negative_slope"])))


def _gelu(call: _Call) -> Translation:
    values = call.bind("input approximate", approximate="none")
    tanh = values["approximate"] == "tanh"
    return _activation(call, values["input"], ("gelu", "tanh") if tanh else "gelu")


def _clip(names: str, low: float | None = None, high: float | None = None) -> Any:
    first, second = names.split()

    def maker(call: _Call) -> Translation:
        defaults: dict[str, Any] = {first: low, second: high}
        values = call.bind(f"input {names} inplace", **defaults)
        return _clipped(call, values["input"], values[first], values[second])

    return maker


def _clipped(call: _Call, x: Any, low: Any, high: Any) -> Translation:
    if not all(isinstance(v, (int, float)) and np.isfinite(v) for v in (low, high)) or low > high:
        raise Untranslated
    if (low, high) == (0, 6):
        return _activation(call, x, "relu6")
    return _activation(call, x, ("clip", float(low), float(high)))


def _prelu(call: _Call) -> Translation:
    values = call.bind("input weight")
    return _sloped(call, values["input"], call.constant(values["weight"]))


def _sloped(call: _Call, x: Any, slopes: np.ndarray | None) -> Translation:
    x = call.map(x)
    if slopes is None:
        raise Untranslated
    flat = slopes.reshape(-1)
    if flat.size == 1:
        flat = np.repeat(flat, call.channels(x))
    return _activation(call, x, ("prelu", flat))


def _same(call: _Call) -> Translation:
    return Translation([], [call.map(call.node.args[0])])


def _dropout(call: _Call) -> Translation:
    values = call.bind("input p training train inplace", training=None, train=None)
    third = values["training"] if values["train"] is None else values["train"]
    if third is not False:
        raise Untranslated
    return Translation([], [call.map(values["input"])])


def _dropout_module(call: _Call, module: Any) -> Translation:
    if module.training:
        raise Untranslated
    return Translation([], [call.map(call.node.args[0])])


def _of(maker: Callable[..., Translation], *names: str) -> Callable[[_Call, Any], Translation]:
    """A module whose fields are the arguments of an activation."""
    return lambda call, m: maker(call, call.node.args[0], *(getattr(m, name) for name in names))


_MODULES: dict[type, Callable[[_Call, Any], Translation]] = {
    nn.Conv2d: _conv_module,
    nn.BatchNorm2d: _norm_module,
    nn.ReLU: lambda call, m: _activation(call, call.node.args[0], "relu"),
    nn.ReLU6: lambda call, m: _activation(call, call.node.args[0], "relu6"),
    nn.SiLU: lambda call, m: _activation(call, call.node.args[0], "silu"),
    nn.Hardswish: lambda call, m: _activation(call, call.node.args[0], "hardswish"),
    nn.GELU: lambda call, m: _activation(
        call, call.node.args[0], ("gelu", "tanh") if m.approximate == "tanh" else "gelu"
    ),
    nn.LeakyReLU: lambda call, m: _activation(
        call, call.node.args[0], ("leaky_relu", float(m.negative_slope))
    ),
    nn.Hardtanh: _of(_clipped, "min_val", "max_val"),
    nn.PReLU: lambda call, m: _sloped(call, call.node.args[0], array(m.weight)),
    nn.Identity: lambda call, m: _same(call),
    nn.Dropout: _dropout_module,
    nn.Dropout2d: _dropout_module,
    nn.AlphaDropout: _dropout_module,
    nn.ZeroPad2d: _pad_module("constant"),
    nn.ReflectionPad2d: _pad_module("reflect"),
    nn.ReplicationPad2d: _pad_module("replicate"),
}
if hasattr(nn, "CircularPad2d"):
    _MODULES[nn.CircularPad2d] = _pad_module("circular")

_NORM = "input running_mean running_var weight bias training momentum eps"
_ATEN_NORM = "input weight bias running_mean running_var training momentum eps cudnn_enabled"
_FUNCTIONS: dict[Any, Callable[[_Call], Translation]] = {
    **dict.fromkeys((F.conv2d, torch.conv2d), _conv_function),
    F.batch_norm: _norm_function(_NORM),
    torch.batch_norm: _norm_function(_ATEN_NORM),
    **dict.fromkeys((F.relu, torch.relu, torch.relu_), _plain("relu")),
    F.relu6: _plain("relu6"),
    F.silu: _plain("silu"),
    F.hardswish: _plain("hardswish"),
    F.gelu: _gelu,
    F.leaky_relu: _leaky,
    **dict.fromkeys((F.prelu, torch.prelu), _prelu),
    F.hardtanh: _clip("min_val max_val", -1.0, 1.0),
    **dict.fromkeys((torch.clamp, torch.clip, torch.clamp_), _clip("min max")),
    **dict.fromkeys((torch.add, operator.add, operator.iadd), _add),
    **dict.fromkeys((torch.mul, operator.mul, operator.imul), _factor(_times)),
    **dict.fromkeys((operator.truediv, operator.itruediv), _factor(_divided)),
    **dict.fromkeys((torch.cat, torch.concat, torch.concatenate), _cat),
    F.pad: _pad,
    **dict.fromkeys((F.dropout, F.dropout2d, torch.dropout), _dropout),
    # aten, as `torch.export` writes it.
    aten.conv2d.default: _conv_function,
    aten.batch_norm.default: _norm_function(_ATEN_NORM),
    **dict.fromkeys((aten.relu.default, aten.relu_.default), _plain("relu")),
    **dict.fromkeys((aten.relu6.default, aten.relu6_.default), _plain("relu6")),
    **dict.fromkeys((aten.silu.default, aten.silu_.default), _plain("silu")),
    **dict.fromkeys((aten.hardswish.default, aten.hardswish_.default), _plain("hardswish")),
    aten.gelu.default: _gelu,
    **dict.fromkeys((aten.leaky_relu.default, aten.leaky_relu_.default), _leaky),
    aten.prelu.default: _prelu,
    **dict.fromkeys(
        (aten.hardtanh.default, aten.hardtanh_.default), _clip("min_val max_val", -1.0, 1.0)
    ),
    **dict.fromkeys((aten.clamp.default, aten.clamp_.default), _clip("min max")),
    **dict.fromkeys((aten.add.Tensor, aten.add_.Tensor), _add),
    **dict.fromkeys((aten.mul.Tensor, aten.mul_.Tensor), _factor(_times)),
    **dict.fromkeys((aten.div.Tensor, aten.div_.Tensor), _factor(_divided)),
    aten.cat.default: _cat,
    aten.pad.default: _pad,
    aten.dropout.default: _dropout,
}
_METHODS: dict[str, Callable[[_Call], Translation]] = {
    **dict.fromkeys(("relu", "relu_"), _plain("relu")),
    **dict.fromkeys(("add", "add_", "__add__", "__iadd__"), _add),
    **dict.fromkeys(("mul", "mul_", "__mul__", "__imul__"), _factor(_times)),
    **dict.fromkeys(("div", "div_"), _factor(_divided)),
    **dict.fromkeys(("clamp", "clamp_", "clip", "clip_"), _clip("min max")),
}
