"""One node of a traced model as operators of the graph, if it is one or lies between some.

A table per kind: modules by their exact type (a subclass may compute something else), functions and
aten operators by what they are, methods by name. All end in the same few makers of operators, which
read the arguments by torch's names for them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F

from winogen.torch import activating, between, layers
from winogen.torch.calls import Call, Translation, Untranslated, first

aten = torch.ops.aten


def translate(
    node: fx.Node,
    modules: Mapping[str, nn.Module],
    constants: Mapping[str, torch.Tensor],
    shapes: Mapping[str, tuple[int, ...]],
) -> Translation:
    """Return a node's translation; raises Untranslated if there is none."""
    call = Call(node, constants, shapes)
    if node.op == "call_module":
        module = modules.get(str(node.target))
        maker = _MODULES.get(type(module))
        if module is not None and is_changed(module):
            raise Untranslated("a hook, or a forward of its own, may do anything")
        if module is None or maker is None or len((*node.args, *node.kwargs)) != 1:
            raise Untranslated
        node.args, node.kwargs = (first(node),), {}
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
    return result._replace(label=label(node))


def label(node: fx.Node) -> str:
    """The path of the innermost module that a function was called in, if the tracer noted it."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = stack[-1][0] if stack and isinstance(stack[-1], tuple) else ""
    return str(path).removeprefix("L['self'].").removeprefix("L['self']") or node.name


def is_changed(module: nn.Module) -> bool:
    """Whether a module may compute something else than its type does, by hooks or a new forward."""
    names = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return "forward" in vars(module) or any(getattr(module, name, None) for name in names)


def of_volumes(maker: Callable[..., Translation]) -> Callable[..., Translation]:
    """Return a maker that takes volumes alone: torch's functions take one without a batch, too.

    That has four axes, and would be taken for maps.
    """

    def checked(call: Call, *module: Any) -> Translation:
        if call.rank(first(call.node)) != 3:
            raise Untranslated
        return maker(call, *module)

    return checked


_MODULES: dict[type, Callable[[Call, Any], Translation]] = {
    **dict.fromkeys((nn.Conv2d, nn.Conv3d), layers.conv_module),
    **dict.fromkeys((nn.ConvTranspose2d, nn.ConvTranspose3d), layers.transposed_module),
    **dict.fromkeys((nn.BatchNorm2d, nn.BatchNorm3d), layers.norm_module),
    nn.GroupNorm: layers.group_norm_module,
    nn.InstanceNorm2d: layers.instance_norm_module,
    nn.InstanceNorm3d: of_volumes(layers.instance_norm_module),
    nn.Softmax: lambda call, m: layers.softmax_of(call, call.node.args[0], m.dim),
    nn.Softmax2d: lambda call, m: layers.softmax_of(call, call.node.args[0], 1),
    **activating.MODULES,
    nn.Identity: lambda call, m: between.same(call),
    nn.Dropout: between.dropout_module,
    **dict.fromkeys((nn.Dropout2d, nn.Dropout3d), between.dropout_module),
    nn.AlphaDropout: between.dropout_module,
    nn.MaxPool2d: between.max_pool_module,
    nn.MaxPool3d: of_volumes(between.max_pool_module),
    nn.AvgPool2d: between.avg_pool_module,
    nn.AvgPool3d: of_volumes(between.avg_pool_module),
    nn.AdaptiveAvgPool2d: between.adaptive_module,
    nn.AdaptiveAvgPool3d: of_volumes(between.adaptive_module),
    nn.ChannelShuffle: lambda call, m: between.regrouped(call, call.node.args[0], m.groups),
    nn.Upsample: lambda call, m: between.repeated(
        call, call.node.args[0], m.scale_factor, m.mode, m.size
    ),
    nn.UpsamplingNearest2d: lambda call, m: between.repeated(
        call, call.node.args[0], m.scale_factor, m.mode, m.size
    ),
    nn.PixelShuffle: lambda call, m: between.shuffled(call, call.node.args[0], m.upscale_factor),
    nn.ZeroPad2d: between.pad_module("constant"),
    **dict.fromkeys((nn.ReflectionPad2d, nn.ReflectionPad3d), between.pad_module("reflect")),
    **dict.fromkeys((nn.ReplicationPad2d, nn.ReplicationPad3d), between.pad_module("replicate")),
}
if hasattr(nn, "CircularPad2d"):
    circular = (nn.CircularPad2d, nn.CircularPad3d)
    _MODULES |= dict.fromkeys(circular, between.pad_module("circular"))
    _MODULES[nn.ZeroPad3d] = between.pad_module("constant")

_NORM = "input running_mean running_var weight bias training momentum eps"
_ATEN_NORM = "input weight bias running_mean running_var training momentum eps cudnn_enabled"
_FUNCTIONS: dict[Any, Callable[[Call], Translation]] = {
    **dict.fromkeys((F.conv2d, torch.conv2d, F.conv3d, torch.conv3d), layers.conv_function),
    **dict.fromkeys((F.conv_transpose2d, torch.conv_transpose2d), layers.transposed_function),
    **dict.fromkeys((F.conv_transpose3d, torch.conv_transpose3d), layers.transposed_function),
    F.batch_norm: layers.norm_function(_NORM),
    torch.batch_norm: layers.norm_function(_ATEN_NORM),
    **dict.fromkeys((F.group_norm, torch.group_norm), layers.group_norm),
    **dict.fromkeys((F.softmax, torch.softmax), layers.softmax),
    **activating.FUNCTIONS,
    **dict.fromkeys((torch.add, operator.add, operator.iadd), layers.add),
    **dict.fromkeys((torch.mul, operator.mul, operator.imul), layers.factor(layers.times)),
    **dict.fromkeys((operator.truediv, operator.itruediv), layers.factor(layers.divided)),
    **dict.fromkeys((torch.cat, torch.concat, torch.concatenate), layers.cat),
    operator.getitem: layers.getitem,
    F.pad: between.pad,
    **dict.fromkeys((F.max_pool2d, torch.max_pool2d), between.max_pool),
    **dict.fromkeys((F.max_pool3d, torch.max_pool3d), of_volumes(between.max_pool)),
    F.avg_pool2d: between.avg_pool,
    F.avg_pool3d: of_volumes(between.avg_pool),
    F.adaptive_avg_pool2d: between.adaptive,
    F.adaptive_avg_pool3d: of_volumes(between.adaptive),
    torch.mean: between.mean,
    **dict.fromkeys((torch.reshape,), between.viewed),
    F.interpolate: between.interpolate,
    F.channel_shuffle: between.channels_shuffled,
    **dict.fromkeys((F.pixel_shuffle, torch.pixel_shuffle), between.pixel_shuffle),
    **dict.fromkeys((F.dropout, F.dropout2d, F.dropout3d, torch.dropout), between.dropout),
    # aten, as `torch.export` writes it.
    **dict.fromkeys((aten.conv2d.default, aten.conv2d.padding), layers.conv_function),
    **dict.fromkeys((aten.conv3d.default, aten.conv3d.padding), layers.conv_function),
    aten.conv_transpose2d.input: layers.transposed_function,
    aten.conv_transpose3d.input: layers.transposed_function,
    aten.batch_norm.default: layers.norm_function(_ATEN_NORM),
    aten.group_norm.default: layers.group_norm,
    aten.softmax.int: layers.softmax,
    **dict.fromkeys((aten.add.Tensor, aten.add_.Tensor), layers.add),
    **dict.fromkeys((aten.mul.Tensor, aten.mul_.Tensor), layers.factor(layers.times)),
    **dict.fromkeys((aten.div.Tensor, aten.div_.Tensor), layers.factor(layers.divided)),
    aten.cat.default: layers.cat,
    aten.slice.Tensor: layers.slice_function,
    aten.pad.default: between.pad,
    aten.max_pool2d.default: between.max_pool,
    aten.max_pool3d.default: of_volumes(between.max_pool),
    aten.avg_pool2d.default: between.avg_pool,
    aten.avg_pool3d.default: of_volumes(between.avg_pool),
    aten.adaptive_avg_pool2d.default: between.adaptive,
    aten.adaptive_avg_pool3d.default: of_volumes(between.adaptive),
    aten.mean.dim: between.mean,
    aten.channel_shuffle.default: between.channels_shuffled,
    **dict.fromkeys((aten.view.default, aten.reshape.default), between.viewed),
    aten.pixel_shuffle.default: between.pixel_shuffle,
    aten.dropout.default: between.dropout,
    aten.upsample_nearest2d.vec: between.upsample,
    aten.upsample_nearest3d.vec: between.upsample,
}
_METHODS: dict[str, Callable[[Call], Translation]] = {
    **activating.METHODS,
    **dict.fromkeys(("add", "add_", "__add__", "__iadd__"), layers.add),
    **dict.fromkeys(("mul", "mul_", "__mul__", "__imul__"), layers.factor(layers.times)),
    **dict.fromkeys(("div", "div_"), layers.factor(layers.divided)),
    "mean": between.mean,
    "softmax": layers.softmax,
    **dict.fromkeys(("view", "reshape"), between.viewed),
}
