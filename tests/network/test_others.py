"""Operators that are rewritten: onnxruntime computes the same of the rewritten model."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from network.test_network import net_of

from winogen.network.others import with_others
from winogen.network.reading import loaded, network

RNG = np.random.default_rng(7)


def numbers(net, *values, dtype=np.float32):
    return net.constant(np.array(values, dtype))


def resized(mode, position, down, across, by_sizes=False, **attributes):
    def make(net, x):
        if by_sizes:
            sizes = numbers(net, 2, 4, 6 * down, 5 * across, dtype=np.int64)
            inputs = ["", "", sizes]
        else:
            inputs = ["", numbers(net, 1, 1, down, across)]
        return net.node("Resize", x, *inputs, mode=mode,
                        coordinate_transformation_mode=position, **attributes)  # fmt: skip

    return make


def node(kind, **attributes):
    return lambda net, x: net.node(kind, x, **attributes)


CASES = {
    "negated": node("Neg"),
    "dropped": node("Dropout"),
    "cast": node("Cast", to=1),
    "blocks": lambda net, x: net.node("SpaceToDepth", net.conv(x, 4, 3, strides=[1, 1],
                                      pads=[1, 1, 1, 2], kernel_shape=[3, 3]), blocksize=2),
    "largest": node("GlobalMaxPool"),
    "largest, flat": node("ReduceMax", axes=[-1, 2], keepdims=0),
    "a difference": lambda net, x: net.node("Sub", x, net.conv(x, 4, 4)),
    "from a constant": lambda net, x: net.node("Sub", numbers(net, 1.5), x),
    "nearest": resized("nearest", "half_pixel", 2, 3),
    "nearest, ceil": resized("nearest", "pytorch_half_pixel", 3, 2,
                             nearest_mode="round_prefer_ceil"),
    "by sizes": resized("linear", "half_pixel", 3, 2, by_sizes=True),
    "another cubic": resized("cubic", "half_pixel", 2, 2, cubic_coeff_a=-0.5),
    **{
        f"{mode} {position}": resized(mode, position, *map(int, RNG.integers(2, 5, 2)))
        for mode in ("linear", "cubic")
        for position in ("half_pixel", "pytorch_half_pixel", "asymmetric")
    },
}  # fmt: skip


@pytest.mark.parametrize("make", CASES.values(), ids=CASES)
def test_the_rewritten_model_computes_the_same_and_is_generated(make):
    net = net_of()
    x = net.conv("x", 3, 4)
    y = make(net, x)
    model = net.model(y, shape=[2, 3, 6, 5])
    if "ReduceMax" in {one.op_type for one in model.graph.node}:
        del model.graph.output[0].type.tensor_type.shape.dim[2:]
    given = loaded(model)
    proto = with_others(given)
    onnx.checker.check_model(proto, full_check=True)
    feed = {"x": RNG.standard_normal((2, 3, 6, 5)).astype(np.float32)}
    wanted, found = (
        ort.InferenceSession(one.SerializeToString()).run(None, feed)[0] for one in (model, proto)
    )
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= 2e-6 * np.abs(wanted).max()
    network(given)  # refuses nothing


@pytest.mark.parametrize(
    "make",
    [
        resized("linear", "align_corners", 2, 2),
        resized("linear", "half_pixel", 1.5, 2),
        resized("cubic", "half_pixel", 2, 2, exclude_outside=1),
        resized("nearest", "half_pixel", 2, 2, nearest_mode="floor"),
    ],
)
def test_what_is_no_other_operator_stays(make):
    net = net_of()
    y = make(net, net.conv("x", 3, 4))
    given = loaded(net.model(y, shape=[2, 3, 6, 5]))
    assert with_others(given) == given.proto


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("shape", [(), (3, 1, 1)])
def test_pictures_are_prepared_before_the_first_layer(kind, shape):
    net = net_of()
    values = net.constant(np.full(shape, 2.5, np.float32))
    prepared = net.node(kind, net.node("Div", "x", numbers(net, 255)), values)
    model = net.model(net.conv(prepared, 3, 4), shape=[1, 3, 6, 5])
    first, *others = network(loaded(model)).graph.nodes
    assert len(others) == 1  # the layer, whose zeros of padding must stay zeros
    wanted = {"Add": 2.7, "Sub": -2.3, "Mul": 0.5, "Div": 0.08}[kind]
    shift = 0 if first.op.bias is None else first.op.bias
    found = 51 * first.op.weight.reshape(-1) + shift
    np.testing.assert_allclose(found, [wanted] * 3, rtol=1e-5)
