"""The types and sizes that onnx infers of a model's values."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from winogen.onnx.loading import without
from winogen.onnx.padding import is_whole, windows
from winogen.onnx.sizes import POOLS, declared, is_open

if TYPE_CHECKING:
    from winogen.onnx.model import Model

SMALL = 4096  # constants with more numbers have no say in anybody's sizes


def inferred(model: Model, believing: bool = True) -> dict[str, Any]:
    """Return ValueInfoProtos of all values that onnx knows of, by name.

    ``believing``: whether what the model declares of values that nodes make is taken for granted.

    Of pools with `ceil_mode` onnx counts windows that begin behind the input, which there are none
    of: such pools are written with the padding that their windows see.
    """
    light = without(model.proto, "graph")
    light.graph.CopyFrom(without(model.graph, "initializer"))
    for tensor in model.graph.initializer:
        if tensor.name in model.replaceable:
            continue  # sizes may not follow from a default that is replaced
        kept = light.graph.initializer.add()
        if np.prod(tensor.dims, dtype=np.int64) > SMALL:
            kept.dims.extend(tensor.dims)
            kept.data_type, kept.name = tensor.data_type, tensor.name
        else:
            kept.CopyFrom(tensor)
    model.write_fixed(light.graph)
    if not believing:
        del light.graph.value_info[:]
        for value in light.graph.output:
            value.type.tensor_type.ClearField("shape")
    for value in (*light.graph.input, *light.graph.value_info, *light.graph.output):
        for dim in filter(is_open, value.type.tensor_type.shape.dim):
            dim.Clear()  # onnx would compute with it
    pools = [node for node in light.graph.node if node.op_type in POOLS]
    pools = [node for node in pools if model.attributes(node).get("ceil_mode", 0)]
    while True:
        made = light
        with suppress(Exception):  # a model that onnx finds fault with may run all the same
            made = model.onnx.shape_inference.infer_shapes(light, data_prop=True)
        graph = made.graph
        known = {v.name: v for v in (*graph.input, *graph.value_info, *graph.output)}
        place = next((i for i, one in enumerate(pools) if _is_spelled(model, one, known)), None)
        if place is None:
            return known
        del pools[place]  # those that follow may read what it makes


def _is_spelled(model: Model, node: Any, known: Mapping[str, Any]) -> bool:
    """Whether a pool's padding was written into it; not where nobody knows what it reads."""
    values, value = model.attributes(node), known.get(node.input[0])
    sizes, taps = declared(value) if value is not None else None, values.get("kernel_shape", ())
    rank = len(taps)
    if sizes is None or len(sizes) != 2 + rank or not all(one.known for one in sizes[2:]):
        return False
    if not is_whole(values, rank):
        return False
    axes = enumerate(zip(sizes[2:], taps))
    made = [windows(values, axis, rank, one.number, n) for axis, (one, n) in axes]
    pads = [one.before for one in made] + [one.after for one in made]
    for attribute in reversed(node.attribute):
        if attribute.name in ("auto_pad", "ceil_mode", "pads"):
            node.attribute.remove(attribute)
    node.attribute.append(model.onnx.helper.make_attribute("pads", pads))
    return True
