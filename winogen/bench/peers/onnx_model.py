"""A layer as an ONNX model of one node, for the rivals that read such models."""

from __future__ import annotations

import numpy as np

from winogen.bench.layers import BenchLayer


def conv_model(layer: BenchLayer, weight: np.ndarray) -> bytes:
    """Return the serialized model: input "x", output "y", the weights inside."""
    from onnx import TensorProto, helper, numpy_helper

    node = helper.make_node(
        "Conv",
        ["x", "w"],
        ["y"],
        kernel_shape=list(layer.weight[2:]),
        strides=list(layer.stride),
        pads=[*layer.padding, *layer.padding],
        dilations=list(layer.dilation),
        group=layer.groups,
    )
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, layer.input)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, layer.output)],
        [numpy_helper.from_array(weight, "w")],
    )
    # Old enough for every reader there is.
    opset = helper.make_opsetid("", 13)
    return helper.make_model(graph, opset_imports=[opset], ir_version=7).SerializeToString()
