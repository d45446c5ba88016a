"""Convolutions of three axes, transposed ones, and what lies between them, in models of ONNX."""

import numpy as np
import pytest

import winogen
import winogen.onnx
from winogen.onnx.report import report

from .nets import Net, check_same, data, kinds
from .test_axes import AUTO, transposed


def conv(net, x, channels, filters, *taps, groups=1, **attributes):
    """A convolution that keeps the sizes, unless attributes say otherwise."""
    sides = [k // 2 for k in taps] + [(k - 1) // 2 for k in taps]
    if "auto_pad" not in attributes:
        attributes.setdefault("pads", sides)
    arrays = (net.weights(filters, channels // groups, *taps), net.weights(filters))
    return net.node("Conv", x, *map(net.constant, arrays), group=groups, **attributes)


def pad(net, x, *pads, **attributes):
    return net.node("Pad", x, net.constant(np.array(pads, np.int64)), **attributes)


def scan(net):
    """A small U-Net of volumes: every operator that is read as one of them."""
    x = net.node("Relu", net.norm(conv(net, "x", 4, 8, 3, 3, 3), 8))
    y = net.node("MaxPool", x, kernel_shape=[2, 3, 2], strides=[2, 2, 2], pads=[0, 1, 0, 0, 1, 0])
    y = net.node("LeakyRelu", conv(net, y, 8, 6, 3, 1, 3, groups=2, dilations=[1, 1, 1]), alpha=0.1)
    y = net.node("Add", conv(net, y, 6, 6, 1, 1, 1), y)
    y = transposed(net, net.norm(y, 6), 6, 8, 2, 2, 2, strides=[2, 2, 2])
    gate = net.node("Sigmoid", conv(net, net.node("GlobalAveragePool", y), 8, 8, 1, 1, 1))
    y = net.node("Concat", net.node("Mul", y, gate), x, axis=1)
    y = pad(net, y, 0, 0, 1, 0, 2, 0, 0, 0, 1, 2, mode="edge")
    y = conv(net, y, 16, 6, 3, 3, 3, pads=[0] * 6)
    scales = net.constant(np.float32([1, 1, 2, 1, 2]))
    place = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    z = net.node("Resize", y, "", scales, mode="nearest", **place)
    slope = net.constant(net.weights(6, 1, 1, 1))
    z = net.node("PRelu", conv(net, z, 6, 6, 3, 3, 1, strides=[2, 1, 2]), slope)
    z = net.node("InstanceNormalization", z, *(net.constant(net.weights(6)) for _ in "sb"))
    mean = net.node("ReduceMean", z, axes=[2, 3, 4])
    return y, net.node("Softmax", net.node("Sub", z, mean), axis=1)


SIZES = ["n", 4, 4, 6, 8]


def test_a_net_of_volumes(session, planner):
    net = Net()
    model, feed = net.model(*scan(net), shape=SIZES), data(net, 2, 4, 4, 6, 8)
    result = check_same(model, session, feed, data(net, 1, 4, 4, 6, 8), tolerance=3e-5)
    assert kinds(result).count("Segment") == 1
    assert {"Conv", "MaxPool", "ConvTranspose", "Resize"}.isdisjoint(kinds(result))
    # By the runtime's own plain loops.
    check_same(model, session, feed, before=planner.remove, tolerance=3e-5)


def test_open_sizes_of_doubles(session):
    net = Net(dtype=np.float64)
    y = conv(net, net.node("Relu", conv(net, "x", 2, 4, 3, 3, 3, strides=[2, 1, 1])), 4, 3, 1, 3, 1)
    model = net.model(y, shape=["n", 2, "d", "h", "w"])
    check_same(model, session, data(net, 2, 2, 5, 3, 4), data(net, 1, 2, 4, 6, 5), tolerance=1e-12)


def test_a_layer_alone_is_one_node(session, planner):
    """With the attributes of ONNX's own, and its paddings."""
    for auto in AUTO:
        net = Net()
        y = conv(net, "x", 4, 6, 3, 2, 3, auto_pad=auto, strides=[1, 2, 1])
        model = net.model(net.node("Relu", y), shape=[2, 4, 5, 6, 7])
        result = check_same(model, session, data(net, 2, 4, 5, 6, 7))
        assert [(node.op_type, node.domain) for node in result.graph.node] == [
            ("Conv", "com.winogen")
        ]
        check_same(model, session, data(net, 2, 4, 5, 6, 7), before=planner.remove)
        planner.install()


def test_transposed_layers(session, planner):
    for attributes in (
        {"auto_pad": "SAME_UPPER"},
        {"pads": [1, 0, 1, 0, 2, 1], "output_padding": [1, 0, 1]},
        {"output_shape": [9, 10, 7], "auto_pad": "SAME_LOWER"},
        {"pads": [0, 1, 0, 1, 1, 2], "groups": 2},
    ):
        net = Net()
        y = transposed(net, "x", 4, 6, 3, 4, 3, strides=[2, 2, 2], **attributes)
        model = net.model(net.node("Relu", y), shape=["n", 4, 4, 5, 3])
        result = check_same(model, session, data(net, 2, 4, 4, 5, 3))
        assert kinds(result) == ["Segment"]
        check_same(model, session, data(net, 2, 4, 4, 5, 3), before=planner.remove)
        planner.install()


def test_arrays_of_five_axes_that_are_no_volumes(session):
    """Channels in groups, between two convolutions of maps."""
    net = Net()
    split = net.node("Reshape", net.conv("x", 4, 8), net.constant(np.int64([0, 2, 4, 6, 6])))
    y = net.node("Softmax", net.node("Mul", split, net.constant(net.weights(2, 4, 1, 1))), axis=2)
    y = net.node("Transpose", net.node("Relu", y), perm=[0, 2, 1, 3, 4])
    y = net.node("Reshape", y, net.constant(np.int64([0, 8, 6, 6])))
    check_same(net.model(net.conv(y, 8, 4), shape=["n", 4, 6, 6]), session, data(net, 2, 4, 6, 6))


def test_what_sizes_and_attributes_do_not_fit_says_so(session):
    net = Net()
    model = winogen.onnx.optimize(
        net.model(conv(net, "x", 4, 6, 3, 3, 3), shape=["n", 4, None, None, None])
    )
    run = session(model).run
    with pytest.raises(Exception, match="X: got depth 0"):
        run(None, {"x": np.zeros((1, 4, 0, 5, 5), np.float32)})
    (strides,) = (one for one in model.graph.node[0].attribute if one.name == "strides")
    strides.ints[:] = [1, 1]
    with pytest.raises(Exception, match="got [23] numbers; allowed: [23]"):
        session(model)


def test_the_report_has_a_row_of_a_layer():
    net = Net()
    model = net.model(conv(net, "x", 4, 6, 3, 3, 3), shape=[1, 4, 5, 6, 7])
    assert "conv 3x3x3 4->6" in str(report(model))


def test_kernels_along_the_depth_are_reported_as_they_run():
    net = Net()
    model = net.model(conv(net, "x", 64, 64, 3, 1, 1), shape=[1, 64, 16, 28, 28])
    (row,) = report(model, threads=1).rows
    plan = winogen.Conv3d(net.weights(64, 64, 3, 1, 1), padding=(1, 0, 0), threads=1).plan(
        (1, 64, 16, 28, 28)
    )
    assert plan.tile is not None and plan.tile[1:] == (1, 1)
    assert row.algorithm == f"{plan.algorithm} F({plan.tile[0]}x1x1,3x1x1)"
    assert row.output == (1, 64, 16, 28, 28)
