"""A layer of low rank as layers of PyTorch, and as a model of ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from winogen.conv import flytes
from winogen.conv.problem import Layer
from winogen.errors import Unsupported
from winogen.extras import require
from winogen.lowrank.form import Form, axes_of
from winogen.records import ACTIVATIONS

_OPSET = 17  # old enough for every reader
_LATER = {"Mish": 18, "wrap": 19, "Gelu": 20}  # what came with which opset
_IR = {17: 8, 18: 8, 19: 9, 20: 9}
# How torch calls paddings that differ between ends, and ONNX all but zeros.
_PADS = {
    "zeros": ("ZeroPad2d", "constant"),
    "reflect": ("ReflectionPad2d", "reflect"),
    "replicate": ("ReplicationPad2d", "edge"),
    "circular": ("CircularPad2d", "wrap"),
}

Weights = tuple[np.ndarray, np.ndarray]
Activation = tuple[str | None, tuple[Any, ...]]  # its name in `ACTIVATIONS`, its parameters


def as_torch(
    layer: Layer, form: Form, weights: Weights, bias: np.ndarray | None, activation: Activation
) -> Any:
    """Return an nn.Sequential of both stages and the activation; raises Unsupported."""
    torch = require("torch", "torch")
    nn = torch.nn
    last = _module(nn, *activation)
    modules: list[Any] = []
    for stage, weight in enumerate(weights):
        height, width = axes_of(layer, form, stage)
        ends = (height.before, height.after), (width.before, width.after)
        mode, padding = layer.padding_mode, (height.before, width.before)
        if any(before != after for before, after in ends):
            modules.append(getattr(nn, _PADS[mode][0])((*ends[1], *ends[0])))
            mode, padding = "zeros", (0, 0)
        own = bias if stage else None
        conv = nn.Conv2d(
            weight.shape[1] * form.groups,
            len(weight),
            weight.shape[2:],
            (height.stride, width.stride),
            padding,
            (height.dilation, width.dilation),
            form.groups,
            own is not None,
            padding_mode=mode,
            dtype=getattr(torch, layer.dtype),
        )
        with torch.no_grad():
            conv.weight.copy_(_tensor(torch, weight))
            if own is not None:
                conv.bias.copy_(_tensor(torch, own))
        modules.append(conv)
    if last is not None:
        modules.append(last.to(getattr(torch, layer.dtype)))
    return nn.Sequential(*modules)


def as_onnx(
    layer: Layer, form: Form, weights: Weights, bias: np.ndarray | None, activation: Activation
) -> Any:
    """Return a ModelProto of both stages and the activation; raises Unsupported."""
    onnx = require("onnx", "onnx")
    helper, read = require("onnx.helper", "onnx"), require("onnx.numpy_helper", "onnx")
    if layer.dtype == "bfloat16":
        raise Unsupported("to_onnx: got a layer of bfloat16; allowed: float32, float64 or float16")
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(layer.dtype))
    nodes: list[Any] = []
    arrays: dict[str, np.ndarray] = {}
    value = "x"
    for stage, weight in enumerate(weights):
        axes = axes_of(layer, form, stage)
        begins, ends = ([getattr(axis, side) for axis in axes] for side in ("before", "after"))
        pads = [*begins, *ends]
        if layer.padding_mode != "zeros" and any(pads):
            arrays[f"padding_{stage + 1}"] = np.array([0, 0, *begins, 0, 0, *ends], np.int64)
            mode = _PADS[layer.padding_mode][1]
            nodes.append(
                helper.make_node("Pad", [value, f"padding_{stage + 1}"], ["padded_" + value],
                                 mode=mode)
            )  # fmt: skip
            value, pads = "padded_" + value, [0] * 4
        arrays[f"weight_{stage + 1}"] = weight
        reads = [value, f"weight_{stage + 1}"]
        if stage and bias is not None:
            arrays["bias"] = bias
            reads.append("bias")
        value = "sums" if stage else "maps"
        node = conv_node(layer, form, stage, reads, value, f"stage_{stage + 1}", pads)
        nodes.append(node)
    nodes += _nodes(helper, *activation, arrays)
    nodes[-1].output[0] = "y"
    for name, array in arrays.items():
        if array.dtype.kind == "f":
            arrays[name] = array.astype(layer.dtype)
    channels = form.channels * form.groups
    shapes = ["N", channels, "H", "W"], ["N", form.filters * form.groups, "OH", "OW"]
    ends = [helper.make_tensor_value_info(name, kind, shape) for name, shape in zip("xy", shapes)]
    constants = [read.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "low_rank", ends[:1], ends[1:], constants)
    needs = [node.op_type for node in nodes] + [a.s.decode() for n in nodes for a in n.attribute]
    opset = max(_LATER.get(name, _OPSET) for name in needs)
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR[opset])
    onnx.checker.check_model(model)
    return model


def conv_node(
    layer: Layer,
    form: Form,
    stage: int,
    reads: list[str],
    output: str,
    name: str,
    pads: list[int] | None = None,
) -> Any:
    """Return the node of a stage. ``pads``: None for the layer's own."""
    axes = axes_of(layer, form, stage)
    if pads is None:
        pads = [axis.before for axis in axes] + [axis.after for axis in axes]
    return require("onnx.helper", "onnx").make_node(
        "Conv",
        reads,
        [output],
        name,
        kernel_shape=[axis.kernel for axis in axes],
        strides=[axis.stride for axis in axes],
        pads=pads,
        dilations=[axis.dilation for axis in axes],
        group=form.groups,
    )


def _tensor(torch: Any, array: np.ndarray) -> Any:
    """A copy; numpy's arrays of bfloat16 are none of torch's."""
    return torch.from_numpy(np.array(flytes.computed_with(array)))


def _module(nn: Any, name: str | None, parameters: tuple[Any, ...]) -> Any:
    """The module of an activation, None for none."""
    if name is None:
        return None
    entry = ACTIVATIONS[name]
    if entry.per_filter:
        (slopes,) = parameters
        module = nn.PReLU(len(slopes))
        module.weight.data.copy_(_tensor(require("torch", "torch"), slopes))
        return module
    for function in entry.torch:
        given = entry.given(function, parameters) if function.module else None
        if given is not None:
            return getattr(nn, function.module)(**given)
    raise Unsupported(f"to_torch: got activation {name} {parameters}; allowed: a module of torch")


def _nodes(
    helper: Any, name: str | None, parameters: tuple[Any, ...], arrays: dict[str, np.ndarray]
) -> list[Any]:
    """The nodes of an activation of "sums", the last of which makes its values."""
    if name is None:
        return []
    if name == "silu":  # one operator only in the newest opset
        sigmoid = helper.make_node("Sigmoid", ["sums"], ["sigmoid"])
        return [sigmoid, helper.make_node("Mul", ["sums", "sigmoid"], ["silu"])]
    entry = ACTIVATIONS[name]
    for function in entry.onnx:
        given = entry.given(function, parameters)
        if given is None:
            continue
        reads = ["sums"]
        if function.names in ("Clip", "PRelu"):  # theirs are inputs
            for argument, number in given.items():
                shape = (-1, 1, 1) if entry.per_filter else ()
                arrays[argument] = np.asarray(number, np.float64).reshape(shape)
                reads.append(argument)
            given = {}
        return [helper.make_node(function.names, reads, [name], **given)]
    raise Unsupported(f"to_onnx: got activation {name} {parameters}; allowed: one of ONNX's")
