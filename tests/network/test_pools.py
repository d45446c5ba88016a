"""Pools with any attributes, as floats and as codes: what numpy computes window by window.

No window begins behind the input and the padding before it (PyTorch's rule, and onnxruntime's);
padding counts where it is asked for, and nothing beyond it.
"""

from itertools import product

import numpy as np
import pytest
from network.test_edges import check
from network.test_network import net_of
from onnx import helper

from winogen.errors import InvalidValue
from winogen.network import generate

RANDOM = np.random.default_rng(5)


def windows(size, kernel, stride, before, after, dilation, ceil):
    """Of an axis: the places of each window's taps, counted from the first number."""
    room = size + before + after - dilation * (kernel - 1) - 1
    count = (-(-room // stride) if ceil else room // stride) + 1
    begins = [stride * i - before for i in range(count)]
    begins = [one for one in begins if not ceil or one < size]
    return [[one + dilation * tap for tap in range(kernel)] for one in begins]


def pooled(kind, x, kernel, strides=None, pads=None, dilations=None, **more):
    """A pool of (N, C, ...) by the standard's words."""
    rank = x.ndim - 2
    strides, dilations = (one or [1] * rank for one in (strides, dilations))
    sides, ceil = (pads or [0] * 2 * rank), more.get("ceil_mode", 0)
    axes = zip(x.shape[2:], kernel, strides, sides[:rank], sides[rank:], dilations)
    places = [windows(*one, ceil) for one in axes]
    y = np.empty((*x.shape[:2], *map(len, places)))
    for at in product(*(range(len(one)) for one in places)):
        taps = [*product(*(one[i] for one, i in zip(places, at)))]
        sizes = x.shape[2:]
        inside = [t for t in taps if all(0 <= i < n for i, n in zip(t, sizes))]
        seen = np.stack([x[(..., *t)] for t in inside], -1).astype(np.float64)
        if kind == "MaxPool":
            found = seen.max(-1)
        elif kind == "LpPool":
            power = more.get("p", 2)
            found = (np.abs(seen) ** power).sum(-1) ** (1 / power)
        else:
            ends = zip(sides[:rank], sizes, sides[rank:])
            padded = [(-low, n + high) for low, n, high in ends]
            counted = [t for t in taps if all(a <= i < b for i, (a, b) in zip(t, padded))]
            count = len(counted) if more.get("count_include_pad", 0) else len(inside)
            found = seen.sum(-1) / count
        y[(..., *at)] = found
    return y


def attributes(kind, rank, ceil, gaps):
    """Attributes that a pool may have, drawn at random: padding is smaller than the kernel."""
    kernel = RANDOM.integers(1, 4, rank).tolist()
    made = {
        "kernel_shape": kernel,
        "strides": RANDOM.integers(1, 5, rank).tolist(),
        "pads": [int(RANDOM.integers(0, n)) for n in kernel * 2],
        "ceil_mode": ceil,
    }
    if gaps:
        made["dilations"] = [2 if n > 1 else 1 for n in kernel]
    if kind == "AveragePool":
        made["count_include_pad"] = int(RANDOM.integers(2))
    if kind == "LpPool":
        made["p"] = int(RANDOM.integers(1, 4))
    return made


def case(kind, shape, given):
    def nodes(net, x):
        flat = net.constant(np.array(shape, np.int64))
        filters = np.full((1, 1, 1, 1), -1, np.float32)
        y = net.node("Reshape", x, flat)
        y = net.node("Conv", y, net.constant(filters.reshape([1] * len(shape))))
        return net.node(kind, y, **given)

    return nodes


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("ceil", [1, 0])
def test_any_pool(kind, ceil, tmp_path, make, ends):
    whole = RANDOM.standard_normal((1, 1, 12, 35)).astype(np.float32)
    cases = {}
    for number in range(24):
        shape = [(1, 1, 12, 35), (1, 1, 35, 12), (2, 1, 210), (1, 1, 5, 7, 12)][number % 4]
        given = attributes(kind, len(shape) - 2, ceil, kind != "LpPool" and number % 3 == 2)
        options = {name: value for name, value in given.items() if name != "kernel_shape"}
        wanted = pooled(kind, -whole.reshape(shape), given["kernel_shape"], **options)
        cases[f"{shape} {given}"] = case(kind, shape, given), wanted
    check(cases, 19, whole, tmp_path, make, ends)


def codes_of(x, step, kind):
    limits = np.iinfo(kind)
    zero = 128 if kind == np.uint8 else 0
    return np.clip(np.rint(x / step) + zero, limits.min, limits.max).astype(kind)


def quantized(kind, pool, shape, given, made=None):
    """A layer of codes that takes each number as it is, and a pool of its codes."""
    net = net_of()
    step, zero = net.constant(np.float32(0.05)), net.constant(kind(128 if kind == np.uint8 else 0))
    weight = net.constant(np.ones((shape[1], 1, 1, 1), np.int8))
    one, none = net.constant(np.float32(1)), net.constant(np.int8(0))

    def coded(x):
        return net.node("DequantizeLinear", net.node("QuantizeLinear", x, step, zero), step, zero)

    filters = net.node("DequantizeLinear", weight, one, none)
    y = coded(net.node("Conv", coded("x"), filters, group=shape[1]))
    model = net.model(coded(net.node(pool, y, **given)), shape=list(shape), opset=13)
    output = model.graph.output[0]
    output.type.tensor_type.ClearField("shape")
    if made is not None:
        helper_made = helper.make_tensor_value_info(output.name, 1, made)
        output.CopyFrom(helper_made)
    return model


@pytest.mark.parametrize("number", range(12))
def test_pools_of_codes(number, tmp_path, make, ends):
    pool, kind = ("MaxPool", "AveragePool")[number % 2], (np.uint8, np.int8)[number // 2 % 2]
    random = np.random.default_rng(number)
    shape = (1, 2, *map(int, random.integers(5, 10, 2)))
    kernel = random.integers(1, 4, 2).tolist()
    given = {"kernel_shape": kernel, "strides": random.integers(1, 5, 2).tolist(), "ceil_mode": 1}
    given["pads"] = [int(random.integers(0, n)) for n in kernel * 2]
    x = (np.float32(0.05) * random.integers(-100, 100, shape)).astype(np.float32)
    options = {name: value for name, value in given.items() if name != "kernel_shape"}
    wanted = pooled(pool, x, kernel, **options)
    declared = wanted.shape if number % 3 else None
    generate(quantized(kind, pool, shape, given, declared), isa="generic").write(tmp_path)
    y = ends(tmp_path, x, wanted.size, make)
    assert np.abs(y - wanted.ravel()).max() <= (0.026 if pool == "AveragePool" else 1e-6)


@pytest.mark.parametrize("codes", [True, False])
@pytest.mark.parametrize("axis, more", [(1, 1), (2, 1), (3, -1), (3, 1)])
def test_sizes_that_are_declared_otherwise_than_nodes_make_them_are_refused(codes, axis, more):
    given = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1] * 4, "ceil_mode": 1}
    made = [1, 2, 4, 4]
    made[axis] += more
    if codes:
        model = quantized(np.int8, "MaxPool", (1, 2, 7, 7), given, made)
    else:
        net = net_of()
        y = net.node("MaxPool", net.conv("x", 2, 2, taps=1), **given)
        model = net.model(y, shape=[1, 2, 7, 7])
        for dim, size in zip(model.graph.output[0].type.tensor_type.shape.dim, made):
            dim.dim_value = size
    name, text = model.graph.output[0].name, " x ".join(map(str, made))
    message = f"^model: got {name} declared as {text}; allowed: 1 x 2 x 4 x 4, which"
    with pytest.raises(InvalidValue, match=message):
        generate(model, isa="generic")


def test_every_case_reaches_beyond_its_padding():
    """The generator makes windows that end, and that would begin, behind the input."""
    ended = dropped = 0
    for _ in range(500):
        given = attributes("MaxPool", 1, 1, False)
        (kernel,), (stride,), pads = given["kernel_shape"], given["strides"], given["pads"]
        made = windows(7, kernel, stride, *pads, 1, True)
        ended += made[-1][-1] >= 7 + pads[1]
        dropped += len(made) < -(-(7 + sum(pads) - kernel) // stride) + 1
    assert ended > 20 and dropped > 4
