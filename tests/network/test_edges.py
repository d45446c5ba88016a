"""Numbers at the ends of what floats are, and attributes at the ends of what nodes may have.

What is expected is computed here by numpy, from the words of ONNX's standard.
"""

import numpy as np
import pytest
from network.test_network import net_of

from winogen.network import generate

RANDOM = np.random.default_rng(11)
SHAPE = (2, 4, 3, 5)
INF, NAN = np.inf, np.nan


def computed(cases, opset, x, folder, make, ends):
    """What C makes of x in each case, a network of them all: cases make nodes of (net, x)."""
    net = net_of()
    parts = [make_nodes(net, "x") for make_nodes, _ in cases.values()]
    all_of_it = net.constant(np.array([-1], np.int64))
    layer = net.conv("x", x.shape[1], 1, taps=1)
    flat = [net.node("Reshape", part, all_of_it) for part in (*parts, layer)]
    model = net.model(net.node("Concat", *flat, axis=0), shape=list(x.shape), opset=opset)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    generate(model, isa="generic", algorithm="direct").write(folder)
    sizes = [np.size(wanted) for _, wanted in cases.values()]
    y = ends(folder, x, sum(sizes) + x.size // x.shape[1], make)
    return dict(zip(cases, np.split(y, np.cumsum(sizes))))


def check(cases, opset, x, folder, make, ends, tolerance=2e-6):
    found = computed(cases, opset, x, folder, make, ends)
    for name, (_, wanted) in cases.items():
        y = found[name].reshape(np.shape(wanted))
        allowed = tolerance * np.abs(np.asarray(wanted)[np.isfinite(wanted)]).max(initial=1e-30)
        np.testing.assert_allclose(y, wanted, rtol=2e-6, atol=allowed, err_msg=name)


def number(net, value):
    return net.constant(np.float32(value))


def layer(net, x, weight=1.0):
    """A layer that multiplies each channel by a number."""
    filters = np.full((SHAPE[1], 1, 1, 1), weight, np.float32)
    return net.node("Conv", x, net.constant(filters), group=SHAPE[1])


def test_clip_is_the_smaller_of_its_upper_bound_and_the_larger_of_both_others(tmp_path, make, ends):
    x = RANDOM.standard_normal(SHAPE).astype(np.float32)
    x[0, 0, 0, :2] = INF, -INF

    def clip(low, high, again=()):
        def nodes(net, x):
            y = net.node("Clip", layer(net, x), number(net, low), number(net, high))
            for low_2, high_2 in again:
                y = net.node("Clip", y, number(net, low_2), number(net, high_2))
            return y

        wanted = np.minimum(np.maximum(x, np.float32(low)), np.float32(high))
        for low_2, high_2 in again:
            wanted = np.minimum(np.maximum(wanted, np.float32(low_2)), np.float32(high_2))
        return nodes, wanted

    bounds = [(2, -1), (0.5, -0.5), (0.25, 0.25), (6, 0), (INF, 1), (-INF, INF), (0, 6)]
    bounds += RANDOM.standard_normal((5, 2)).tolist()
    cases = {f"{low} to {high}": clip(low, high) for low, high in bounds}
    cases["twice"] = clip(0, 1, [(2, 3)])
    cases["twice, backward"] = clip(1, -1, [(-3, -2), (0, 6)])
    check(cases, 17, x, tmp_path, make, ends, 0)


REDUCED = {
    "ReduceL1": np.abs,
    "ReduceL2": np.abs,
    "ReduceLogSum": np.log,
    "ReduceMax": np.asarray,
    "ReduceMean": np.asarray,
    "ReduceMin": np.asarray,
    "ReduceProd": np.asarray,
    "ReduceSum": np.asarray,
    "ReduceSumSquare": np.square,
}


def test_reductions_over_no_axis_are_of_each_number(tmp_path, make, ends):
    x = (0.1 + RANDOM.random(SHAPE)).astype(np.float32)

    def reduced(kind, empty, keeps):
        def nodes(net, x):
            sign = 1 if kind == "ReduceLogSum" else -1
            given = [net.constant(np.zeros(0, np.int64))] if empty else []
            y = layer(net, x, sign)
            return net.node(kind, y, *given, noop_with_empty_axes=1, keepdims=keeps)

        return nodes, REDUCED[kind](x if kind == "ReduceLogSum" else -x)

    cases = {
        f"{kind} {empty} {keeps}": reduced(kind, empty, keeps)
        for place, kind in enumerate(REDUCED)
        for empty, keeps in [(place % 2 == 0, 1), (place % 2 == 1, 0)]
    }
    check(cases, 18, x, tmp_path, make, ends)


@pytest.mark.parametrize("deviation", [1.0, 1e-4, 1e-8, 1e-9, 0.0])
def test_mean_and_variance_of_small_numbers(deviation, tmp_path, make, ends):
    x = (deviation * RANDOM.standard_normal(SHAPE)).astype(np.float32)

    def normalized(axes):
        exact = x.astype(np.float64)
        with np.errstate(all="ignore"):  # numbers that are all alike become NaN
            spread = exact.std(axes, keepdims=True)
            wanted = (exact - exact.mean(axes, keepdims=True)) / spread
        return lambda net, x: net.node("MeanVarianceNormalization", x, axes=list(axes)), wanted

    cases = {str(axes): normalized(axes) for axes in [(0, 2, 3), (2, 3), (1,), (0, 1, 2, 3)]}
    check(cases, 13, x, tmp_path, make, ends)


def test_the_largest_of_numbers_with_a_nan_is_nan(tmp_path, make, ends):
    x = RANDOM.standard_normal((2, 4, 6, 8)).astype(np.float32)
    x[0, 1, 2, 3] = x[1, 3, 0, 0] = x[1, 3, 0, 1] = NAN
    x[0, 0, 1, 1], x[1, 2] = INF, -INF
    tiles = x.reshape(2, 4, 3, 2, 4, 2)
    cases = {
        "windows": (
            lambda net, x: net.node("MaxPool", layer(net, x), kernel_shape=[2, 2], strides=[2, 2]),
            tiles.max((3, 5)),
        ),
        "a channel": (
            lambda net, x: net.node("GlobalMaxPool", layer(net, x)),
            x.max((2, 3), keepdims=True),
        ),
        "rows": (lambda net, x: net.node("ReduceMax", x, axes=[3], keepdims=0), x.max(3)),
        "columns": (lambda net, x: net.node("ReduceMin", x, axes=[2], keepdims=0), x.min(2)),
    }
    check(cases, 17, x, tmp_path, make, ends, 0)


FACTORS = (INF, -INF, 0.0, -0.0, NAN, 1e-40, -1e-42, 3e38, -2.5)
BINARY = {"Mul": np.multiply, "Div": np.divide, "Add": np.add, "Sub": np.subtract}


@pytest.mark.parametrize("kind", BINARY)
def test_factors_and_sums_that_no_weight_takes_on(kind, tmp_path, make, ends):
    x = RANDOM.standard_normal(SHAPE).astype(np.float32)

    def joined(factor, way):
        each = np.float32([factor, 1, factor, 2]).reshape(-1, 1, 1)
        before = 1e-30 if way == "small" else 1e30 if way == "large" else 2.0

        def nodes(net, x):
            y, other = layer(net, x, before), net.constant(each)
            if way == "norm":
                ones, none = (net.constant(np.full(4, n, np.float32)) for n in (1, 0))
                y = net.node("BatchNormalization", y, ones, none, none, ones, epsilon=0.0)
            if way == "transposed":
                y = net.node("Transpose", y, perm=[0, 2, 3, 1])
                y = net.node(kind, y, net.constant(each.reshape(-1)))
                return net.node("Transpose", y, perm=[0, 3, 1, 2])
            y = net.node(kind, y, other)
            return net.node(kind, y, other) if way == "twice" else y

        with np.errstate(all="ignore"):
            wanted = BINARY[kind](x * np.float32(before), each)
            wanted = BINARY[kind](wanted, each) if way == "twice" else wanted
        return nodes, wanted

    ways = ("", "transposed", "norm", "small", "large", "twice")
    cases = {f"{way} {one!r}": joined(one, way) for way in ways for one in FACTORS}
    found = computed(cases, 17, x, tmp_path, make, ends)
    for name, (_, wanted) in cases.items():
        y = found[name].reshape(wanted.shape)
        np.testing.assert_allclose(y, wanted, rtol=2e-6, atol=1e-37, err_msg=name)


def test_a_variance_of_zero_and_products_by_infinity(tmp_path, make, ends):
    x = RANDOM.standard_normal(SHAPE).astype(np.float32)
    variance = np.float32([0, 1, 0, 4])
    mean, scale, shift = RANDOM.standard_normal((3, 4)).astype(np.float32)
    weight = RANDOM.standard_normal((60, 3)).astype(np.float32)

    def norm(net, x):
        arrays = map(net.constant, (scale, shift, mean, variance))
        return net.node("BatchNormalization", layer(net, x), *arrays, epsilon=0.0)

    def product(net, x):
        return net.node("Gemm", net.node("Flatten", x), net.constant(weight), alpha=INF)

    with np.errstate(all="ignore"):
        of = [one.reshape(-1, 1, 1) for one in (mean, variance, scale, shift)]
        normalized = (x - of[0]) / np.sqrt(of[1]) * of[2] + of[3]
        multiplied = np.float32(INF) * (x.reshape(2, -1) @ weight)
    cases = {"norm": (norm, normalized), "product": (product, multiplied)}
    check(cases, 17, x, tmp_path, make, ends)


@pytest.mark.parametrize("epsilon", [INF, NAN, 0.0, 1.0])
def test_any_epsilon_is_spelled(epsilon, tmp_path, make, ends):
    x = RANDOM.standard_normal(SHAPE).astype(np.float32)
    scale, shift = RANDOM.standard_normal((2, 4)).astype(np.float32)

    def instance(net, x):
        arrays = map(net.constant, (scale, shift))
        return net.node("InstanceNormalization", layer(net, x), *arrays, epsilon=epsilon)

    def row(net, x):
        arrays = (net.constant(one[:, None].repeat(15, 1)) for one in (scale, shift))
        flat = net.node("Reshape", x, net.constant(np.array([2, 4, 15], np.int64)))
        return net.node("LayerNormalization", flat, *arrays, axis=1, epsilon=epsilon)

    def wanted(axes):
        exact, of = x.astype(np.float64), (slice(None), None, None)
        apart = exact - exact.mean(axes, keepdims=True)
        return scale[of] * apart / np.sqrt(exact.var(axes, keepdims=True) + epsilon) + shift[of]

    cases = {"instance": (instance, wanted((2, 3))), "row": (row, wanted((1, 2, 3)))}
    check(cases, 17, x, tmp_path, make, ends)


def taken(size, start, end, step):
    """Places of a Slice: ends counted from behind and then cut off, as the standard has it."""
    start, end = (one + size if one < 0 else one for one in (start, end))
    least, most = (0, size) if step > 0 else (-1, size - 1)
    end = sorted((least, end, most))[1]
    place = sorted((0, start, most))[1]
    places = []
    while (place < end) if step > 0 else (place > end):
        places.append(place)
        place += step
    return places


@pytest.mark.parametrize("opset", [9, 17])
def test_slices_that_begin_or_end_anywhere(opset, tmp_path, make, ends):
    x = RANDOM.standard_normal((2, 1, 4, 5)).astype(np.float32)
    far = (-(2**63), -(2**31), -100, -6, -5, -4, -1, 0, 1, 4, 5, 6, 100, 2**31 - 1, 2**63 - 1)
    cases = {}
    while len(cases) < 40:
        axis = int(RANDOM.integers(4))
        start, end = (int(far[i]) for i in RANDOM.integers(len(far), size=2))
        step = 1 if opset == 9 else int(RANDOM.choice([-3, -2, -1, 1, 2, 3]))
        places = taken(x.shape[axis], start, end, step)
        if not places:
            continue

        def nodes(net, x, given=(start, end, axis, step)):
            y = net.node("Conv", x, net.constant(np.ones((1, 1, 1, 1), np.float32)))
            if opset == 9:
                words = dict(zip(("starts", "ends", "axes"), ([n] for n in given[:3])))
                return net.node("Slice", y, **words)
            return net.node("Slice", y, *(net.constant(np.array([n], np.int64)) for n in given))

        cases[f"{start}:{end}:{step} of {axis}"] = nodes, x.take(places, axis)
    check(cases, opset, x, tmp_path, make, ends, 0)
