"""A model whose sizes are known, without the nodes that compute with sizes and constants alone."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from winogen.onnx.loading import computed
from winogen.onnx.model import Model, copied
from winogen.onnx.sizes import STANDARD

# What stays: marks of quantized models, and what is another number every time.
_KEPT = frozenset(
    "Bernoulli Constant DequantizeLinear DynamicQuantizeLinear Multinomial QuantizeLinear "
    "RandomNormal RandomNormalLike RandomUniform RandomUniformLike".split()
)
_MOST = 1 << 26  # numbers of a constant


def settled(model: Model) -> Model:
    """Return a model of known sizes in which what follows from them is constant.

    Sizes that were unknown may follow in turn: then again, until nothing more does.
    """
    while True:
        found = _constants(model)
        if not found:
            return model
        proto = copied(model.proto)
        kept = [node for node in proto.graph.node if not found.keys() & set(node.output)]
        del proto.graph.node[:]
        proto.graph.node.extend(kept)
        make = model.onnx.numpy_helper.from_array
        proto.graph.initializer.extend(make(array, name) for name, array in found.items())
        model = Model(proto, model.fixed)


def _constants(model: Model) -> dict[str, np.ndarray]:
    """What nodes make of constants and known sizes; outputs of the model are not among them."""
    outputs = {value.name for value in model.graph.output}
    found: dict[str, np.ndarray] = {}
    for node in model.graph.node:
        if node.domain not in STANDARD or node.op_type in _KEPT or outputs & set(node.output):
            continue
        if any(model.constant(name) is not None for name in node.output) or _has_bodies(node):
            continue
        made = _made(model, node, found)
        if made is not None:
            found |= dict(zip(filter(None, node.output), made))
    return found


def _has_bodies(node: Any) -> bool:
    return any(one.HasField("g") or one.graphs for one in node.attribute)


def _count(model: Model, name: str) -> int:
    """How many numbers a value has, as far as its sizes are known."""
    return prod(size.number for size in model.sizes.get(name, ()) if size.known)


def _made(model: Model, node: Any, found: dict[str, np.ndarray]) -> list[Any] | None:
    if node.op_type in ("Shape", "Size"):
        sizes = model.sizes.get(model.aliases.get(node.input[0], node.input[0]))
        if sizes is None or not all(size.known for size in sizes):
            return None
        whole = np.array([size.number for size in sizes], np.int64)
        if node.op_type == "Size":
            return [np.array(whole.prod(), np.int64)]
        values = model.attributes(node)
        return [whole[values.get("start", 0) : values.get("end", len(whole))]]
    if any(_count(model, name) > _MOST for name in node.output):
        return None
    arrays: dict[str, Any] = {}
    for name in filter(None, node.input):
        arrays[name] = found.get(name, model.constant(name))
        if arrays[name] is None:
            return None
    if not arrays:
        return None
    opset = [model.onnx.helper.make_opsetid("", model.opset)]
    made = computed([node], arrays, [name for name in node.output if name], opset)
    if made is None or not all(isinstance(one, (np.ndarray, np.generic)) for one in made):
        return None
    return [np.asarray(one) for one in made]
