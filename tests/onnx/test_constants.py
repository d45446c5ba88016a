"""Operators that read nothing but constants: computed once, or left to onnxruntime."""

import numpy as np
import pytest

from winogen.onnx.loading import new_session
from winogen.onnx.model import Model
from winogen.onnx.operators import OWN_DOMAIN
from winogen.onnx.rewrite import rewrite

from .nets import Net, check_same, data, kinds


def norm_of(net, x):
    return net.norm(x, 4)


def weights_of(net, x):
    scale, shift = (net.constant(net.weights(4)) for _ in range(2))
    return net.node("InstanceNormalization", x, scale, shift)


def pads_of(net, x):
    return net.node("Pad", x, net.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1])))


def resize_of(net, x):
    scales = net.constant(np.array([1, 1, 2, 2], np.float32))
    values = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return net.node("Resize", x, "", scales, mode="nearest", **values)


def slice_of(net, x):
    return net.node("Slice", x, *(net.constant(np.array([n])) for n in (0, 4, 1)))


def split_of(net, x):
    net.node("Split", x, net.constant(np.array([4])), axis=1)
    return f"v{len(net.nodes) - 1}"


def group_of(net, x):
    shape = net.constant(np.array([1, 2, -1]))
    scale, shift = (net.constant(np.ones(2, net.dtype)) for _ in range(2))
    norm = net.node("InstanceNormalization", net.node("Reshape", x, shape), scale, shift)
    return net.node("Reshape", norm, net.constant(np.array([1, 4, 3, 3])))


def shuffle_of(net, x):
    split = net.node("Reshape", x, net.constant(np.array([1, 2, 2, 3, 3])))
    turned = net.node("Transpose", split, perm=[0, 2, 1, 3, 4])
    return net.node("Reshape", turned, net.constant(np.array([1, 4, 3, 3])))


def simple(kind, **attributes):
    return lambda net, x: net.node(kind, x, **attributes)


def with_constant(kind, *shape):
    return lambda net, x: net.node(kind, x, net.constant(net.weights(*shape)))


# What winogen has an operator for, of a constant (1, 4, 3, 3).
READERS = {
    **{kind: simple(kind) for kind in ("Relu", "Sigmoid", "Tanh", "Elu", "HardSwish", "Softplus")},
    **{kind: simple(kind) for kind in ("LeakyRelu", "Selu", "HardSigmoid", "Softsign")},
    **{kind: simple(kind) for kind in ("Identity", "Dropout", "GlobalAveragePool", "Erf", "Neg")},
    "AveragePool": simple("AveragePool", kernel_shape=[2, 2], pads=[1, 1, 0, 0]),
    "BatchNormalization": norm_of,
    "Clip": lambda net, x: net.node("Clip", x, net.constant(np.float32(-0.1))),
    "Concat": lambda net, x: net.node("Concat", x, x, axis=1),
    "Conv": lambda net, x: net.conv(x, 4, 4),
    "ConvTranspose": with_constant("ConvTranspose", 4, 4, 2, 2),
    "DepthToSpace": simple("DepthToSpace", blocksize=2),
    "Flatten and Gemm": lambda net, x: net.node(
        "Gemm", net.node("Flatten", x), net.constant(net.weights(36, 4))
    ),
    "InstanceNormalization": weights_of,
    "MaxPool": simple("MaxPool", kernel_shape=[2, 2]),
    "Max": lambda net, x: net.node("Max", x, net.constant(np.float32(0))),
    "Mul by its sigmoid": lambda net, x: net.node("Mul", x, net.node("Sigmoid", x)),
    "PRelu": with_constant("PRelu", 4, 1, 1),
    "Pad": pads_of,
    "ReduceMean": simple("ReduceMean", axes=[2, 3]),
    "Resize": resize_of,
    "Slice": slice_of,
    "Softmax": simple("Softmax", axis=1),
    "Split": split_of,
    "Sub": with_constant("Sub", 1, 4, 1, 1),
    "Transpose": simple("Transpose", perm=[0, 2, 3, 1]),
    "by groups": group_of,
    "shuffled": shuffle_of,
}  # fmt: skip


# ... each number by itself, at opset 17.
SAME_SIZE = (
    "Clip", "Elu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Max",
    "Mul by its sigmoid", "Neg", "PRelu", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign",
    "Sub", "Tanh",
)  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_an_operator_of_constants_alone(name, session):
    """What it makes is a factor and a summand of a convolution, and an output."""
    net = Net()
    made = READERS[name](net, net.constant(net.weights(1, 4, 3, 3)))
    row = net.node("Reshape", made, net.constant(np.array([1, 1, 1, -1])))
    factor = net.node("ReduceMean", row, axes=[3])
    y = net.node("Relu", net.node("Mul", net.conv("x", 4, 4), factor))
    y = net.node("Add", y, net.node("Tanh", factor))
    check_same(net.model(y, row), session, data(net, 2, 4, 9, 8))


@pytest.mark.parametrize("name", SAME_SIZE)
def test_computed_weights_are_those_of_a_convolution(name, session):
    net = Net()
    made = READERS[name](net, net.constant(net.weights(4, 4, 3, 3)))
    model = net.model(net.node("Conv", "x", made, pads=[1] * 4))
    result = check_same(model, session, data(net, 2, 4, 9, 8))
    assert kinds(result) == ["Conv"] and result.graph.node[0].domain == OWN_DOMAIN


def test_weights_of_many_numbers_are_computed(session):
    net = Net()
    made = net.node(
        "Clip", net.constant(net.weights(64, 64, 3, 3)), net.constant(np.float32(-0.01))
    )
    result = check_same(
        net.model(net.node("Conv", "x", made), channels=64), session, data(net, 1, 64, 9, 8)
    )
    assert kinds(result) == ["Conv"]


def test_few_constants_do_not_become_many():
    net = Net()
    row, column = (
        net.constant(np.ones(shape, np.float32)) for shape in ((1 << 13, 1), (1, 1 << 13))
    )
    model = Model(net.model(net.conv("x", 4, 4), net.node("Add", row, column)))
    assert model.constant("v1") is None


def test_who_reads_constants_alone_is_named(session):
    net = Net()
    fixed = net.conv(net.constant(net.weights(1, 4, 3, 3)), 4, 4)
    (why,) = rewrite(net.model(net.conv("x", 4, 4), fixed)).refusals
    assert why == "conv_0: its input never changes"


def test_a_large_constant_that_nothing_reads_is_no_obstacle(session):
    """As exporters and other tools leave some behind; onnxruntime drops it."""
    net = Net()
    y = net.conv("x", 4, 4)
    net.constant(net.weights(64, 64))
    model = net.model(y, shape=[1, 4, 8, 8])
    (found,) = new_session(model).run(None, {"x": data(net, 1, 4, 8, 8)})
    (wanted,) = session(model).run(None, {"x": data(net, 1, 4, 8, 8)})
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
