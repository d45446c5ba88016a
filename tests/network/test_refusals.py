"""What C does not compute is refused before any work, by the node's name and with the reason."""

import re

import numpy as np
import onnx
import pytest
from network.test_network import net_of

import winogen.onnx
from winogen.errors import InvalidValue
from winogen.network import generate

SHAPE = (1, 3, 9, 9)


def ones(net, *shape):
    return net.constant(np.ones(shape, np.float32))


def model_of(net, *outputs, shape=SHAPE, opset=17):
    """A model whose outputs declare no sizes."""
    model = net.model(*outputs, shape=list(shape), opset=opset)
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return model


def alone(kind, *shapes, shape=SHAPE, opset=17, **attributes):
    """A node named "it" of an input and ones, beside a layer."""
    net = net_of()
    y = net.node(kind, "x", *(ones(net, *one) for one in shapes), name="it", **attributes)
    layer = net.conv("x", shape[1], 2, taps=1) if len(shape) == 4 else None
    outputs = [y] if layer is None else [y, layer]
    return model_of(net, *outputs, shape=shape, opset=opset)


W, T = (4, 3, 3, 3), (3, 4, 3, 3)
CONTRADICTIONS = {
    "kernel": (alone("Conv", W, kernel_shape=[2, 2]),
        "kernel_shape [2, 2] of it (Conv); allowed: [3, 3]"),
    "larger kernel": (alone("Conv", W, kernel_shape=[5, 5]), "kernel_shape [5, 5] of it"),
    "kernel of one axis": (alone("Conv", W, kernel_shape=[3]),
        "kernel_shape [3] of it (Conv); allowed: 2"),
    "transposed kernel": (alone("ConvTranspose", T, kernel_shape=[2, 2]),
        "kernel_shape [2, 2] of it"),
    "auto_pad": (alone("Conv", W, auto_pad="SAME"),
        "auto_pad 'SAME' of it (Conv); allowed: NOTSET, SAME_U"),
    "small letters": (alone("Conv", W, auto_pad="same_upper"), "auto_pad 'same_upper' of it"),
    "auto_pad of a pool": (alone("MaxPool", kernel_shape=[2, 2], auto_pad="SAME"),
        "auto_pad 'SAME' of it"),
    "three strides": (alone("Conv", W, strides=[2, 2, 2]),
        "strides [2, 2, 2] of it (Conv); allowed: 2 num"),
    "one stride": (alone("Conv", W, strides=[2]), "strides [2] of it"),
    "no stride": (alone("Conv", W, strides=[0, 1]), "strides [0, 1] of it"),
    "a dilation": (alone("Conv", W, dilations=[-1, 1]), "dilations [-1, 1] of it"),
    "pads": (alone("Conv", W, pads=[1, 1]),
        "pads [1, 1] of it (Conv); allowed: 4 numbers, each at least 0"),
    "negative pads": (alone("Conv", W, pads=[-1, 0, 1, 2]), "pads [-1, 0, 1, 2] of it"),
    "pads of a pool": (alone("AveragePool", kernel_shape=[2, 2], pads=[2, 0, 0, 0]),
        "pads [2, 0, 0, 0] of it"),
    "a pool's strides": (alone("MaxPool", kernel_shape=[2, 2], strides=[2]),
        "strides [2] of it (MaxPool)"),
    "output_padding": (alone("ConvTranspose", T, output_padding=[1]), "output_padding [1] of it"),
    "no groups": (alone("Conv", W, group=0), "group 0 of it (Conv); allowed: 1 or more"),
    "groups": (alone("Conv", W, group=2),
        "an input x of shape (1, 3, 9, 9) of it (Conv); allowed: 6 chan"),
    "a matrix of biases": (alone("Conv", W, (4, 1)),
        "of shape (4, 1) of it (Conv); allowed: shape (4,)"),
    "too few biases": (alone("Conv", W, (3,)), "of shape (3,) of it (Conv); allowed: shape (4,)"),
    "transposed biases": (alone("ConvTranspose", T, (3,)),
        "of shape (3,) of it (ConvTranspose); allowed: sh"),
    "slopes": (alone("PRelu", (2, 1, 1)),
        "of shape (2, 1, 1) of it (PRelu); allowed: what goes with shape"),
    "scales": (alone("InstanceNormalization", (2,), (2,)),
        "of shape (2,) of it (InstanceNormalization); allo"),
    "statistics": (alone("BatchNormalization", *[(2,)] * 4),
        "of shape (2,) of it (BatchNormalization)"),
    "groups of channels": (alone("GroupNormalization", (2,), (2,), opset=21, num_groups=2),
        "multiple of 2"),
    "a row": (alone("LayerNormalization", (8,)),
        "of shape (8,) of it (LayerNormalization); allowed: what"),
    "a sum": (alone("Add", (2, 1, 1)),
        "of shape (2, 1, 1) of it (Add); allowed: what goes with shape (1, 3"),
    "parts": (alone("Concat", (1, 3, 9, 8), axis=1),
        "of shape (1, 3, 9, 8) of it (Concat); allowed: (1, 3, 9"),
    "matrices": (alone("MatMul", (8, 2)),
        "of shape (8, 2) of it (MatMul); allowed: 9 numbers along"),
    "products": (alone("Gemm", (8, 2), shape=(4, 9)),
        "of shape (8, 2) of it (Gemm); allowed: 9 numbers along"),
    "a product's bias": (alone("Gemm", (9, 2), (3,), shape=(4, 9)),
        "of shape (3,) of it (Gemm); allowed: what"),
}  # fmt: skip


