"""Quantized operators of onnxruntime's own as what they mean: between dequantize and quantize.

onnxruntime's static quantizer writes them in the format QOperator, and its optimizations make them
of pairs. The values of codes keep their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from winogen.onnx.model import Model, copied, fresh

DOMAIN = "com.microsoft"
# What is between, and how many inputs of codes come first, each with a scale and a zero point.
_FORMS = {
    "QLinearAdd": ("Add", 2),
    "QLinearMul": ("Mul", 2),
    "QLinearAveragePool": ("AveragePool", 1),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", 1),
    "QLinearLeakyRelu": ("LeakyRelu", 1),
    "QLinearSigmoid": ("Sigmoid", 1),
    "QLinearConcat": ("Concat", 0),  # those of the output come first
    "QGemm": ("Gemm", 2),
}


def is_form(node: Any) -> bool:
    """Return whether a node is one of these operators."""
    return node.domain == DOMAIN and node.op_type in _FORMS


def expanded(model: Model) -> Model:
    """Return the same model without these operators."""
    if not any(map(is_form, model.graph.node)):
        return model
    proto = copied(model.proto)
    nodes, expansion = list(proto.graph.node), _Expansion(model, proto)
    del proto.graph.node[:]
    for node in nodes:
        proto.graph.node.extend(expansion.of(node) if is_form(node) else [node])
    return Model(proto, model.fixed)


class _Expansion:
    def __init__(self, model: Model, proto: Any):
        self.model, self.proto, self.taken = model, proto, model.names()
        self.make = model.onnx.helper.make_node

    def of(self, node: Any) -> list[Any]:
        """What a node means; the node itself where that is nothing between pairs."""
        names, values = list(node.input), dict(self.model.attributes(node))
        kind, count = _FORMS[node.op_type]
        if values.pop("channels_last", 0):
            return [node]
        if kind == "Concat":
            after, names = names[:2], names[2:]
            count = len(names) // 3
        else:
            after = names[3 * count :]
        groups = [names[3 * place : 3 * place + 3] for place in range(count)]
        axis: list[int | None] = [None] * count
        if kind == "Gemm":
            bias = self._bias(groups, after[0]) if len(after) > 1 and after[1] else None
            if bias is None:  # or its output are numbers
                return [node]
            groups, after = [*groups, *bias], after[1:]
            axis[1:] = [0 if values.get("transB", 0) else 1, 0]
        made, reads = list[Any](), list[str]()
        for group, along in zip(groups, axis):
            reads.append(fresh(f"{node.output[0]}.{len(reads)}", self.taken))
            some = {} if along is None else {"axis": along}
            made.append(self.make("DequantizeLinear", _named(group), reads[-1:], **some))
        numbers = fresh(f"{node.output[0]}.numbers", self.taken)
        made.append(self.make(kind, reads, [numbers], node.name, **values))
        return [*made, self.make("QuantizeLinear", _named([numbers, *after]), node.output)]

    def _bias(self, groups: Sequence[Sequence[str]], name: str) -> list[list[str]] | None:
        """A bias, in steps of the sums: the scales' product. None where these may change."""
        if not name:
            return []
        known = (self.model.constant(one) for one in (groups[0][1], groups[1][1], name))
        arrays = [array for array in known if array is not None]
        if len(arrays) < 3:
            return None
        x, w, bias = arrays
        both = np.float32(x).reshape(-1) * np.float32(w).reshape(-1)
        if both.size not in (1, bias.size):
            return None
        scale = fresh(f"{name}.scale", self.taken)
        array = both if both.size == bias.size else both.reshape(())
        self.proto.graph.initializer.append(self.model.onnx.numpy_helper.from_array(array, scale))
        return [[name, scale]]


def _named(names: Sequence[str]) -> list[str]:
    """Inputs without empty ones at their end."""
    found = list(names)
    while not found[-1]:
        del found[-1]
    return found
