"""Tensors that hold a map otherwise: (N, H, W, C), (N, C, W) of one row, (N, C) of one pixel.

A graph has maps (N, C, H, W) alone. What is between a permutation and the one that takes it back,
or behind a flattened mean of every channel, is read as operators of maps. The tensors themselves
are made of the maps where somebody else reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import fx, nn

from winogen.graph import Affine, Conv, LayerNorm, Softmax
from winogen.graph.ops import Operator
from winogen.torch import rows
from winogen.torch.calls import Call, Translation, Untranslated, array, first, others, weight_of
from winogen.torch.translate import is_changed, label, translate

aten = torch.ops.aten
Shape = tuple[int, ...]


class Form(NamedTuple):
    """How a tensor holds a map: what makes it of the map, what makes the map of it."""

    method: str
    arguments: tuple[int, ...]
    back: Callable[[torch.Tensor], torch.Tensor]
    axis: int  # of the channels


FORMS = {
    "last": Form("permute", (0, 2, 3, 1), lambda x: x.permute(0, 3, 1, 2), 3),
    "flat": Form("flatten", (1,), lambda x: x[:, :, None, None], 1),
    "row": Form("squeeze", (2,), lambda x: x[:, :, None, :], 1),
    "thin": Form("flatten", (2,), lambda x: x[:, :, :, None], 1),
}
# Of a map of a single pixel, by their ranks.
_PIXELS = {2: "flat", 3: "thin"}
_RESHAPING = frozenset(
    "flatten view reshape unsqueeze squeeze getitem _unsafe_view Flatten".split()
)


class View(NamedTuple):
    """A value that holds a map in some form."""

    map: str
    form: str


def back(values: Mapping[str, torch.Tensor], name: str) -> torch.Tensor | None:
    """Return the map ``name``, "x.last", of the tensor x among ``values``; None if it is not."""
    tensor, _, form = name.rpartition(".")
    return FORMS[form].back(values[tensor]) if form in FORMS and tensor in values else None


def payload(name: str, form: str) -> fx.Node:
    """Return a node of torch's that makes the tensor ``name`` of a map."""
    graph = fx.Graph()
    read = graph.placeholder("map")
    arguments = (read, *FORMS[form].arguments)
    return graph.create_node("call_method", FORMS[form].method, arguments, name=name)


def row(name: str) -> fx.Node:
    """Return a node of torch's that makes the map ``name`` of a signal."""
    graph = fx.Graph()
    read = graph.placeholder("signal")
    return graph.create_node("call_method", "unsqueeze", (read, 2), name=name)


def opened(node: fx.Node, modules: Mapping[str, nn.Module], shape: Shape, x: Shape) -> str:
    """Return the form in which a node holds its input map, of shape ``x``; "" for none."""
    name = _name(node, modules)
    if name == "permute":
        return "last" if _order(node) == (0, 2, 3, 1) else ""
    if name in _RESHAPING and x[2:] == (1, 1) and _keeps_batch(node, name):
        return _PIXELS.get(len(shape), "") if shape[:2] == x[:2] else ""
    return ""


def closed(
    node: fx.Node, modules: Mapping[str, nn.Module], form: str, shape: Shape, x: Shape
) -> bool:
    """Return whether a node makes the map again, of shape ``x``, that it reads in a form."""
    name = _name(node, modules)
    if form == "last":
        return name == "permute" and _order(node) == (0, 3, 1, 2)
    return name in _RESHAPING and shape == x and _keeps_batch(node, name)


def reshaped(
    node: fx.Node, modules: Mapping[str, nn.Module], form: str, shape: Shape, x: Shape
) -> str:
    """Return the other form of a single pixel that a node makes of one; "" for none."""
    name = _name(node, modules)
    if form == "last" or name not in _RESHAPING or not _keeps_batch(node, name):
        return ""
    return _PIXELS.get(len(shape), "") if shape[:2] == x[:2] and set(shape[2:]) <= {1} else ""


def _name(node: fx.Node, modules: Mapping[str, nn.Module]) -> str:
    """What a node's function, method or module is called."""
    if node.op == "call_module":
        module = modules.get(str(node.target))
        return "" if module is None or is_changed(module) else type(module).__name__
    target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return str(target).partition(".")[0]


def _order(node: fx.Node) -> tuple[int, ...]:
    """The order of the axes of a permutation."""
    axes = others(node)
    return tuple(axis % 4 for axis in axes) if all(isinstance(a, int) for a in axes) else ()


def _keeps_batch(node: fx.Node, name: str) -> bool:
    """Whether a node reshapes every image alike, whatever their number."""
    if name == "squeeze":  # without axes it may take that of the images
        return len(node.args) > 1 or bool(node.kwargs)
    if name == "getitem":  # a slice of the images may be all of the images seen
        index = node.args[1] if isinstance(node.args[1], tuple) else node.args[1:]
        return index[0] is Ellipsis or index[0] == slice(None)
    if name in ("view", "reshape", "_unsafe_view"):
        sizes = others(node)
        return not isinstance(sizes[0], int) or sizes[0] == -1
    return True


