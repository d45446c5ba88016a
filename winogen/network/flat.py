"""A product behind a Flatten is a convolution: its kernel is as large as the map.

y = W x of the flattened (C, H, W) sums over the same numbers as a convolution of a kernel H x W
without padding, whose only output is a pixel. So does that of a flattened signal (C, W), or of
volumes (C, D, H, W).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from winogen.onnx.model import Model, copied, fresh
from winogen.onnx.sizes import STANDARD

_FLATTENING = ("Flatten", "Reshape")


def with_convolutions(model: Model) -> Any:
    """Return the model's ModelProto in which such products are convolutions."""
    proto = copied(model.proto)
    helper, taken = model.onnx.helper, model.names()
    nodes, tensors = [], []
    for node in model.graph.node:
        found = _product(model, node)
        if found is None:
            nodes.append(copied(node))
            continue
        source, weight, bias = found
        filters, pixel = (
            fresh(f"{node.output[0]}.filters", taken),
            fresh(f"{node.output[0]}.pixel", taken),
        )
        tensors.append(model.onnx.numpy_helper.from_array(weight, filters))
        inputs = [source, filters, *([bias] if bias else [])]
        nodes.append(helper.make_node("Conv", inputs, [pixel], name=node.name or node.output[0]))
        nodes.append(helper.make_node("Flatten", [pixel], [node.output[0]], axis=1))
    if tensors:
        del proto.graph.node[:]
        proto.graph.node.extend(nodes)
        proto.graph.initializer.extend(tensors)
    return proto


def _product(model: Model, node: Any) -> tuple[str, np.ndarray, str] | None:
    """The map, the filters and the bias of a product of a flattened map; None for other nodes."""
    if node.op_type not in ("Gemm", "MatMul") or node.domain not in STANDARD:
        return None
    weight, bias = model.constant(node.input[1]), ""
    values = model.attributes(node)
    if weight is None or weight.ndim != 2:
        return None
    if node.op_type == "Gemm":
        plain = values.get("alpha", 1.0) == values.get("beta", 1.0) == 1.0
        if not plain or values.get("transA", 0):
            return None
        bias = node.input[2] if len(node.input) > 2 else ""
    filters = weight if values.get("transB", 0) else weight.T
    if bias:
        given = model.constant(bias)
        if given is None or given.shape != (len(filters),):
            return None
    source = _flattened(model, node.input[0])
    if source is None:
        return None
    sizes = [size.number for size in model.sizes[source][1:]]
    if filters.shape[1] != np.prod(sizes):
        return None
    return source, np.ascontiguousarray(filters).reshape(len(filters), *sizes), bias


def _flattened(model: Model, name: str) -> str | None:
    """The map or signal of several pixels that this is, flattened, or the volumes of any number.

    None for any other value: of a single pixel of maps products are read as they are.
    """
    maker = model.makers.get(model.aliases.get(name, name))
    if maker is None or maker.op_type not in _FLATTENING or maker.domain not in STANDARD:
        return None
    source = model.aliases.get(maker.input[0], maker.input[0])
    before, after = (model.sizes.get(one, ()) for one in (source, maker.output[0]))
    if len(before) not in (3, 4, 5) or len(after) != 2 or before[0] != after[0]:
        return None
    if not all(size.known for size in before[1:]):
        return None
    if len(before) < 5 and all(size.number == 1 for size in before[2:]):
        return None
    return source
