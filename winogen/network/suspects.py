"""Which node of a model the C computes differently: the first one, by halving."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from winogen.onnx.model import Model, copied


def first_wrong(model: Model, output: str, differs: Callable[[Any], bool]) -> str:
    """Return the label of the first node that an output follows from and whose own output differs.

    ``differs``: whether the C of a ModelProto differs from it; False where there is no C of it.
    Models are cut behind a node, each time in the middle of what is left.
    """
    nodes = [node for node in model.cone([output]) if _sizes(model, node.output[0])]
    if not nodes:
        return ""
    low, high = 0, len(nodes) - 1  # the last one differs, as far as we know
    while low < high:
        middle = (low + high) // 2
        if differs(_cut(model, nodes[middle].output[0])):
            high = middle
        else:
            low = middle + 1
    node = nodes[high]
    return f"{node.name or node.output[0]} ({node.op_type})"


def _cut(model: Model, name: str) -> Any:
    """The model with this value as its only output."""
    proto, kind = copied(model.proto), model.onnx.TensorProto.FLOAT
    nodes = [copied(node) for node in model.cone([name])]
    constants = [node for node in model.graph.node if node.op_type == "Constant"]
    del proto.graph.node[:], proto.graph.output[:]
    proto.graph.node.extend([*map(copied, constants), *nodes])
    make = model.onnx.helper.make_tensor_value_info
    proto.graph.output.append(make(name, kind, _sizes(model, name)))
    return proto


def _sizes(model: Model, name: str) -> Sequence[int]:
    sizes = model.sizes.get(name, ())
    return [size.number for size in sizes] if all(size.known for size in sizes) else ()
