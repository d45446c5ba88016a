"""Models with functions of their own: their convolutions are found like all others."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

import winogen.onnx
from winogen import lowrank, network
from winogen.onnx import loading
from winogen.onnx.rewrite import rewrite

WEIGHT = np.random.default_rng(0).standard_normal((4, 4, 3, 3)).astype(np.float32) / 6


def model_of_blocks(inner=17):
    """Two calls of a function of a function, which has a convolution; ``inner``: its opset."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    conv = [helper.make_node("Conv", ["x", "w"], ["t"], "conv", pads=[1] * 4)]
    conv.append(helper.make_node("Relu", ["t"], ["y"], "relu"))
    one = helper.make_function(
        "my", "One", ["x", "w"], ["y"], conv, [helper.make_opsetid("", inner)]
    )
    calls = [helper.make_node("One", ["x", "w"], ["t"], "one", domain="my")]
    calls.append(helper.make_node("One", ["t", "w"], ["y"], "two", domain="my"))
    block = helper.make_function("my", "Block", ["x", "w"], ["y"], calls, opsets)
    nodes = [helper.make_node("Block", ["x", "w"], ["h"], "first", domain="my")]
    nodes.append(helper.make_node("Block", ["h", "w"], ["y"], "second", domain="my"))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "blocks", [value("x", 1, [1, 4, 9, 8])], [value("y", 1, [1, 4, 9, 8])],
        [numpy_helper.from_array(WEIGHT, "w")],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=opsets, functions=[one, block], ir_version=8)


@pytest.fixture
def x():
    return np.random.default_rng(1).standard_normal((1, 4, 9, 8)).astype(np.float32)


def test_all_doors_look_into_functions(x, session, tmp_path):
    model = model_of_blocks()
    onnx.save(model, tmp_path / "model.onnx")
    result = rewrite(tmp_path / "model.onnx")
    assert result.convolutions == 4 and not result.refusals
    (wanted,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    (y,) = session(result.model).run(None, {"x": x})
    np.testing.assert_allclose(y, wanted, atol=1e-5)
    assert len(winogen.onnx.report(model).rows) == 4
    quantized = winogen.onnx.quantize(model, [x])
    assert sum(node.op_type == "Conv" for node in quantized.graph.node) == 4
    assert "net.c" in network.generate(model, isa="generic").contents
    _, report = lowrank.compress(model, [x] * 6, budget="products:1.2x")
    assert len(report.rows) == 4
    assert len(model.functions) == 2  # which is left alone


def test_a_model_without_gain_keeps_its_functions(monkeypatch, library):
    model = model_of_blocks()
    del model.functions[0].node[0]  # no convolution
    model.functions[0].node[0].input[0] = "x"
    with pytest.warns(UserWarning, match="nothing for winogen to do"):
        assert winogen.onnx.optimize(model) == model


def test_weights_are_not_copied():
    model = model_of_blocks()
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(9, np.float32), "t__1"))
    made = loading.inlined(model)
    assert list(made.graph.initializer) == list(model.graph.initializer)
    names = [name for node in made.graph.node for name in node.output]
    assert len({*names, "w", "t__1", "x"}) == len(names) + 3 and not made.functions


def test_a_function_of_another_opset_is_named(library):
    (*_, why) = rewrite(model_of_blocks(inner=13)).refusals
    assert "a function of the model, of another opset than its, which is not looked into" in why
