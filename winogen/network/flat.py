"""A product behind a Flatten is a convolution: its kernel is as large as the map.

y = W x of the flattened (C, H, W) sums over the same numbers as a convolution of a kernel H x W
without padding, whose only output is a pixel. So does that of a flattened signal (C, W), or of
volumes (C, D, H, W).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from winogen.onnx.model import Model, copied, fresh
from winogen.onnx.sizes import STANDARD, input_of

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
        source, *arrays = found
        inputs, pixel = [source], fresh(f"{node.output[0]}.pixel", taken)
        for array, what in zip(arrays, ("filters", "bias")):
            if array is not None:
                inputs.append(fresh(f"{node.output[0]}.{what}", taken))
                tensors.append(model.onnx.numpy_helper.from_array(array, inputs[-1]))
        nodes.append(helper.make_node("Conv", inputs, [pixel], name=node.name or node.output[0]))
        nodes.append(helper.make_node("Flatten", [pixel], [node.output[0]], axis=1))
    if tensors:
        del proto.graph.node[:]
        proto.graph.node.extend(nodes)
        proto.graph.initializer.extend(tensors)
    return proto


def _product(model: Model, node: Any) -> tuple[str, np.ndarray, np.ndarray | None] | None:
    """The map, the filters and the bias of a product of a flattened map; None for other nodes."""
    if node.op_type not in ("Gemm", "MatMul") or node.domain not in STANDARD:
        return None
    weight, bias = model.constant(node.input[1]), None
    values = model.attributes(node)
    if weight is None or weight.ndim != 2 or values.get("transA", 0):
        return None
    filters = weight if values.get("transB", 0) else weight.T
    if node.op_type == "Gemm" and (name := input_of(node, 2)):
        given = model.constant(name)
        if given is None or given.shape not in (
            (),
            (1,),
            (1, 1),
            filters.shape[:1],
            (1, len(filters)),
        ):
            return None
        bias = _times(values.get("beta", 1.0), np.broadcast_to(given.ravel(), filters.shape[:1]))
    source = _flattened(model, node.input[0])
    if source is None:
        return None
    sizes = [size.number for size in model.sizes[source][1:]]
    if filters.shape[1] != np.prod(sizes):
        return None
    filters = _times(values.get("alpha", 1.0), filters)
    if not all(np.isfinite(one).all() for one in (filters, bias) if one is not None):
        return None  # a factor is infinite, or makes some weight so
    return source, filters.reshape(len(filters), *sizes), bias


def _times(factor: float, array: np.ndarray) -> np.ndarray:
    """An array times the factor of a Gemm, rounded once."""
    with np.errstate(all="ignore"):
        return np.ascontiguousarray((factor * array.astype(np.float64)).astype(array.dtype))


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
