"""optimize: what becomes of activations, normalizations and paddings."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import winogen.onnx
from winogen.onnx.rewrite import rewrite
from winogen.records import ACTIVATIONS

from .nets import BY_PARTS, Net, check_same, data, kinds


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
@pytest.mark.parametrize("name", BY_PARTS)
def test_activations_by_parts_become_part_of_the_convolution(name, dtype, session):
    net = Net(dtype=dtype)
    model = net.model(BY_PARTS[name](net, net.conv("x", 4, 6)))
    result = check_same(model, session, data(net, 2, 4, 7, 8))
    assert kinds(result) == ["Conv"]


OPERATORS = [
    (name, function) for name, known in ACTIVATIONS.items() for function in known.onnx
]  # fmt: skip
PARAMETERS = {"leaky_relu": (0.25,), "clip": (-0.5, 0.25)}


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
@pytest.mark.parametrize("name, function", OPERATORS, ids=lambda one: getattr(one, "names", one))
def test_activations_become_part_of_the_convolution(name, function, dtype, session, planner):
    """Each operator of the table, with arguments and, where it has defaults, without.

    Planned, and by the runtime without Python.
    """
    known, net = ACTIVATIONS[name], Net(dtype=dtype)
    given = PARAMETERS.get(name, known.defaults)
    if known.per_filter:
        given = (net.weights(6, 1, 1),)
    for arguments in (known.given(function, given) or {}, {}):
        parameters = known.taken(function, arguments)
        if parameters is None or known.per_filter != bool(arguments):
            continue  # these arguments mean another activation
        net = Net(dtype=dtype)
        y = activated(net, net.conv("x", 4, 6), function.names, arguments)
        opset = max(17, onnx.defs.get_schema(function.names).since_version)
        model = net.model(y, opset=opset, ir=10)
        try:
            result = check_same(model, session, data(net, 2, 4, 7, 8))
            check_same(model, session, data(net, 2, 4, 7, 8), before=planner.remove)
            planner.install()
        except ort.capi.onnxruntime_pybind11_state.Fail as error:
            pytest.skip(f"this onnxruntime lacks it: {error}")
        assert kinds(result) == ["Conv"]
        (node,) = result.graph.node
        values = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        assert values["activation"].decode() == name


def activated(net, x, kind, arguments):
    """An activation whose arguments are attributes, or else inputs."""
    attributes = onnx.defs.get_schema(kind).attributes
    inputs = [
        net.constant(np.array(value, net.dtype))
        for key, value in arguments.items() if key not in attributes
    ]  # fmt: skip
    given = {key: value for key, value in arguments.items() if key in attributes}
    return net.node(kind, x, *inputs, **given)


@pytest.mark.parametrize("change", ["none", "relu sine", None])
def test_segments_whose_activations_are_of_another_version(change, session):
    net = Net()
    y = net.node("Relu", net.conv("x", 4, 6))
    model = winogen.onnx.optimize(net.model(net.conv(y, 6, 3)))
    (node,) = model.graph.node
    (names,) = (a for a in node.attribute if a.name == "activations")
    assert names.s == b"relu none"
    if change is None:
        node.attribute.remove(names)
    else:
        names.s = change.encode()
    with pytest.raises(Exception, match="layers, activations: got what makes no layer"):
        session(model)


def test_clip_by_attributes(session):
    net = Net()
    y = net.node("Clip", net.conv("x", 4, 6), min=0.0, max=6.0)
    assert kinds(check_same(net.model(y, opset=10, ir=5), session, data(net, 1, 4, 5, 5))) == [
        "Conv"
    ]


def test_normalizations_and_factors_are_folded(session):
    net = Net()
    y = net.norm(net.conv("x", 4, 6, bias=False), 6)
    y = net.node("Div", y, net.constant(np.array([2], np.float32)))
    model = net.model(net.node("Relu", y))
    result = check_same(model, session, data(net, 2, 4, 7, 8))
    assert kinds(result) == ["Conv"]
    assert len(result.graph.initializer) == 2


MODES = {"constant": b"zeros", "reflect": b"reflect", "edge": b"replicate"}


def test_a_factor_that_broadcasts_is_no_factor_per_channel(session):
    net = Net()
    y = net.conv("x", 4, 1)
    y = net.node("Mul", y, net.constant(net.weights(1, 6, 1, 1)))
    result = check_same(net.model(y), session, data(net, 2, 4, 7, 8))
    assert kinds(result) == ["Conv", "Mul"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("opset", (10, 17))
def test_paddings_become_part_of_the_convolution(mode, opset, session):
    net = Net()
    pads = [0, 0, 1, 2, 0, 0, 3, 1]
    if opset == 10:
        x = net.node("Pad", "x", pads=pads, mode=mode)
    else:
        x = net.node("Pad", "x", net.constant(np.array(pads)), mode=mode)
    model = net.model(net.conv(x, 4, 6, pads=[0] * 4), opset=opset)
    result = check_same(model, session, data(net, 2, 4, 7, 8))
    (node,) = result.graph.node
    values = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    assert values["pads"] == [1, 2, 3, 1]
    assert values.get("padding_mode", b"zeros") == MODES[mode]


def test_paddings_that_are_computed(session):
    """As exporters write them: constants through a chain of nodes."""
    net = Net()
    half = net.constant(np.array([0, 0, 1, 1]))
    pads = net.node("Concat", half, net.node("Cast", half, to=TensorProto.INT64), axis=0)
    model = net.model(net.conv(net.node("Pad", "x", pads), 4, 6, pads=[0] * 4))
    assert kinds(check_same(model, session, data(net, 1, 4, 5, 6))) == ["Conv"]


@pytest.mark.parametrize("auto_pad", ("SAME_UPPER", "SAME_LOWER", "VALID"))
@pytest.mark.parametrize("stride", (1, 2))
@pytest.mark.parametrize("known", (False, True))
def test_auto_pad(auto_pad, stride, known, session):
    net = Net()
    y = net.conv("x", 4, 4, pads=None, auto_pad=auto_pad, strides=[stride] * 2)
    net.nodes[-1].attribute.remove(next(a for a in net.nodes[-1].attribute if a.name == "auto_pad"))
    net.nodes[-1].attribute.append(helper.make_attribute("auto_pad", auto_pad))
    shape = [1, 4, 8, 9] if known else None
    result = rewrite(net.model(y, shape=shape))
    stays = stride == 2 and not known and auto_pad != "VALID"
    assert result.convolutions == (not stays)
    assert len(result.refusals) == stays
    if not stays:
        check_same(net.model(y, shape=shape), session, data(net, 1, 4, 8, 9))
