"""What is written can be loaded: nodes given back, defaults of inputs, names; faults are seen."""

import re

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import winogen.onnx
from winogen.errors import InvalidValue
from winogen.onnx import quantize
from winogen.onnx.model import Model
from winogen.onnx.rewrite import rewrite
from winogen.onnx.soundness import fault_of, parts_of

from .nets import MADE, Net, check_same, data, kinds


def pool(net, x):
    return net.node("LpPool", x, kernel_shape=[2, 2], strides=[2, 2])


def scaled(net, x, activation):
    """A factor for each channel, as a convolution, and an activation."""
    y = net.conv(x, 4, 4, taps=1, groups=4)
    return MADE[activation](net, y)


def padded(net, x):
    return net.node("Pad", x, net.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1])))


# What ends before a node of onnxruntime's, without a convolution: nothing for winogen alone.
GIVEN_BACK = {
    "norm relu": lambda net: net.node("Relu", net.norm("x", 4)),
    "norm leaky_relu": lambda net: net.node("LeakyRelu", net.norm("x", 4)),
    "norm norm": lambda net: net.norm(net.norm("x", 4), 4),
    "norm add": lambda net: net.node("Add", net.norm("x", 4), "x"),
    "softplus norm relu": lambda net: net.node("Relu", net.norm(net.node("Softplus", "x"), 4)),
    "pad norm relu": lambda net: net.node("Relu", net.norm(padded(net, "x"), 4)),
    "factor relu": lambda net: scaled(net, "x", "relu"),
    "factor gelu": lambda net: scaled(net, "x", "gelu by erf"),
    "copy factor silu": lambda net: scaled(net, net.node("Identity", "x"), "silu"),
    "factor twice": lambda net: scaled(net, scaled(net, "x", "silu"), "gelu by erf"),
}


@pytest.mark.parametrize("name", GIVEN_BACK)
def test_nodes_given_back_are_written_with_all_that_was_folded_into_them(name, session):
    net = Net()
    y = net.conv(pool(net, GIVEN_BACK[name](net)), 4, 6)
    model = net.model(y)
    nodes = [node.name for node in model.graph.node][:-1]
    result = check_same(model, session, data(net, 2, 4, 8, 10))
    theirs = [node.name for node in result.graph.node if not node.domain]
    assert [name for name in nodes if not name.startswith("identity")] == theirs
    assert result.graph.node[-1].domain == "com.winogen"


# ---- inputs with a default -----------------------------------------------------------------------


def with_default(model, name, shape, ir=8):
    array = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    if name not in [tensor.name for tensor in model.graph.initializer]:
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    model.ir_version = ir
    return model


def required(model):
    options = ort.SessionOptions()
    options.register_custom_ops_library(winogen.onnx.get_library_path())
    made = ort.InferenceSession(model.SerializeToString(), options)
    return ([value.name for value in made.get_inputs()],
            [value.name for value in made.get_overridable_initializers()])  # fmt: skip


@pytest.mark.parametrize("read_by", ("nobody", "a dead end", "a constant", "a branch"))
def test_an_input_with_a_default_stays_optional(read_by, library):
    net = Net()
    y = net.conv("x", 4, 4)
    if read_by == "a dead end":
        net.node("Relu", "d")
    elif read_by == "a constant":
        net.node("Shape", "d")
    elif read_by == "a branch":
        flag = net.constant(np.array(True))
        value = helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)
        bodies = [
            helper.make_graph([helper.make_node("Identity", ["d"], ["inner"])], name, [], [value])
            for name in ("yes", "no")
        ]
        gate = net.node("If", flag, then_branch=bodies[0], else_branch=bodies[1])
        y = net.node("Mul", y, gate)
    model = with_default(net.model(y), "d", [4, 1, 1])
    result = winogen.onnx.optimize(model)
    assert required(result) == (["x"], ["d"])
    assert any(node.domain == "com.winogen" for node in result.graph.node)


def test_before_ir_4_a_default_is_a_constant(library):
    net = Net()
    model = net.model(net.conv("x", 4, 4), opset=8)
    for tensor in list(model.graph.initializer):
        with_default(model, tensor.name, list(tensor.dims), 3)
    result = winogen.onnx.optimize(with_default(model, "unread", [3], 3))
    assert required(result) == (["x"], []) and kinds(result) == ["Conv"]