# --- operators of maps in a form


class Inside(NamedTuple):
    """What the nodes between two forms are read with."""

    modules: Mapping[str, nn.Module]
    constants: Mapping[str, torch.Tensor]
    shapes: Mapping[str, Shape]  # of maps, by the tensors that hold them


def inside(node: fx.Node, form: str, given: Inside) -> Translation:
    """Return what a node computes of the maps that its tensors hold; raises Untranslated."""
    if form == "row":
        return rows.translated(node, given.modules, given.constants, given.shapes)
    call = Call(node, given.constants, given.shapes)
    if node.op == "call_module":
        module = given.modules.get(str(node.target))
        of_module = _MODULES.get(type(module))
        if module is not None and of_module is not None and not is_changed(module):
            op = of_module(call, module, FORMS[form])
            return Translation([op], [call.map(first(node))], str(node.target))
    else:
        maker = _FUNCTIONS.get(_name(node, {}))
        if maker is not None:
            return Translation([maker(call, FORMS[form])], [call.map(first(node))], label(node))
        if _name(node, {}) in ("mul", "add") and form != "thin":
            scaled = _scaled(call)
            if scaled is not None:
                return scaled
    found = translate(node, given.modules, given.constants, given.shapes)
    if not all(op.is_elementwise for op in found.ops):
        raise Untranslated
    sizes = {tuple(given.shapes[x.name]) for x in found.inputs}
    if len(sizes) > 1:  # it repeats along other axes than those of maps
        raise Untranslated
    return found


def _scaled(call: Call) -> Translation | None:
    """A product or a sum with a number per channel, which is the last axis."""
    values = call.bind("input other alpha", alpha=1)
    for x, other in (("input", "other"), ("other", "input")):
        if not isinstance(values[x], fx.Node) or values[x].name not in call.shapes:
            continue
        numbers = weight_of(values[other], call.constants)
        channels = call.channels(values[x])
        if numbers is None or values["alpha"] != 1 or tuple(numbers.shape) != (channels,):
            continue
        given = array(numbers)
        if _name(call.node, {}) == "mul":
            op = Affine(given, np.zeros_like(given))
        else:
            op = Affine(np.ones_like(given), given)
        return Translation([op], [values[x]], label(call.node))
    return None


def _linear(weight: Any, bias: Any) -> Conv:
    if weight is None or weight.ndim != 2:
        raise Untranslated
    return Conv(weight[:, :, None, None], bias)


def _linear_module(call: Call, module: Any, form: Form) -> Conv:
    if form is FORMS["thin"]:
        raise Untranslated
    return _linear(array(module.weight), None if module.bias is None else array(module.bias))


def _linear_function(call: Call, form: Form) -> Conv:
    values = call.bind("input weight bias", bias=None)
    if form is FORMS["thin"]:
        raise Untranslated
    return _linear(call.constant(values["weight"]), call.constant(values["bias"]))


def _norm(call: Call, sizes: Any, weight: Any, bias: Any, eps: float, form: Form) -> LayerNorm:
    if tuple(sizes) != (call.channels(call.map(first(call.node))),) or form is FORMS["thin"]:
        raise Untranslated
    return LayerNorm(weight, bias, eps)


def _norm_module(call: Call, module: Any, form: Form) -> LayerNorm:
    scale, shift = (None if one is None else array(one) for one in (module.weight, module.bias))
    return _norm(call, module.normalized_shape, scale, shift, module.eps, form)


def _norm_function(call: Call, form: Form) -> LayerNorm:
    values = call.bind(
        "input normalized_shape weight bias eps cudnn_enable", weight=None, bias=None, eps=1e-5
    )
    scale, shift = (call.constant(values[name]) for name in ("weight", "bias"))
    return _norm(call, values["normalized_shape"], scale, shift, values["eps"], form)


def _softmax(call: Call, axis: Any, form: Form) -> Softmax:
    rank = {"last": 4, "flat": 2, "thin": 3}[next(k for k, one in FORMS.items() if one is form)]
    if not isinstance(axis, int) or axis % rank != form.axis:
        raise Untranslated
    return Softmax()


def _softmax_function(call: Call, form: Form) -> Softmax:
    values = call.bind("input dim _stacklevel dtype", dtype=None)
    if values["dtype"] not in (None, False):
        raise Untranslated
    return _softmax(call, values.get("dim"), form)


_MODULES: dict[type, Callable[[Call, Any, Form], Operator]] = {
    nn.Linear: _linear_module,
    nn.LayerNorm: _norm_module,
    nn.Softmax: lambda call, module, form: _softmax(call, module.dim, form),
}
_FUNCTIONS: dict[str, Callable[[Call, Form], Operator]] = {
    "linear": _linear_function,
    "layer_norm": _norm_function,
    "softmax": _softmax_function,
}
