"""A layer as an ONNX model of one convolution, for the rivals that read such models."""

from __future__ import annotations

from typing import Any

import numpy as np

from winogen.tuning.layers import BenchLayer
from winogen_lab.bench.quantized import steps

_OPSET = 13  # old enough for every reader there is


def conv_model(layer: BenchLayer, weight: np.ndarray) -> bytes:
    """Return the serialized model: input "x", output "y", the weights inside."""
    from onnx import helper

    kind, more = "Conv", {}
    if layer.transposed:
        kind, more = "ConvTranspose", {"output_padding": list(layer.output_padding)}
    node = helper.make_node(kind, ["x", "w"], ["y"], **_attributes(layer), **more)
    return _model(layer, [node], {"w": weight}, "float32")


def linear_model(layer: BenchLayer, weight: np.ndarray, layout: str = "NCHW") -> bytes:
    """Return the model of one QLinearConv on uint8, zero points 128; int8 weights inside.

    In NHWC it is the operator of onnxruntime's own domain that its optimizer uses.
    """
    from onnx import helper

    names = ["x", "xs", "zero", "w", "ws", "wz", "ys", "zero"]
    values = _attributes(layer)
    if layout == "NHWC":
        values |= {"domain": "com.microsoft", "channels_last": 1}
    node = helper.make_node("QLinearConv", names, ["y"], **values)
    return _model(layer, [node], _quantized(layer, weight, "uint8", 128), "uint8", layout)


def pairs_model(layer: BenchLayer, weight: np.ndarray, dtype: str, zero: int) -> bytes:
    """Return the model of a convolution between DequantizeLinear and QuantizeLinear."""
    from onnx import helper

    nodes = [
        helper.make_node("DequantizeLinear", ["x", "xs", "zero"], ["a"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["b"], axis=0),
        helper.make_node("Conv", ["a", "b"], ["c"], **_attributes(layer)),
        helper.make_node("QuantizeLinear", ["c", "ys", "zero"], ["y"]),
    ]
    return _model(layer, nodes, _quantized(layer, weight, dtype, zero), dtype)


def _quantized(
    layer: BenchLayer, weight: np.ndarray, dtype: str, zero: int
) -> dict[str, np.ndarray]:
    """Constants of a quantized layer by name."""
    scale = steps(layer)
    return {
        "xs": np.asarray(scale.x), "zero": np.asarray(zero, dtype), "w": weight, "ws": scale.w,
        "wz": np.zeros(len(scale.w), np.int8), "ys": np.asarray(scale.y),
    }  # fmt: skip


def _attributes(layer: BenchLayer) -> dict[str, Any]:
    return {
        "kernel_shape": list(layer.weight[2:]),
        "strides": list(layer.stride),
        "pads": [*layer.padding, *layer.padding],
        "dilations": list(layer.dilation),
        "group": layer.groups,
    }


def _model(
    layer: BenchLayer,
    nodes: list[Any],
    constants: dict[str, np.ndarray],
    dtype: str,
    layout: str = "NCHW",
) -> bytes:
    from onnx import helper, numpy_helper

    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    shapes = [tuple(layer.input), tuple(layer.output)]
    if layout == "NHWC":
        shapes = [(batch, *sizes, channels) for batch, channels, *sizes in shapes]
    x, y = (helper.make_tensor_value_info(n, kind, shape) for n, shape in zip("xy", shapes))
    arrays = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "layer", [x], [y], arrays)
    opsets = [helper.make_opsetid(domain, version) for domain, version in _domains(nodes)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=7).SerializeToString()


def _domains(nodes: list[Any]) -> list[tuple[str, int]]:
    own = sorted({node.domain for node in nodes} - {""})
    return [("", _OPSET), *((domain, 1) for domain in own)]