def test_a_default_that_is_replaced_counts(session):
    """A factor with a default is no constant: neither folded, nor are sizes proven by it."""
    net = Net()
    y = net.node("Mul", net.conv("x", 4, 6), "factor")
    model = with_default(net.model(y), "factor", [6, 1, 1])
    result = winogen.onnx.optimize(model)
    assert kinds(result) == ["Conv", "Mul"]
    x, factor = data(net, 1, 4, 7, 8), np.full((6, 1, 1), 3, np.float32)
    (wanted,) = ort.InferenceSession(model.SerializeToString()).run(
        None, {"x": x, "factor": factor}
    )
    (found,) = session(result).run(None, {"x": x, "factor": factor})
    assert np.abs(wanted - found).max() < 1e-5 * np.abs(wanted).max()


def test_no_size_follows_from_a_default():
    net = Net()
    model = net.model(net.node("Add", net.conv("x", 4, 4), "other"))
    array = np.zeros((1, 4, 1, 1), np.float32)
    model.graph.initializer.append(numpy_helper.from_array(array, "other"))
    value = model.graph.input.add(name="other")
    value.type.tensor_type.elem_type = TensorProto.FLOAT
    assert Model(model).sizes.get("other") is None
    assert kinds(rewrite(model).model) == ["Conv", "Add"]


@pytest.mark.parametrize("ir", (3, 8))
def test_quantized_models_keep_optional_inputs(ir, library):
    net = Net()
    model = net.model(net.conv("x", 4, 4), opset=17 if ir == 8 else 8)
    if ir == 3:
        for tensor in list(model.graph.initializer):
            with_default(model, tensor.name, list(tensor.dims), 3)
    model = with_default(model, "unread", [3], ir)
    narrow = quantize(model, [{"x": data(net, 1, 4, 8, 8)}])
    assert required(narrow)[0] == ["x"]
    assert required(winogen.onnx.optimize(narrow))[0] == ["x"]


# ---- names ---------------------------------------------------------------------------------------


def test_nodes_have_names_of_their_own(session):
    """A segment is named after its output, which may be what another node is called."""
    net = Net()
    first = net.conv("x", 4, 4)
    second = net.node("Relu", net.conv(first, 4, 4))
    y = net.node("LpPool", second, kernel_shape=[2, 2], name=second)
    result = check_same(net.model(y), session, data(net, 1, 4, 8, 8))
    names = [node.name for node in result.graph.node]
    assert kinds(result) == ["Segment", "LpPool"] and len(set(names)) == 2 and second in names


# ---- what is seen without running ----------------------------------------------------------------


def sound_pair():
    net = Net()
    original = net.model(pool(net, net.node("Relu", net.conv("x", 4, 6))))
    return Model(original), rewrite(original).model


def break_by(change):
    model, proto = sound_pair()
    assert fault_of(model, proto) is None
    change(proto.graph)
    return fault_of(model, proto)


def test_faults_are_seen_without_running(library):
    def late(graph):
        nodes = [helper.make_node("Neg", ["nowhere"], ["z"])]
        graph.node.extend(nodes)

    def swapped(graph):
        nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in reversed(graph.node)]
        del graph.node[:]
        graph.node.extend(nodes)

    def asking(graph):
        graph.input.append(helper.make_tensor_value_info("more", 1, [1]))

    for change, message in (
        (late, "nowhere is read by Neg before it is made"),
        (swapped, "is read by lppool_.* before it is made"),
        (lambda graph: graph.node.append(graph.node[0]), "is made twice"),
        (lambda graph: graph.node.pop(), "its outputs .* are not made"),
        (asking, "its inputs more are required"),
        (lambda graph: setattr(graph.output[0], "name", "other"), "its outputs have other names"),
        (lambda graph: setattr(graph.node[-1], "op_type", "NoSuch"), "NoSuch"),
    ):
        why = break_by(change)
        assert why is not None and re.search(message, why), (why, message)


def test_what_is_not_the_originals_is_a_part_of_its_own():
    model, proto = sound_pair()
    assert [[n.op_type for n in part.nodes] for part in parts_of(model, proto)] == [["Conv"]]
    proto.graph.node[-1].attribute.pop()
    parts = parts_of(model, proto)
    assert [[n.op_type for n in part.nodes] for part in parts] == [["Conv"], ["LpPool"]]
    assert parts[1].inputs == parts[0].outputs and parts[0].inputs == ["x"]


def test_an_optimized_model_is_refused(tmp_path):
    net = Net()
    once = winogen.onnx.optimize(net.model(net.conv("x", 4, 4)))
    for function in (winogen.onnx.optimize, winogen.onnx.report):
        with pytest.raises(InvalidValue, match="model: got one with 1 nodes of winogen's"):
            function(once)
    with pytest.raises(InvalidValue, match="allowed: the original"):
        winogen.onnx.optimize(once, tmp_path / "twice.onnx")
    assert not (tmp_path / "twice.onnx").exists()
