"""Transposed layers: integers against a scatter of each input, torch's meaning, and refusals."""

import copy
import pickle

import numpy as np
import pytest
from conv.activations import activate
from hypothesis import given, settings
from hypothesis import strategies as st

import winogen
from winogen.conv import arguments, execute, transposed
from winogen.conv.phases import joined, joined_weight, ordinary, phases
from winogen.conv.problem import Seams
from winogen.errors import InvalidType, InvalidValue, Unsupported

FUNCTIONS = {
    1: winogen.conv_transpose1d, 2: winogen.conv_transpose2d, 3: winogen.conv_transpose3d,
}  # fmt: skip
CLASSES = {1: winogen.ConvTranspose1d, 2: winogen.ConvTranspose2d, 3: winogen.ConvTranspose3d}


def scattered(x, w, bias, stride, ends, more, groups, dilation):
    """The definition: each input, times the kernel, is added to the outputs. Channels first."""
    (n, c, *size), (_, own, *taps) = x.shape, w.shape
    rank = len(size)
    whole = [
        (i - 1) * s + d * (k - 1) + 1 + o
        for i, k, s, d, o in zip(size, taps, stride, dilation, more)
    ]
    y = np.zeros((n, groups, own, *whole))
    xs = x.reshape(n, groups, c // groups, *size).astype(np.float64)
    ws = w.reshape(groups, c // groups, own, *taps).astype(np.float64)
    for at in np.ndindex(*size):
        added = np.einsum("ngc,gcm...->ngm...", xs[(..., *at)], ws)
        places = tuple(
            slice(i * s, i * s + d * (k - 1) + 1, d)
            for i, s, d, k in zip(at, stride, dilation, taps)
        )
        y[(..., *places)] += added
    y = y.reshape(n, groups * own, *whole)
    y = y[(..., *(slice(before, count - after) for (before, after), count in zip(ends, whole)))]
    return y if bias is None else y + bias.reshape(-1, *[1] * rank)


def ints(rng, *shape):
    return rng.integers(-3, 4, shape).astype(np.float32)


def in_layout(x, last):
    return np.ascontiguousarray(np.moveaxis(x, 1, -1)) if last else x


@st.composite
def layers(draw):
    """A layer of small integers whose result every algorithm can hold exactly."""
    rank, tiled = draw(st.sampled_from([1, 2, 2, 2, 3])), draw(st.booleans())
    axes = []
    for axis in range(rank):
        taps, stride, dilation = (draw(st.integers(1, most)) for most in (5, 4, 3))
        if tiled and axis >= rank - 2:  # two taps of each phase, or of the first ones
            taps, dilation = draw(st.integers(stride + 1, 2 * stride)), 1
        size, more = draw(st.integers(1, 9)), draw(st.integers(0, max(stride, dilation) - 1))
        whole = (size - 1) * stride + dilation * (taps - 1) + 1 + more
        before = draw(st.integers(0, min(7, whole - 1)))
        after = draw(st.integers(0, min(4, whole - 1 - before)))
        axes.append((size, taps, stride, dilation, (before, after), more))
    groups = draw(st.sampled_from([1, 1, 2]))
    channels, filters = draw(st.sampled_from([(1, 1), (3, 5), (4, 16), (9, 8)]))
    how = {"algorithm": "mcmr", "tile": 2} if tiled else {"algorithm": "direct"}
    how["threads"] = draw(st.integers(1, 2))
    return rank, axes, channels * groups, filters, groups, how, draw(st.integers(0, 99))


@given(layers(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_integers_are_exact(layer, last):
    rank, axes, channels, filters, groups, how, seed = layer
    size, taps, stride, dilation, ends, more = zip(*axes)
    rng = np.random.default_rng(seed)
    # F(2, 2) halves filters along each axis: multiples of four stay integers.
    x, w = ints(rng, 2, channels, *size), 4 * ints(rng, channels, filters, *taps)
    bias = ints(rng, groups * filters)
    expected = in_layout(scattered(x, w, bias, stride, ends, more, groups, dilation), last)
    out = np.full(expected.shape, np.nan, np.float32)
    layout = arguments.LAYOUTS[rank][last]
    steps = stride, ends, more, groups, dilation
    y = FUNCTIONS[rank](in_layout(x, last), w, bias, *steps, **how, layout=layout, out=out)
    assert y is out
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("together", [True, False], ids=["together", "apart"])
@pytest.mark.parametrize("stride", [(2,), (8,), (2, 2), (3, 2), (1, 2, 2)])
def test_kernels_as_long_as_their_stride(monkeypatch, stride, together, last):
    """As one product with all phases as filters, and as one for each, whatever is predicted."""
    found, ways = [], transposed.ways

    def first(*given):
        some = ways(*given)
        found.append(sorted(some, key=lambda way: (way.parts[0].weight[0] == "all") != together))
        return found[-1]

    monkeypatch.setattr(transposed, "ways", first)
    execute.forget()
    rng, rank = np.random.default_rng(7), len(stride)
    for number, (channels, filters, groups) in enumerate(((3, 5, 2), (24, 16, 1), (9, 35, 1))):
        ends = [(before % step, number) for before, step in zip((number, 1, 3), stride)]
        more = [step - 1 for step in stride]
        x = ints(rng, 2, channels * groups, *(7, 9, 19)[3 - rank :])
        w, bias = ints(rng, channels * groups, filters, *stride), ints(rng, groups * filters)
        sums = in_layout(scattered(x, w, bias, stride, ends, more, groups, (1,) * rank), last)
        add, layout = ints(rng, *sums.shape), arguments.LAYOUTS[rank][last]
        out = np.full(sums.shape, np.nan, np.float32)
        options = {"activation": "relu", "layout": layout, "threads": 1 + number % 2}
        FUNCTIONS[rank](
            in_layout(x, last), w, bias, stride, ends, more, groups, add=add, out=out, **options
        )
        assert np.array_equal(out, np.maximum(sums + add, 0))
        part, *_ = found[-1][0].parts
        assert (part.weight[0] == "all") == together
    execute.forget()


def test_the_way_that_is_at_hand_serves_without_a_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path))
    rng, ways = np.random.default_rng(9), transposed.ways
    x, w = ints(rng, 1, 8, 6, 7), ints(rng, 8, 16, 2, 2)
    execute.forget()
    with monkeypatch.context() as patched:
        patched.setattr(transposed, "ways", lambda *given: ways(*given)[-1:])
        patched.setattr(transposed.TransposedLayer, "one_tap_each", False)
        expected = winogen.conv_transpose2d(x, w, stride=2)
    execute.forget()
    monkeypatch.setenv("WINOGEN_COMPILE", "off")
    layer = winogen.ConvTranspose2d(w, stride=2)
    assert np.array_equal(layer(x), expected) and len(layer.plan(x.shape).parts) == 4
    execute.forget()


def test_threads_leave_alone_what_others_write():
    """Threads that share the filters of a block write columns between each other's."""
    rng = np.random.default_rng(8)
    x, w = ints(rng, 1, 256, 20, 20), 4 * ints(rng, 256, 128, 4, 4)
    how = {"algorithm": "mcmr", "tile": 2, "stride": 2, "padding": 1}
    expected = winogen.conv_transpose2d(x, w, threads=1, **how)
    layer = winogen.ConvTranspose2d(w, threads=4, **how)
    ((_, prepared),) = layer._planned(layer._layer.problem(x.shape), Seams(256, 128)).parts
    assert [call.struct.shares for call in prepared.calls] == [4]
    out = np.empty_like(expected)
    for _ in range(40):
        out.fill(np.nan)
        assert np.array_equal(layer(x, out=out), expected)


WAYS = ({"algorithm": "direct"}, {"algorithm": "mcmr", "tile": 2})


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("how", WAYS, ids=["direct", "mcmr"])
def test_additions_activations_and_slices(last, how):
    rng = np.random.default_rng(1)
    x, w, bias = ints(rng, 2, 6, 5, 7), 4 * ints(rng, 6, 13, 4, 3), ints(rng, 13)
    steps = (2, 2), ((1, 0), (2, 1)), (1, 0), 1, (1, 1)
    sums = in_layout(scattered(x, w, bias, *steps), last)
    add, after = ints(rng, *sums.shape), ints(rng, *sums.shape)
    data, layout = in_layout(x, last), arguments.LAYOUTS[2][last]
    for activation in ("relu", ("leaky_relu", 0.5), ("prelu", ints(rng, 13))):
        layer = winogen.ConvTranspose2d(
            w, bias, *steps, layout=layout, activation=activation, **how
        )
        plain = np.moveaxis(sums + add, -1 if last else 1, 1)
        expected = np.moveaxis(activate(plain, activation), 1, -1 if last else 1) + after
        assert np.array_equal(layer(data, add=add, add_after=after), expected)
        assert np.array_equal(layer(data[0], add=add[0], add_after=after[0]), expected[0])
        # Read and written where they lie: slices of the channels of larger arrays.
        axis = 3 if last else 1
        wide = np.full([n + 5 * (i == axis) for i, n in enumerate(data.shape)], 7.0, np.float32)
        results = np.full([n + 9 * (i == axis) for i, n in enumerate(sums.shape)], 9.0, np.float32)
        inner, place = (
            array[(slice(None),) * axis + (slice(first, first + count),)]
            for array, first, count in ((wide, 2, 6), (results, 4, 13))
        )
        inner[...] = data
        assert layer(inner, out=place, add=add, add_after=after) is place
        assert np.array_equal(place, expected)
        place[...] = 9.0
        assert (results == 9.0).all()  # nothing around it was written


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("how", WAYS, ids=["direct", "mcmr"])
@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_other_numbers(last, how, dtype):
    rng = np.random.default_rng(2)
    x, w = ints(rng, 1, 3, 6, 5).astype(dtype), 4 * ints(rng, 3, 9, 3, 4).astype(dtype)
    steps = (2, 2), ((0, 1), (1, 1)), (0, 0), 1, (1, 1)
    expected = in_layout(scattered(x, w, None, *steps), last)
    layout = arguments.LAYOUTS[2][last]
    layer = winogen.ConvTranspose2d(w, None, *steps, layout=layout, **how)
    y = layer(in_layout(x, last))
    assert y.dtype == dtype
    assert np.array_equal(y, expected)


def test_outputs_that_see_nothing_see_no_infinity():
    x = np.full((1, 1, 2, 2), np.inf, np.float32)
    y = winogen.conv_transpose2d(x, np.ones((1, 2, 1, 1), np.float32), np.float32([3, 4]), stride=2)
    assert np.array_equal(y[0, :, 1, :], [[3] * 3, [4] * 3])
    assert np.isinf(y[0, :, ::2, ::2]).all()


def test_output_size_and_empty_batches():
    layer = winogen.ConvTranspose2d(
        np.ones((3, 4, 3, 3), np.float32), None, (2, 3), 1, algorithm="direct"
    )
    x = np.ones((1, 3, 5, 5), np.float32)
    assert layer(x).shape == (1, 4, 9, 13)
    for size in ((10, 15), (4, 10, 15), (1, 4, 10, 15)):
        assert layer(x, size).shape == (1, 4, 10, 15)
    assert np.array_equal(layer(x, (10, 15))[..., :9, :13], layer(x))
    last = winogen.ConvTranspose2d(
        np.ones((3, 4, 3, 3), np.float32), stride=2, layout="NHWC", algorithm="direct"
    )
    assert last(np.ones((1, 5, 5, 3), np.float32), (1, 12, 11, 4)).shape == (1, 12, 11, 4)
    assert layer(x[:0]).shape == (0, 4, 9, 13)
    for size in ((11, 13), (8, 13), (9, 12), (9,), "9"):
        with pytest.raises(InvalidValue, match="output_size: got"):
            layer(x, size)


def test_plans_say_which_way_was_taken():
    shape = 1, 64, 48, 48
    weight = np.ones((64, 64, 4, 4), np.float32)
    made = winogen.ConvTranspose2d(weight, stride=2, padding=1, algorithm="mcmr", tile=4)
    plan = made.plan(shape)
    assert (plan.algorithm, plan.tile, len(plan.parts)) == ("mcmr", (4, 4), 1)
    assert str(plan).startswith(
        "conv_transpose2d float32 NCHW: 1x64x48x48 * 64x64x4x4 -> 1x64x96x96"
    )
    alone = winogen.ConvTranspose2d(weight, stride=2, padding=1, algorithm="direct").plan(shape)
    assert (alone.algorithm, alone.tile, len(alone.parts)) == ("direct", None, 4)
    assert alone.multiplications == 4 * 4 * 64 * 64 * 48 * 48


@pytest.mark.parametrize("last", [False, True])
def test_what_is_chosen_is_right_for_any_threads(last):
    rng = np.random.default_rng(4)
    x, w = (rng.standard_normal(shape).astype("f4") for shape in ((1, 32, 11, 24), (32, 32, 4, 4)))
    steps = (2, 2), ((1, 1), (1, 1)), (0, 0), 1, (1, 1)
    expected = in_layout(scattered(x, w, None, *steps), last)
    layout, data = arguments.LAYOUTS[2][last], in_layout(x, last)
    one, two = (
        winogen.ConvTranspose2d(w, None, *steps, layout=layout, threads=threads)
        for threads in (1, 2)
    )
    assert one.plan(data.shape).algorithm == two.plan(data.shape).algorithm
    assert np.abs(one(data) - expected).max() < 1e-5 * np.abs(expected).max()
    assert np.array_equal(one(data), two(data))


def test_copies_and_pickles():
    rng = np.random.default_rng(3)
    layer = winogen.ConvTranspose1d(ints(rng, 3, 5, 3), stride=2, algorithm="direct")
    x = ints(rng, 2, 3, 9)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert np.array_equal(other(x), layer(x))


@pytest.mark.parametrize(
    ("error", "said", "options"),
    [
        (InvalidValue, "output_padding: got .*; allowed: less than", {"output_padding": 2}),
        (InvalidValue, "padding: got 'same'; allowed: numbers", {"padding": "same"}),
        (InvalidValue, "padding: got .* leaves an output", {"padding": 9}),
        (InvalidType, "stride: got 1.5; allowed", {"stride": 1.5}),
        (InvalidValue, "groups: got 4; allowed: a divisor of the 6", {"groups": 4}),
        (InvalidValue, "layout: got 'NCW'; allowed", {"layout": "NCW"}),
        (Unsupported, 'algorithm: got "winograd2d" .* transposed', {"algorithm": "winograd2d"}),
        (Unsupported, 'algorithm: got "loops" .* transposed', {"algorithm": "loops"}),
        (Unsupported, "algorithm: .* stride up to 4", {"algorithm": "mcmr", "stride": 5}),
        (Unsupported, "algorithm: .* dilation 1", {"tile": 2, "dilation": 2}),
        (Unsupported, "algorithm: .* longer than the stride", {"tile": 2, "stride": 3}),
        (InvalidValue, "tile: got 2; allowed: None with", {"algorithm": "direct", "tile": 2}),
        (Unsupported, 'product_dtype: got "int16"', {"product_dtype": "int16"}),
        (InvalidValue, "bias: got shape .*; allowed: \\(4,\\)", {"bias": np.ones(6, np.float32)}),
        (InvalidValue, "out: got shape", {"out": np.ones((1, 4, 3, 3), np.float32)}),
        (InvalidValue, "add: got shape", {"add": np.ones((1, 4, 3, 3), np.float32)}),
    ],
)
def test_what_is_refused(error, said, options):
    x, w = np.ones((1, 6, 5, 5), np.float32), np.ones((6, 4, 3, 3), np.float32)
    with pytest.raises(error, match=said):
        winogen.conv_transpose2d(x, w, **{"stride": 2, **options})


def test_out_may_not_be_an_operand():
    x, w = np.ones((1, 4, 5, 5), np.float32), np.ones((4, 4, 1, 1), np.float32)
    with pytest.raises(InvalidValue, match="out: got an array that overlaps input"):
        winogen.conv_transpose2d(x, w, out=x)


def test_a_limit_and_a_tolerance_hold():
    x, w = np.ones((1, 16, 9, 9), np.float32), np.ones((16, 16, 4, 4), np.float32)
    with pytest.raises(InvalidValue, match="workspace_limit: got 1; allowed: at least"):
        winogen.conv_transpose2d(x, w, stride=2, workspace_limit=1)
    with pytest.raises(InvalidValue, match="tolerance: got 1e-12; allowed: at least"):
        winogen.conv_transpose2d(x, w, stride=2, tolerance=1e-12)


# --- the rule itself


@given(
    st.integers(1, 9), st.integers(1, 6), st.integers(1, 6), st.integers(1, 4), st.integers(0, 9),
    st.integers(1, 20),
)  # fmt: skip
def test_phases_are_all_products_once(size, kernel, stride, dilation, before, count):
    """Every pair of input and tap that meets an output does so in its phase, and no other."""
    wanted = {
        (i, k, o)
        for i in range(size) for k in range(kernel)
        if 0 <= (o := i * stride + k * dilation - before) < count
    }  # fmt: skip
    found = [
        (i, k, phase.first + stride * j)
        for phase in phases(kernel, stride, dilation, before, count)
        for j in range(phase.outputs)
        for at, k in enumerate(phase.taps)
        if 0 <= (i := j - phase.before + at * phase.dilation) < size
    ]
    assert len(found) == len(set(found))
    assert set(found) == wanted
    if dilation == 1:
        one = joined(kernel, stride, before, count)
        numbers = np.arange(1, kernel + 1).reshape(1, 1, kernel)
        filters = joined_weight(numbers, [stride])[:, 0]
        together = {
            (i, int(k) - 1, o)
            for q in range(one.pixels)
            for phase, taps in enumerate(filters)
            for at, k in enumerate(taps)
            if k
            and 0 <= (i := q - one.before + at) < size
            and 0 <= (o := stride * q + phase - one.crop) < count
        }
        assert together == wanted


def test_filters_come_group_by_group():
    weight = np.arange(2 * 3 * 4 * 2).reshape(4, 6, 1, 2)
    seen = ordinary(weight, 2)
    assert seen.shape == (12, 2, 1, 2)
    assert np.array_equal(seen[7], weight[2:, 1])
