"""The operator Conv in onnxruntime: ONNX's own models, planned and plain, and what it refuses."""

import numpy as np
import onnx
import pytest

from . import conformance

NODES = conformance.nodes_of("Conv")
CONVERTED = [name for name in conformance.CONVERTED if "_Conv2d" in name]


def with_operator(model):
    """The model with winogen's operator in place of Conv."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    for node in model.graph.node:
        if node.op_type == "Conv":
            node.domain = "com.winogen"
    model.opset_import.append(onnx.helper.make_opsetid("com.winogen", 1))
    return model


def check(session, inputs, wanted):
    names = [value.name for value in session.get_inputs()]
    (result,) = session.run(None, dict(zip(names, inputs)))
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("planned", (True, False), ids=("planned", "plain"))
@pytest.mark.parametrize("name", NODES)
def test_onnx_node_models(name, planned, session, planner):
    case = NODES[name]
    if not planned:
        planner.remove()
    for inputs, outputs in case.data_sets:
        before = planner.plans  # of sessions that a failed test may still hold
        one = session(with_operator(case.model))
        check(one, inputs, outputs[0])
        assert planner.plans == before + planned


@pytest.mark.parametrize("name", CONVERTED)
def test_onnx_models_from_pytorch(name, session):
    model, x, wanted = conformance.converted(name)
    check(session(with_operator(model)), [x], wanted)


def test_modes_stand_in_the_order_of_their_numbers():
    from winogen import resources
    from winogen.kernels.spec import PADDING_MODES

    text = (resources.folder("csrc") / "runtime" / "attributes.h").read_text("utf-8")
    inside = text.partition(" MODES[] = {")[2].partition("NULL")[0]
    assert [name.strip('", \n') for name in inside.split(",")][:-1] == list(PADDING_MODES)


def test_onnx_has_the_models_that_are_meant():
    assert {"test_basic_conv_with_padding", "test_conv_with_autopad_same"} <= NODES.keys()
    assert len(CONVERTED) >= 9
