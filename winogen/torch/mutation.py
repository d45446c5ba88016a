"""Operations of a traced model: some change a tensor in place, others return fresh memory.

A graph of values knows no changes. An operation in place is read as one with a new result, and
everything behind it reads this result. It is right unless something else looks at the same memory.
"""

from __future__ import annotations

import copy
import inspect
import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F

from winogen.torch.calls import first

# operator.iadd, as ``y += x`` is traced, and operator.add, which returns a new tensor.
IN_PLACE_OPERATORS = {
    getattr(operator, f"i{name.rstrip('_')}"): getattr(operator, name)
    for name in "add sub mul matmul truediv floordiv mod pow and_ or_ xor".split()
}
# Numbers, sizes and texts never change: a statement in place makes new ones.
_UNCHANGING = (int, float, complex, str, tuple)
# What looks at how a tensor lies in memory, where ours may lie in another order.
_LOOKING_AT_MEMORY = set(
    "as_strided stride is_contiguous storage_offset storage untyped_storage data_ptr numpy "
    "view_as_real view_as_complex set_ __array__ __dlpack__".split()
)
# Modules of torch whose result may be a view of what they read; modules of users may do anything.
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
    F.max_pool3d,
    F.avg_pool2d,
    F.avg_pool3d,
    F.adaptive_avg_pool2d,
    F.adaptive_avg_pool3d,
    F.adaptive_max_pool2d,
    F.interpolate,
    F.conv_transpose1d,
    F.conv_transpose2d,
    F.conv_transpose3d,
    F.conv1d,
    F.conv2d,
    F.conv3d,
    F.linear,
    F.group_norm,
    F.layer_norm,
    F.softmax,
    F.pixel_shuffle,
    torch.conv_transpose1d,
    torch.conv_transpose2d,
    torch.conv_transpose3d,
    torch.conv1d,
    torch.conv2d,
    torch.conv3d,
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
}
_FACTS = {"shape", "dtype", "device", "ndim", "layout", "is_cuda", "requires_grad"}
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
    kind = node.meta.get("type")
    if node.target in IN_PLACE_OPERATORS and kind and issubclass(kind, _UNCHANGING):
        return None
    if node.op == "call_module":
        module = modules.get(str(node.target))
        changes = bool(getattr(module, "inplace", False))
    elif node.op == "call_method":
        changes = _ends_in_place(str(node.target))
    elif node.op == "call_function":
        changes = (
            node.target in IN_PLACE_OPERATORS
            or node.target is operator.setitem
            or bool(_argument(node, "inplace"))
            or node.kwargs.get("out") is not None
            or _ends_in_place(getattr(node.target, "__name__", "").partition(".")[0])
            or _has_mutable_schema(node.target)
        )
    else:
        changes = False
    if not changes:
        return None
    given = first(node)
    return given if isinstance(given, fx.Node) else node


def made_functional(node: fx.Node, modules: Mapping[str, nn.Module]) -> bool:
    """Make an operation in place return a new tensor; False where its function is unknown.

    Of a module the operation gets a copy; the node belongs to the caller.
    """
    if node.op == "call_module":
        module: Any = copy.copy(modules[str(node.target)])
        module.inplace = False
        name = f"{node.target}.functional".replace(".", "_")
        owner = node.graph.owning_module
        assert owner is not None
        owner.add_module(name, module)
        node.target = name
        return True
    if _argument(node, "inplace") is True:
        values = _arguments(node)
        node.args, node.kwargs = (), {**values, "inplace": False}
        return True
    if node.op == "call_function" and node.target in IN_PLACE_OPERATORS:
        node.target = IN_PLACE_OPERATORS[node.target]
        return True
    return False


def looks_at_memory(node: fx.Node) -> bool:
    """Whether a result depends on the order of the numbers in memory, and not only on them."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if node.op == "call_method" and name == "view":
        return any(isinstance(one, torch.dtype) for one in (*node.args, *node.kwargs.values()))
    return node.op in ("call_method", "call_function") and (
        str(name).partition(".")[0] in _LOOKING_AT_MEMORY
    )


def is_fresh(node: fx.Node, modules: Mapping[str, nn.Module]) -> bool:
    """Whether a result certainly shares no memory with what it was made of."""
    if node.op == "call_module":
        module = modules.get(str(node.target))
        ours = type(module).__module__.startswith("torch.nn.modules.")
        return ours and not isinstance(module, _VIEWING_MODULES)
    if node.op == "call_method":
        return str(node.target) in _FRESH_METHODS
    if node.target is getattr:
        return node.args[1] in _FACTS
    if isinstance(node.target, torch._ops.OpOverload):
        return all(argument.alias_info is None for argument in node.target._schema.arguments)
    return node.target in _FRESH_FUNCTIONS


def is_known(node: fx.Node) -> bool:
    """Whether a function is Python's or torch's own: any other may change what it is given."""
    if node.op != "call_function" or isinstance(node.target, torch._ops.OpOverload):
        return True
    home = getattr(node.target, "__module__", None) or ""
    return home.partition(".")[0] in ("", "torch", "builtins", "operator", "_operator", "math",
                                      "winogen")  # fmt: skip


def _arguments(node: fx.Node) -> dict[str, Any]:
    """The arguments of a function by name, as far as Python can tell."""
    try:
        signature = inspect.signature(node.target)
        return dict(signature.bind(*node.args, **node.kwargs).arguments)
    except (TypeError, ValueError):
        return dict(node.kwargs)


def _argument(node: fx.Node, name: str) -> Any:
    return _arguments(node).get(name)


def _ends_in_place(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def _has_mutable_schema(target: Any) -> bool:
    return isinstance(target, torch._ops.OpOverload) and bool(target._schema.is_mutable)
