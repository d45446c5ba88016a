"""ONNX's own models of convolutions: of single nodes, and converted from PyTorch."""

import onnx
from onnx.backend.test.case import node
from onnx.backend.test.case.node import conv, convtranspose
from onnx.backend.test.loader import load_model_tests

assert conv and convtranspose  # importing them adds their cases
CONVERTED = {case.name: case for case in load_model_tests(kind="pytorch-converted")}


def nodes_of(kind):
    """Cases of one operator, by name."""
    found = (case for case in node._NodeTestCases if case.model.graph.node[0].op_type == kind)
    return {case.name: case for case in found}


def converted(name):
    """A model, its input, and what it has to compute."""
    folder = CONVERTED[name].model_dir
    tensors = []
    for file in ("input_0", "output_0"):
        with open(f"{folder}/test_data_set_0/{file}.pb", "rb") as data:
            tensors.append(onnx.numpy_helper.to_array(onnx.TensorProto.FromString(data.read())))
    return onnx.load(f"{folder}/model.onnx"), *tensors
