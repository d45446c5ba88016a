"""Convolutions of one axis, and transposed ones: ONNX's own models of them, and small nets."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import winogen.onnx
from winogen.onnx.rewrite import rewrite

from . import conformance
from .nets import Net, check_same, data, kinds

CASES = conformance.nodes_of("Conv") | conformance.nodes_of("ConvTranspose")
CONVERTED = [
    name
    for name in conformance.CONVERTED
    if any(kind in name for kind in ("_Conv1d", "_Conv3d", "_ConvTranspose"))
]


def with_constants(case):
    """A model whose weights never change, its input, and what it has to compute."""
    ((x, *weights), (y,)) = case.data_sets[0]
    model = onnx.ModelProto.FromString(case.model.SerializeToString())
    names = [value.name for value in model.graph.input]
    for name, array in zip(names[1:], weights):
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    del model.graph.input[1:]
    return model, {names[0]: x}, y


@pytest.mark.parametrize("name", CASES)
def test_models_of_onnx_itself(name, session):
    model, feed, wanted = with_constants(CASES[name])
    result = winogen.onnx.optimize(model)
    assert {"Conv", "ConvTranspose"}.isdisjoint(
        node.op_type for node in result.graph.node if node.domain == ""
    )
    (y,) = session(result).run(None, feed)
    assert y.shape == wanted.shape
    assert np.abs(y - wanted).max() <= 1e-5 * np.abs(wanted).max()


def test_models_from_pytorch(session):
    """Those of one axis and of three, and transposed ones."""
    computed = []
    for name in CONVERTED:
        model, x, wanted = conformance.converted(name)
        model.opset_import[0].version = 11  # where a convolution means what it did in 6
        result = rewrite(model)
        stays = {node.op_type for node in result.model.graph.node if node.domain == ""}
        assert result.is_original == ("Conv" in stays), name
        (feed,) = ({value.name: x} for value in result.model.graph.input[:1])
        (y,) = session(result.model).run(None, feed)
        np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5)
        computed.append(result.is_original)
    assert computed.count(False) >= 14


def transposed(net, x, channels, filters, *taps, groups=1, **attributes):
    weight = net.constant(net.weights(channels, filters // groups, *taps))
    bias = net.constant(net.weights(filters))
    return net.node("ConvTranspose", x, weight, bias, group=groups, **attributes)


def row(net, x, channels, filters, taps=3, **attributes):
    """A convolution of a signal."""
    groups = attributes.get("group", 1)
    arrays = (net.weights(filters, channels // groups, taps), net.weights(filters))
    return net.node("Conv", x, *map(net.constant, arrays), **attributes)


AUTO = ("SAME_UPPER", "SAME_LOWER", "VALID")


@pytest.mark.parametrize("rank", (1, 2))
@pytest.mark.parametrize("kernel, stride", [(4, 2), (3, 2), (2, 2), (5, 3), (3, 1)])
def test_the_padding_of_transposed_layers(rank, kernel, stride, session, planner):
    """Named, given side by side, and following from the size of the output."""
    size, steps, taps = (9, 7)[:rank], [stride] * rank, [kernel] * rank
    given = [{"auto_pad": auto} for auto in AUTO]
    given += [
        {"pads": [1] * rank + [0] * rank, "output_padding": [stride - 1] * rank},
        {"output_shape": [n * stride + 1 for n in size]},
        {"output_shape": [n * stride - 3 for n in size], "auto_pad": "SAME_UPPER"},
    ]
    for attributes in given:
        net = Net()
        y = transposed(net, "x", 4, 6, *taps, groups=2, strides=steps, **attributes)
        model = net.model(net.node("Relu", y), shape=["n", 4, *size])
        result = check_same(model, session, data(net, 2, 4, *size))
        assert "ConvTranspose" not in kinds(result), attributes
        # By the runtime without Python.
        check_same(model, session, data(net, 2, 4, *size), before=planner.remove)
        planner.install()


def test_sizes_that_padding_depends_on_must_be_known():
    """And an output that one more input would make is refused by onnxruntime, too."""
    cases = {"sizes that are not known": (["h", "w"], [9, 9]), "an input more": ([4, 4], [9, 12])}
    for reason, (size, asked) in cases.items():
        net = Net()
        y = transposed(net, "x", 4, 4, 3, 3, strides=[2, 2], output_shape=asked)
        result = rewrite(net.model(y, shape=["n", 4, *size]))
        assert result.is_original
        assert reason in result.refusals[0]


def test_dynamic_sizes_through_a_transposed_layer(session):
    """What is added has its size, as far as that is proven."""
    net = Net()
    y = transposed(net, "x", 4, 4, 4, 4, strides=[2, 2], pads=[1, 1, 1, 1])
    again = transposed(net, "x", 4, 4, 4, 4, strides=[2, 2], pads=[1, 1, 1, 1])
    model = net.model(net.node("Add", net.conv(y, 4, 4), again), shape=["n", 4, "h", "w"])
    result = check_same(model, session, data(net, 1, 4, 8, 9), data(net, 2, 4, 5, 3))
    assert kinds(result) == ["Segment"]


def signals(net):
    """A net of one axis: every operator that is read as one of an image of one row."""
    x = row(net, "x", 4, 8, 5, pads=[2, 2])
    x = net.node("Relu", net.norm(x, 8))
    pads, zero = net.constant(np.int64([0, 0, 2, 0, 0, 0])), net.constant(net.dtype.type(0))
    y = row(net, net.node("Pad", x, pads, zero), 8, 8, dilations=[1])
    y = net.node("PRelu", y, net.constant(net.weights(8, 1)))
    x = net.node("Add", row(net, y, 8, 8, pads=[1, 1], group=4), x)
    x = net.node("MaxPool", x, kernel_shape=[3], strides=[2], pads=[1, 1])
    y = transposed(net, x, 8, 4, 4, strides=[2], pads=[1, 1])
    y = net.node("Mul", y, net.constant(net.weights(1, 4, 1)))
    z = row(net, y, 4, 6, auto_pad="SAME_UPPER", strides=[2])
    return net.node("Concat", z, row(net, x, 8, 4, 1), axis=-2)


def test_signals_are_images_of_one_row(session):
    net = Net()
    model = net.model(signals(net), shape=["n", 4, 40])
    result = check_same(model, session, data(net, 2, 4, 40))
    assert kinds(result) == ["Unsqueeze", "Segment", "Squeeze"]


def test_a_mean_of_signals_is_read_with_what_follows(session):
    net = Net()
    y = net.node("GlobalAveragePool", row(net, "x", 4, 8, pads=[1, 1]))
    y = net.node("Flatten", y)
    weight = net.constant(net.weights(5, 8))
    model = net.model(net.node("Gemm", y, weight, transB=1), shape=["n", 4, "w"])
    result = check_same(model, session, data(net, 2, 4, 33), data(net, 1, 4, 7))
    assert "Gemm" not in kinds(result)
    assert "GlobalAveragePool" not in kinds(result)


def test_other_arrays_of_three_axes_are_left_alone(session):
    """As tokens (N, L, C), of which nothing says that they are signals."""
    net = Net()
    y = net.conv("x", 4, 8)
    shape = net.constant(np.int64([0, 8, -1]))
    tokens = net.node("Reshape", y, shape)
    tokens = net.node("Add", tokens, net.node("Relu", tokens))
    model = net.model(tokens, shape=[1, 4, 6, 6])
    result = check_same(model, session, data(net, 1, 4, 6, 6))
    assert kinds(result) == ["Conv", "Reshape", "Relu", "Add"]


def test_axes_that_count_from_the_back():
    """The third axis from the back of a signal is that of the images."""
    net = Net()
    one = row(net, "x", 4, 4, pads=[1, 1])
    both = net.node("Concat", one, net.node("Relu", one), axis=-3)
    result = rewrite(net.model(both, shape=[1, 4, 12]))
    assert "Concat" in kinds(result.model)


def test_reports_have_layers_of_all_these(clock):
    net = Net()
    y = row(net, "x", 4, 8, pads=[1, 1])
    y = transposed(net, y, 8, 8, 4, strides=[2], pads=[1, 1])
    report = winogen.onnx.report(net.model(y, shape=[1, 4, 64]))
    whats = [row.what for row in report.rows]
    assert whats[1].startswith("transposed conv 1x4 8->8 stride 1,2")
    assert [row.output for row in report.rows] == [(1, 8, 1, 64), (1, 8, 1, 128)]


def test_a_signal_that_two_segments_read_is_turned_for_both(session):
    """As in a U-Net of sound: what is seen on the way down joins what comes up again."""
    net = Net()

    def conv(x, channels, filters):
        weight = net.constant(net.weights(filters, channels, 5))
        return net.node("Relu", net.node("Conv", x, weight, pads=[2, 2]))

    def constants(*arrays):
        return [net.constant(np.array(array)) for array in arrays]

    seen = [conv("x", 4, 8)]
    for _ in range(2):
        half = net.node("Slice", seen[-1], *constants([0], [2**31], [2], [2]))
        seen.append(conv(half, 8, 8))
    x = seen.pop()
    for one in reversed(seen):
        scales = net.constant(np.array([1, 1, 2], np.float32))
        how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        up = net.node("Resize", x, "", scales, mode="nearest", **how)
        x = conv(net.node("Concat", up, one, axis=1), 16, 8)
    model = net.model(x, shape=[1, 4, 64])
    check_same(model, session, data(net, 1, 4, 64))