@pytest.mark.parametrize("model, message", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_nodes_that_contradict_themselves_are_refused_at_both_doors(model, message):
    for door in (generate, winogen.onnx.optimize):
        with pytest.raises(InvalidValue, match="^model: got .*" + re.escape(message)):
            door(model)


def test_what_goes_together_is_taken():
    """Broadcast slopes, scales, biases and sizes that are open contradict nothing."""
    cases = [
        alone("PRelu", (3, 1, 1)),
        alone("PRelu", (1,)),
        alone("LayerNormalization", (9,), axis=3),
        alone("Conv", W, (4,), kernel_shape=[3, 3], pads=[0, 1, 2, 3]),
        alone("ConvTranspose", T, (4,), output_padding=[1, 0], strides=[2, 2]),
        alone("GroupNormalization", (1,), (1,), opset=18, num_groups=1),
    ]
    for model in cases:
        generate(model, isa="generic")


def reshaped(net):
    shape = net.constant(np.array([5, 7], np.int64))
    return net.node("Reshape", net.conv("x", 3, 4), shape, name="it")


def transposed(**attributes):
    return lambda net: net.node("ConvTranspose", "x", ones(net, *T), name="it", **attributes)


def pool(kind, **attributes):
    return lambda net: net.node(kind, net.conv("x", 3, 4), name="it", **attributes)


REASONS = [
    (reshaped, r"^model: got a shape \[5, 7\] of it \(Reshape\); allowed: one of 324 numbers"),
    (transposed(auto_pad="SAME_UPPER", strides=[4, 4]),
     r"it \(ConvTranspose: its auto_pad asks for pixels that no tap reaches\)"),
    (transposed(output_shape=[50, 50], strides=[2, 2]),
     r"it \(ConvTranspose: its output_shape asks for pixels that an input more would make\)"),
    (lambda net: net.node("Conv", "x", net.constant(np.ones(W)), name="it"),
     r"it \(Conv: its weights are float64\)"),
    (lambda net: net.node("Conv", "x", net.node("Slice", "x", *(net.constant(np.array([n]))
                                                                for n in (0, 1, 0))), name="it"),
     r"it \(Conv: its weights may change from call to call\)"),
    (pool("LpPool", kernel_shape=[2, 2], dilations=[2, 2]), r"it \(LpPool: its windows have gaps"),
    (pool("MaxPool", kernel_shape=[2, 2], dilations=[10, 10], pads=[1] * 4),
     r"it \(MaxPool: a window lies in padding alone\)"),
    (lambda net: net.node("Mul", net.conv("x", 3, 4), net.node(
        "Expand", ones(net, 1), net.constant(np.array([2**20, 2**16])), name="it")),
     r"it"),
]  # fmt: skip


@pytest.mark.parametrize("make, message", REASONS)
def test_refusals_have_reasons(make, message):
    net = net_of()
    with pytest.raises(InvalidValue, match=message):
        generate(model_of(net, make(net), opset=18), isa="generic")


def test_weights_that_are_inputs_or_sparse():
    net = net_of()
    model = model_of(net, net.node("Conv", "x", "w", name="it"))
    kind = onnx.TensorProto.FLOAT
    model.graph.input.append(onnx.helper.make_tensor_value_info("w", kind, W))
    with pytest.raises(InvalidValue, match=r"it \(Conv: its weights may change from call to call"):
        generate(model, isa="generic")
    del model.graph.input[1:]
    values, places = np.ones(2, np.float32), np.array([0, 5])
    sparse = [onnx.numpy_helper.from_array(*one) for one in ((values, "w"), (places,))]
    model.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(*sparse, list(W)))
    with pytest.raises(InvalidValue, match=r"it \(Conv: its weights are sparse\)"):
        generate(model, isa="generic")


def test_sums_of_codes_are_refused_by_name():
    net = net_of()
    sums = net.node("ConvInteger", "x", net.constant(np.ones(W, np.int8)), name="it")
    model = model_of(net, net.node("Cast", sums, to=1))
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.UINT8
    with pytest.raises(InvalidValue, match=r"nodes that make sums of codes: it \(ConvInteger\)"):
        generate(model, isa="generic")


def test_outputs_that_follow_from_constants_or_sizes_are_named():
    net = net_of()
    layer = net.conv("x", 3, 4)
    of_constants = net.node("Min", ones(net, 2), ones(net, 2))
    shape = net.node("Cast", net.node("Shape", layer), to=1)
    for output in (of_constants, shape):
        message = f"^model: got the output {output}, which follows from constants or sizes alone"
        with pytest.raises(InvalidValue, match=message):
            generate(model_of(net, layer, output), isa="generic")
