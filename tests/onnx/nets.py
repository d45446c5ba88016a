"""Small models, and whether an optimized one computes the same."""

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import winogen.onnx


class Net:
    """Builds a model node by node; every value has a known number of channels, or none."""

    def __init__(self, seed=0, dtype=np.float32):
        self.random = np.random.default_rng(seed)
        self.dtype = np.dtype(dtype)
        self.kind = helper.np_dtype_to_tensor_dtype(self.dtype)
        self.nodes, self.constants = [], []

    def constant(self, array, name=None):
        name = name or f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weights(self, *shape):
        scale = 1 / np.sqrt(np.prod(shape[1:]) or 1)
        return (scale * self.random.standard_normal(shape)).astype(self.dtype)

    def node(self, kind, *inputs, name=None, **attributes):
        output = f"v{len(self.nodes)}"
        name = name or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], name, **attributes))
        return output

    def conv(self, x, channels, filters, taps=3, bias=True, groups=1, **attributes):
        attributes.setdefault("pads", [taps // 2] * 4)
        arrays = [self.constant(self.weights(filters, channels // groups, taps, taps))]
        arrays += [self.constant(self.weights(filters))] if bias else []
        return self.node("Conv", x, *arrays, group=groups, **attributes)

    def norm(self, x, channels):
        scale, shift, mean = (self.weights(channels) for _ in range(3))
        var = self.random.uniform(0.5, 2, channels).astype(self.dtype)
        arrays = map(self.constant, (scale, shift, mean, var))
        return self.node("BatchNormalization", x, *arrays, epsilon=1e-3)

    def model(self, *outputs, channels=4, shape=None, opset=17, ir=8):
        shape = shape or ["n", channels, "h", "w"]
        inputs = [helper.make_tensor_value_info("x", self.kind, shape)]
        rank = [None] * len(shape)
        made = [helper.make_tensor_value_info(name, self.kind, rank) for name in outputs]
        graph = helper.make_graph(self.nodes, "net", inputs, made, self.constants)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir
        )


def data(net, *shape):
    return np.random.default_rng(99).standard_normal(shape).astype(net.dtype)


def runs_in_onnxruntime(model):
    """It has no convolution of doubles but ours."""
    return model.graph.input[0].type.tensor_type.elem_type != TensorProto.DOUBLE


def check_same(model, session, *feeds, tolerance=1e-5, before=lambda: None):
    """The optimized model computes what the model computes; returns it.

    ``before`` its session begins, this is called.
    """
    result = winogen.onnx.optimize(model)
    before()
    onnx.checker.check_model(result)
    other = session(result)
    assert [value.name for value in other.get_inputs()] == [v.name for v in model.graph.input]
    one = ort.InferenceSession(model.SerializeToString()) if runs_in_onnxruntime(model) else None
    one = one or ReferenceEvaluator(model)
    for x in feeds:
        for y, z in zip(one.run(None, {"x": x}), other.run(None, {"x": x})):
            assert y.shape == z.shape
            assert np.abs(y - z).max(initial=0) <= tolerance * np.abs(y).max(initial=1)
    return result


def kinds(model):
    return [node.op_type for node in model.graph.node]


def gelu_by_erf(net, x):
    divided = net.node("Div", x, net.constant(np.array(np.sqrt(2), net.dtype)))
    total = net.node("Add", net.node("Erf", divided), net.constant(np.array(1, net.dtype)))
    product = net.node("Mul", x, total)
    return net.node("Mul", product, net.constant(np.array(0.5, net.dtype)))


def clip(low, high):
    def make(net, x):
        bounds = [
            net.constant(np.array(b, net.dtype)) if b is not None else "" for b in (low, high)
        ]
        return net.node("Clip", x, *bounds)

    return make


# By several nodes, and with other inputs than the table has.
BY_PARTS = {
    "prelu with one slope": lambda net, x: net.node(
        "PRelu", x, net.constant(np.full((1, 1, 1), 0.25, net.dtype))
    ),
    "clip from below": clip(0, None),
    "clip from above": clip(None, 0.5),
    "a maximum": lambda net, x: net.node("Max", net.constant(np.array([0.25], net.dtype)), x),
    "a minimum of a maximum": lambda net, x: net.node(
        "Min",
        net.node("Max", x, net.constant(np.zeros((1, 1), net.dtype))),
        net.constant(np.array(0.5, net.dtype)),
    ),
    "silu": lambda net, x: net.node("Mul", x, net.node("Sigmoid", x)),
    "hardswish by parts": lambda net, x: net.node(
        "Mul", net.node("HardSigmoid", x, alpha=1 / 6, beta=0.5), x
    ),
    "gelu by erf": gelu_by_erf,
}
MADE = {
    "relu": lambda net, x: net.node("Relu", x),
    "leaky_relu": lambda net, x: net.node("LeakyRelu", x, alpha=0.2),
    "relu6": clip(0, 6),
    **BY_PARTS,
}
