"""Large kernels by Fourier transforms: results, memory, errors and threads are what plans say."""

import tracemalloc

import numpy as np
import pytest
from conv.activations import TRIALS
from conv.reference import convolve
from hypothesis import given, settings
from hypothesis import strategies as st

import winogen
from winogen.conv import fourier, memory, solvers, spectral
from winogen.conv.problem import Layer
from winogen.conv.query import Query
from winogen.conv.request import Request
from winogen.conv.tolerance import MARGIN
from winogen.errors import InvalidValue, Unsupported
from winogen.records import TARGETS, Machine

LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
CALLS = {rank: getattr(winogen, f"conv{rank}d") for rank in LAYOUTS}
OBJECTS = {rank: getattr(winogen, f"Conv{rank}d") for rank in LAYOUTS}
AVX2 = TARGETS["avx2"]


@st.composite
def layers(draw):
    """A layer with random options, and the shape of an input."""
    rank = draw(st.sampled_from((1, 2, 2, 3)))
    most = {1: 60, 2: 24, 3: 9}[rank]

    def each(low, high):
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    size, kernel = each(1, most), each(1, most)
    stride, dilation = each(1, 3), each(1, 2)
    mode = draw(st.sampled_from(("zeros", "reflect", "replicate", "circular")))
    padding = []
    for count, taps, spread in zip(size, kernel, dilation):
        reach = spread * (taps - 1) + 1
        spare = {"reflect": count - 1, "circular": count}.get(mode, most)
        least = max(0, reach - count)
        ends = draw(st.integers(0, 4)), draw(st.integers(0, 4))
        padding.append((min(spare, -(-least // 2) + ends[0]), min(spare, least // 2 + ends[1])))
    padded = [a + count + b for (a, b), count in zip(padding, size)]
    kernel = tuple(
        min(taps, (most - 1) // d + 1) for taps, most, d in zip(kernel, padded, dilation)
    )
    groups, per_group, filters = (draw(st.integers(1, 3)) for _ in range(3))
    layout = draw(st.sampled_from(LAYOUTS[rank]))
    images = draw(st.integers(1, 2))
    options = dict(stride=stride, padding=tuple(padding), dilation=dilation, groups=groups,
                   padding_mode=mode, layout=layout)  # fmt: skip
    channels = groups * per_group
    shape = (images, channels, *size) if layout[1] == "C" else (images, *size, channels)
    return shape, (groups * filters, per_group, *kernel), options


def drawn(seed, *shapes, dtype="float32", whole=False):
    rng = np.random.default_rng(seed)
    if whole:
        return [rng.integers(-4, 5, shape).astype(dtype) for shape in shapes]
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def relative(y, exact):
    return float(np.abs(y - exact).max() / np.abs(exact).max())


@settings(max_examples=60, deadline=None)
@given(layers(), st.booleans(), st.integers(0, 2**31))
def test_integers_are_exact_once_rounded(layer, small, seed):
    """With any options, in the usual tiles and in those of the least memory."""
    shape, weight_shape, options = layer
    rank = len(shape) - 2
    x, w, b = drawn(seed, shape, weight_shape, weight_shape[:1], whole=True)
    options |= {"algorithm": "fft", "threads": 1}
    if small:
        problem = Layer.of(weight_shape, "float32", **options).problem(shape)
        ways = fourier._candidates(problem, Machine())
        options["workspace_limit"] = min(one.workspace_bytes for one in ways)
    y = CALLS[rank](x, w, b, **options)
    names = ("stride", "padding", "dilation", "groups", "padding_mode", "layout")
    whole = (array.astype(np.int64) for array in (x, w, b))
    exact = convolve(*whole, **{name: options[name] for name in names})
    assert (np.rint(y) == exact).all()


@pytest.mark.parametrize("rank, shape, weight_shape, padding, groups", [
    (2, (1, 1, 90, 120), (1, 1, 31, 31), 15, 1),
    (2, (2, 4, 56, 56), (4, 1, 9, 9), 4, 4),
    (2, (1, 32, 28, 28), (4, 32, 9, 9), 0, 1),
    (2, (1, 1, 300, 400), (1, 1, 21, 21), 10, 1),
    (1, (1, 4, 5000), (4, 1, 301), 0, 4),
    (3, (1, 2, 20, 20, 20), (2, 2, 5, 5, 5), 2, 1),
])  # fmt: skip
@pytest.mark.parametrize("mode", ["zeros", "circular"])
def test_predicted_errors_are_measured(rank, shape, weight_shape, padding, groups, mode):
    options = dict(padding=padding, groups=groups, padding_mode=mode, layout=LAYOUTS[rank][0],
                   algorithm="fft", threads=1)  # fmt: skip
    ratios = []
    for seed in range(5):
        x, w = drawn(seed, shape, weight_shape)
        conv = OBJECTS[rank](w, **options)
        # In float64 the errors are 2^-29 times as large: see the next test.
        exact = CALLS[rank](x.astype(float), w.astype(float), **options)
        ratios.append(relative(conv(x), exact) / conv.plan(shape).predicted_error)
    assert 0.5 < np.median(ratios) < MARGIN, ratios


def test_float64_is_as_accurate_as_predicted():
    x, w = drawn(0, (1, 3, 30, 40), (2, 3, 9, 9), dtype="float64")
    conv = winogen.Conv2d(w, algorithm="fft")
    predicted = conv.plan(x.shape).predicted_error
    assert predicted < 1e-15
    # The reference, a plain chain of 243 terms, has an error of its own.
    assert relative(conv(x), convolve(x, w)) < MARGIN * predicted + 2 * 2.0**-53 * 243**0.5


@pytest.mark.parametrize("weight_shape, groups", [
    ((1, 1, 15, 15), 1), ((6, 1, 15, 15), 1), ((6, 1, 9, 9), 6), ((6, 3, 9, 9), 2)
])  # fmt: skip
def test_memory_is_what_the_plan_says(weight_shape, groups):
    channels = weight_shape[1] * groups
    x, w = drawn(0, (1, channels, 150, 180), weight_shape)
    conv = winogen.Conv2d(w, groups=groups, algorithm="fft", threads=1)
    out, plan = conv(x), conv.plan(x.shape)
    conv(x, out=out)  # whatever is imported for that is, now
    memory.release()
    tracemalloc.start()
    conv(x, out=out)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    if spectral._IN_PLACE:  # else numpy makes arrays of its own
        assert plan.workspace_bytes <= peak < plan.workspace_bytes + 20_000
    packed = conv.bound(x.shape)[1][0]
    assert packed.nbytes == plan.packed_weight_bytes


def test_a_limit_of_memory_is_kept_or_refused():
    layer = Layer.of((4, 4, 9, 9), "float32")
    problem = layer.problem((1, 4, 300, 300))
    ways = fourier._candidates(problem, Machine())
    least = min(one.workspace_bytes for one in ways)
    for limit in (least, 2 * least, 10 * least):
        assert fourier.fastest(problem, Machine(), limit).workspace_bytes <= limit
    with pytest.raises(
        InvalidValue, match=f"workspace_limit: got 99; allowed: at least {2 * least}"
    ):
        fourier.fastest(problem, Machine(), 99, threads=2)


@pytest.mark.parametrize("weight_shape, groups", [((6, 1, 9, 9), 6), ((6, 6, 9, 9), 1)])
def test_threads_change_no_bit(weight_shape, groups):
    x, w = drawn(0, (3, 6, 100, 90), weight_shape)
    one, three = (
        winogen.Conv2d(w, groups=groups, algorithm="fft", threads=n, workspace_limit=n << 20)
        for n in (1, 3)
    )
    assert (one(x) == three(x)).all()
    plans = [conv.plan(x.shape) for conv in (one, three)]
    assert plans[1].workspace_bytes == 3 * plans[0].workspace_bytes and plans[1].threads == 3


@pytest.mark.parametrize("layout", LAYOUTS[2])
def test_slices_and_additions(layout):
    """Read and written where they lie in larger arrays."""
    x, w, b = drawn(0, (2, 4, 20, 30), (6, 2, 9, 9), (6,), whole=True)
    add, after, out = drawn(1, (2, 8, 20, 30), (2, 6, 20, 30), (2, 9, 20, 30), whole=True)
    options = dict(padding=4, groups=2, layout=layout)
    if layout == "NHWC":
        x, add, after, out = (np.ascontiguousarray(np.moveaxis(a, 1, -1))
                              for a in (x, add, after, out))  # fmt: skip
        part = (..., slice(1, 7))
    else:
        part = (slice(None), slice(1, 7))
    kept = out.copy()
    winogen.conv2d(x, w, b, add=add[part], add_after=after, out=out[part], activation="relu",
                   algorithm="fft", **options)  # fmt: skip
    exact = convolve(x, w, b, add=add[part], add_after=after, activation="relu",
                     padding=((4, 4), (4, 4)), groups=2, layout=layout)  # fmt: skip
    assert (np.rint(out[part]) == exact).all()
    out[part] = kept[part]
    assert (out == kept).all()


@pytest.mark.parametrize("name", list(TRIALS))
def test_every_activation(name):
    x, w = drawn(0, (1, 2, 12, 13), (3, 2, 9, 9), dtype="float64")
    x /= 8
    activation = TRIALS[name].of(3)
    y = winogen.conv2d(x, w, padding=4, activation=activation, algorithm="fft")
    exact = convolve(x, w, padding=((4, 4), (4, 4)), activation=activation)
    assert np.allclose(y, exact, rtol=1e-12, atol=1e-12)


def test_one_map_and_no_images():
    x, w = drawn(0, (20, 30), (1, 1, 9, 9), whole=True)
    y = winogen.conv2d(x, w, algorithm="fft")
    assert (np.rint(y) == convolve(x[None, None], w)[0]).all()
    assert winogen.conv2d(np.zeros((0, 1, 20, 30), "f"), w, algorithm="fft").shape == (0, 1, 12, 22)


@pytest.mark.parametrize("options, message", [
    ({"tile": 4}, 'tile: got 4; allowed: None with algorithm "fft", which has no tiles'),
    ({"points": "0,1,inf"}, "points: got '0,1,inf'; allowed: None with algorithm \"fft\""),
    ({"filter_dtype": "float16"}, 'filter_dtype: got "float16" with algorithm "fft"; allowed'),
    ({"product_dtype": "int16"}, 'product_dtype: got "int16" with algorithm "fft"; allowed'),
    ({"tolerance": 1e-9}, r"tolerance: got 1e-09; allowed: at least .* algorithm \"fft\""),
    ({"workspace_limit": 8}, "workspace_limit: got 8; allowed: at least "),
])  # fmt: skip
def test_refusals(options, message):
    x, w = drawn(0, (1, 1, 20, 20), (1, 1, 9, 9))
    with pytest.raises((InvalidValue, Unsupported), match=message):
        winogen.conv2d(x, w, algorithm="fft", threads=1, **options)


def test_16_bits_and_c_are_refused():
    from winogen.conv.standalone import standalone

    half = np.zeros((1, 1, 20, 20), np.float16)
    with pytest.raises(Unsupported, match='"fft" with float16 arrays; allowed: arrays of float32'):
        winogen.conv2d(half, half[..., :9, :9], algorithm="fft")
    with pytest.raises(
        Unsupported, match='"fft", which has no C that stands.*; allowed: auto, dir'
    ):
        standalone((1, 1, 20, 20), (1, 1, 9, 9), algorithm="fft")


def test_it_needs_no_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("WINOGEN_COMPILE", "off")
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path))
    monkeypatch.setenv("WINOGEN_PREBUILT", str(tmp_path))
    x, w = drawn(0, (1, 1, 20, 20), (1, 1, 9, 9), whole=True)
    assert (np.rint(winogen.conv2d(x, w, algorithm="fft")) == convolve(x, w)).all()


def taken(weight_shape, shape, asked=None, **options):
    """What is taken on the default machine: the solver, its best candidate, and what it beat."""
    layer = Layer.of(weight_shape, options.pop("dtype", "float32"), **options)
    problem = layer.problem(shape)
    request = Request.of(layer, **{"threads": 1, **(asked or {})})
    offer = solvers.chosen(Query(problem, request, AVX2, Machine()))
    return type(offer.solver).__name__, offer.best, offer.beaten


def test_auto_takes_it_where_it_is_much_faster():
    large, options = ((64, 64, 31, 31), (1, 64, 56, 56)), dict(padding=15)
    name, best, beaten = taken(*large, **options)
    assert name == "Fourier" and beaten.best.seconds > spectral.Fourier.safety * best.seconds
    assert taken(*large, {"threads": 4}, **options)[:2] == (name, best)
    assert taken((64, 64, 3, 3), (1, 64, 56, 56))[0] == "Kernels"
    assert taken((4, 1, 9, 9), (1, 4, 9, 9), groups=4)[0] == "Kernels"  # one output
    for asked in ({"algorithm": "direct"}, {"workspace_limit": 400_000}):
        assert taken(*large, asked, **options)[0] == "Kernels"
    assert taken(*large, dtype="float16", **options)[0] == "Kernels"


def test_torch_takes_it():
    torch = pytest.importorskip("torch")
    import winogen.torch

    x, w = drawn(0, (2, 4, 20, 30), (4, 1, 9, 9), whole=True)
    b = drawn(1, (4,), whole=True)[0]
    for _ in range(2):  # a first call, and one like it
        y = winogen.torch.conv2d(*map(torch.from_numpy, (x, w, b)), padding=4, groups=4,
                                 algorithm="fft")  # fmt: skip
        exact = convolve(x, w, b, padding=((4, 4), (4, 4)), groups=4)
        assert (np.rint(y.numpy()) == exact).all()
