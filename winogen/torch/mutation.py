"""Which operations of a traced model change a tensor in place, and which return fresh memory.

A graph of values knows no changes. One in place is read as an operation with a new result, which
all that follows reads instead; this is right unless something else looks at the same memory.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F

_IN_PLACE_OPERATORS = {
    operator.iadd: operator.add,
    operator.isub: operator.sub,
    operator.imul: operator.mul,
    operator.itruediv: operator.truediv,
    operator.iand: operator.and_,
    operator.ior: operator.or_,
}
# Modules of torch whose result may be a view of what they read; those of users may do anything.
_VIEWING_MODULES = (
    nn.Flatten,
    nn.Unflatten,
    nn.Identity,
    nn.Dropout,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.AlphaDropout,
    nn.FeatureAlphaDropout,
    nn.MultiheadAttention,
    nn.ChannelShuffle,
)
# Functions and methods whose result is never a view.
_FRESH_FUNCTIONS = {
    F.max_pool2d,
    F.avg_pool2d,
    F.adaptive_avg_pool2d,
    F.adaptive_max_pool2d,
    F.interpolate,
    F.conv_transpose2d,
    F.conv2d,
    F.linear,
    F.group_norm,
    F.layer_norm,
    F.softmax,
    F.pixel_shuffle,
    torch.conv_transpose2d,
    torch.conv2d,
    torch.sigmoid,
    torch.tanh,
    torch.cat,
    torch.mean,
    torch.add,
    torch.mul,
    torch.sub,
    torch.div,
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.neg,
    getattr,
}
_FRESH_METHODS = {
    "add",
    "mul",
    "sub",
    "div",
    "mean",
    "sum",
    "sigmoid",
    "tanh",
    "size",
    "dim",
    "clone",
}


def changed_by(node: fx.Node, modules: Mapping[str, nn.Module]) -> fx.Node | None:
    """Return the node whose tensor this one changes in place and returns; None for none.

    Changes that return something else are told by `made_functional`.
    """
    if node.op == "call_module":
        module = modules.get(str(node.target))
        changes = bool(getattr(module, "inplace", False))
    elif node.op == "call_method":
        changes = _ends_in_place(str(node.target))
    elif node.op == "call_function":
        changes = (
            node.target in _IN_PLACE_OPERATORS
            or node.target is operator.setitem
            or bool(node.kwargs.get("inplace"))
            or node.kwargs.get("out") is not None
            or _ends_in_place(getattr(node.target, "__name__", "").partition(".")[0])
            or _has_mutable_schema(node.target)
        )
    else:
        changes = False
    if not changes:
        return None
    first = node.args[0] if node.args else node.kwargs.get("input")
    return first if isinstance(first, fx.Node) else node


def made_functional(node: fx.Node, modules: Mapping[str, nn.Module]) -> bool:
    """Make an operation that changes a tensor return a new one; False where that is not known.

    A module is changed itself: the model that is read is a copy.
    """
    if node.op == "call_module":
        module: Any = modules[str(node.target)]
        module.inplace = False
        return True
    if node.kwargs.get("inplace") is True:
        node.update_kwarg("inplace", False)
        return True
    if node.op == "call_function" and node.target in _IN_PLACE_OPERATORS:
        node.target = _IN_PLACE_OPERATORS[node.target]
        return True
    return False


def is_fresh(node: fx.Node, modules: Mapping[str, nn.Module]) -> bool:
    """Whether a result certainly shares no memory with what it was made of."""
    if node.op == "call_module":
        module = modules.get(str(node.target))
        ours = type(module).__module__.startswith("torch.nn.modules.")
        return ours and not isinstance(module, _VIEWING_MODULES)
    if node.op == "call_method":
        return str(node.target) in _FRESH_METHODS
    if isinstance(node.target, torch._ops.OpOverload):
        return all(argument.alias_info is None for argument in node.target._schema.arguments)
    return node.target in _FRESH_FUNCTIONS


def _ends_in_place(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def _has_mutable_schema(target: Any) -> bool:
    return isinstance(target, torch._ops.OpOverload) and bool(target._schema.is_mutable)
