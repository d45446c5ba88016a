"""Products of float16: exact where integers are small, scaled so that the range does not matter.

Errors of real numbers are compared with the estimate that plans are made by.
"""

from itertools import product

import numpy as np
import pytest
from conv import exact
from conv.reference import convolve

import winogen
from winogen import Conv2d
from winogen.conv.standalone import standalone
from winogen.conv.tolerance import MARGIN
from winogen.errors import InvalidValue, Unsupported, WinogenError
from winogen.toolchain import host_target

able = pytest.mark.skipif(
    "fp16" not in host_target().extensions, reason="this CPU or its compiler has no AVX512-FP16"
)
OPTIONS = {"algorithm": "direct", "product_dtype": "float16"}

# Weight, groups, height and width, and options: one word and a rest, halves of chunks, chunks and a
# rest, few channels and few filters (pixels in the lanes), phases, dilations, rows of one pixel.
LAYERS = (
    ((20, 7, 3, 3), 1, (9, 17), {}),
    ((36, 33, 3, 3), 1, (5, 8), {"stride": (2, 2)}),
    ((16, 80, 1, 1), 1, (6, 7), {}),
    ((64, 40, 1, 1), 1, (7, 6), {"stride": (2, 2)}),
    ((70, 3, 3, 3), 1, (11, 70), {}),
    ((33, 3, 7, 7), 1, (14, 15), {"stride": (2, 2)}),
    ((10, 5, 3, 2), 2, (8, 9), {"dilation": (2, 1)}),
    ((9, 24, 1, 3), 3, (4, 20), {"stride": (1, 3)}),
    ((32, 16, 5, 5), 1, (9, 9), {"dilation": (1, 2), "stride": (2, 1)}),
)


def normal(weight, size, seed=0, batch=1, groups=1):
    """Input in NCHW and weight of a layer."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((batch, groups * weight[1], *size)).astype(np.float32)
    return x, rng.standard_normal(weight).astype(np.float32)


def computed(x, weight, layout="NCHW", **options):
    """The output in NCHW."""
    options = {"threads": 1, **OPTIONS, **options}
    if layout == "NHWC":
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    y = winogen.conv2d(x, weight, layout=layout, **options)
    return y.transpose(0, 3, 1, 2) if layout == "NHWC" else y


def sides(weight):
    """Padding that keeps the size of odd kernels without strides."""
    return tuple((size // 2, size // 2) for size in weight[2:])


def quick(quickest, *values):
    """Pairs of values and layouts; all but the ``quickest`` take long in all."""
    return [
        pytest.param(*pair, marks=() if index in quickest else pytest.mark.thorough)
        for index, pair in enumerate(product(values, exact.LAYOUTS))
    ]


@able
@pytest.mark.parametrize("case, layout", quick((1, 2, 8), *LAYERS))
def test_integers_leave_nothing_to_round(case, layout):
    weight, groups, (height, width), options = case
    rng = np.random.default_rng(3)
    w = exact.integers(rng, (groups * weight[0], *weight[1:]), 2)
    index = LAYERS.index(case)
    for seams in (None, np.random.default_rng(index)):
        exact.check(
            exact.integers(rng, (2, groups * weight[1], height, width), 3),
            w,
            exact.integers(rng, len(w), 50),
            algorithm={**OPTIONS, "threads": 1 + index % 2},
            padding=sides(weight),
            padding_mode=exact.MODES[index % 4],
            activation=None if seams is None else "relu",
            groups=groups,
            layout=layout,
            seams=seams,
            **options,
        )


# Three channels, 1x1, a stride, many channels: weight, size and stride.
REAL = (
    ((48, 3, 3, 3), (40, 40), 1),
    ((48, 64, 1, 1), (30, 30), 1),
    ((48, 64, 3, 3), (24, 24), 2),
    ((24, 300, 1, 1), (20, 20), 1),
)


@able
@pytest.mark.parametrize("case, layout", quick((0, 3), *REAL))
def test_errors_are_as_predicted(case, layout):
    """Within the margin that the planner leaves."""
    weight, size, stride = case
    x, w = normal(weight, size)
    conv = Conv2d(w, stride=stride, **OPTIONS)
    exactly = convolve(x.astype(float), w.astype(float), stride=(stride, stride))
    error = np.abs(computed(x, w, layout, stride=stride) - exactly).max() / np.abs(exactly).max()
    predicted = conv.plan(x.shape).predicted_error
    assert 0.5 < error / predicted < MARGIN and 5e-4 < predicted < 8e-4


@able
@pytest.mark.parametrize("weight, layout", quick((0, 2), (40, 24, 3, 3), (40, 3, 3, 3)))
def test_the_range_does_not_matter(weight, layout):
    """Powers of two change no bit of a number, wherever in the range of float32 it is."""
    x, w = normal(weight, (9, 20))
    x[0, 0, 0, 0], x[0, 1, 3, 3] = 0, 40
    y = computed(x, w, layout)
    for in_x, in_w in ((-100, 0), (100, 0), (0, -90), (0, 110), (-80, 100), (90, -80), (-50, -50)):
        scaled = computed(np.ldexp(x, in_x), np.ldexp(w, in_w), layout)
        assert np.array_equal(np.ldexp(scaled, -in_x - in_w), y)
    # Each filter has a scale of its own.
    apart = np.arange(len(w), dtype=np.int32) * 3 - 60
    scaled = computed(x, np.ldexp(w, apart[:, None, None, None]), layout)
    assert np.array_equal(np.ldexp(scaled, -apart[:, None, None]), y)


@able
def test_nothing_overflows():
    """The largest numbers there are, all of one sign: no other sums are as large."""
    for weight, value in (((40, 24, 3, 3), 255), ((40, 24, 3, 3), 1.0), ((40, 3, 3, 3), 63.99)):
        x = np.full((1, weight[1], 9, 20), value, np.float32)
        w = np.full(weight, 1.9999, np.float32)
        y = computed(x, w)
        exactly = weight[1] * 9 * float(value) * 1.9999
        assert abs(y / exactly - 1).max() < 3e-3
        # Wherever the largest numbers are: they would be infinite by the scale of the others.
        for row in (0, 4, 8):
            some = x * np.float32(2.0**-14)
            some[:, :, row] = value
            outputs = [i for i in range(7) if i <= row <= i + 2]
            seen = computed(some, w)[:, :, outputs]
            assert abs(seen / exactly * 3 - 1).max() < 4e-3


@able
def test_zeros_are_exact():
    x, w = normal((40, 24, 3, 3), (9, 20))
    bias = np.arange(40, dtype=np.float32)
    for some_x, some_w in ((0 * x, w), (x, 0 * w)):
        y = computed(some_x, some_w, bias=bias)
        assert np.array_equal(y, np.broadcast_to(bias[:, None, None], y.shape))


@able
@pytest.mark.parametrize("value, layout", quick((3,), np.nan, np.inf))
def test_what_is_not_finite_stays_so_where_it_is(value, layout):
    for channels in (3, 17, 32):
        x, w = normal((20, channels, 3, 3), (9, 40))
        y = computed(x, w, layout)
        bad = x.copy()
        bad[0, 2, 4, 20] = value
        seen = computed(bad, w, layout)
        assert not np.isfinite(seen[:, :, 2:5, 18:21]).any()
        seen[:, :, 2:5, 18:21] = y[:, :, 2:5, 18:21]
        assert np.array_equal(seen, y)
        bad = w.copy()
        bad[5, 1, 1, 1] = value
        seen = computed(x, bad, layout)
        assert not np.isfinite(seen[:, 5]).any()
        assert np.array_equal(np.delete(seen, 5, 1), np.delete(y, 5, 1))


@able
@pytest.mark.parametrize("weight", [(70, 72, 3, 3), (40, 3, 3, 3)], ids=["words", "pixels"])
def test_bits_depend_on_no_block_and_no_thread(weight):
    x, w = normal(weight, (30, 31), batch=2)
    x[0] *= 3
    y = computed(x, w, padding=1)
    assert np.array_equal(computed(x, w, padding=1, threads=2), y)
    assert np.array_equal(computed(x[1:], w, padding=1), y[1:])
    cuts = set()
    for share in (2, 4, 16, 64):
        least = Conv2d(w, padding=1, **OPTIONS).plan(x.shape).workspace_bytes
        try:
            cut = computed(x, w, padding=1, workspace_limit=least // share)
        except WinogenError:  # nothing is that small
            continue
        cuts.add(share)
        assert np.array_equal(cut, y)
    assert cuts


@able
@pytest.mark.parametrize("layout", exact.LAYOUTS)
def test_bits_of_tiles_depend_on_no_range_and_no_thread(layout):
    x, w = normal((40, 23, 3, 3), (17, 20), batch=2)
    tiles = {"algorithm": "mcmr", "tile": 2, "padding": 1}
    y = computed(x, w, layout, **tiles)
    for in_x, in_w in ((-100, 0), (100, 0), (0, 110), (-80, 100), (90, -80)):
        scaled = computed(np.ldexp(x, in_x), np.ldexp(w, in_w), layout, **tiles)
        assert np.array_equal(np.ldexp(scaled, -in_x - in_w), y)
    assert np.array_equal(computed(x, w, layout, threads=4, **tiles), y)
    assert np.array_equal(computed(x[1:], w, layout, **tiles), y[1:])
    narrow = computed(x.astype(np.float16), w, layout, **tiles)
    wide = computed(x.astype(np.float16).astype(np.float32), w, layout, **tiles)
    assert np.array_equal(narrow, wide.astype(np.float16))


@able
@pytest.mark.parametrize("channels, layout", quick((), 40, 3))
def test_arrays_of_16_bits(channels, layout):
    x, w = normal((33, channels, 3, 3), (10, 13))
    x = x.astype(np.float16)
    wide = computed(x.astype(np.float32), w, layout)
    y = computed(x, w, layout)
    assert y.dtype == np.float16 and np.array_equal(y, wide.astype(np.float16))


@able
def test_a_tolerance_takes_them_where_they_are_fastest():
    def products(taps, **options):
        w = np.ones((256, 256, taps, taps), np.float32)
        conv = Conv2d(w, padding=taps // 2, threads=1, **options)
        return conv.plan((1, 256, 28, 28)).precision.products

    assert products(1, tolerance=1e-3) == "float16"
    assert products(1, tolerance=5e-4) == "float32" == products(1)
    assert products(3, tolerance=1e-3) == "int16"  # tiles have fewer products


def test_a_tolerance_takes_tiles_of_them_where_they_are_fastest():
    """On another CPU, by its plan: F(4x4) is off by 5e-3."""
    given = {"padding": 1, "name": "one", "isa": "neon+fp16"}
    for tolerance, takes in ((None, False), (1e-3, False), (1e-2, True)):
        files = standalone((1, 256, 14, 14), (256, 256, 3, 3), tolerance=tolerance, **given)
        title = files["one.c"][:2000]
        assert ("Winograd convolution, products of float16" in title) == takes
    # Who names float16 and no tolerance gets its error, not that of a tile.
    files = standalone((1, 256, 14, 14), (256, 256, 3, 3), product_dtype="float16", **given)
    assert "Winograd" not in files["one.c"][:2000] and "float16" in files["one.c"]


def test_a_cpu_without_them_says_so(monkeypatch):
    isa = next(
        (name for name in ("avx512-fp16", "avx2") if name.split("-")[0] == host_target().name), ""
    )
    if isa and "fp16" not in host_target().extensions:
        isa = host_target().name
    monkeypatch.setenv("WINOGEN_ISA", isa or "generic")
    x, w = normal((8, 8, 3, 3), (8, 8))
    with pytest.raises(Unsupported, match='product_dtype: got "float16" on .* allowed: None, "int'):
        winogen.conv2d(x, w, product_dtype="float16")
    with pytest.raises(Unsupported, match='product_dtype: got "float16" on '):
        winogen.conv2d(x, w, **OPTIONS)
    plan = Conv2d(w, stride=2, tolerance=1e-3).plan(x.shape)
    assert plan.precision.products != "float16"


def test_what_has_no_products_of_float16():
    x, w = normal((8, 8, 3, 3), (8, 8))
    with pytest.raises(Unsupported, match='got "float16" with algorithm "winograd1d"; .*, mcmr$'):
        winogen.conv2d(x, w, algorithm="winograd1d", product_dtype="float16")
    with pytest.raises(InvalidValue, match='product_dtype: got "float16" with float64 arrays'):
        winogen.conv2d(x.astype(float), w.astype(float), product_dtype="float16")


@able
def test_packed_filters_have_half_the_bytes():
    _, w = normal((64, 32, 3, 3), (8, 8))
    plans = [
        Conv2d(w, algorithm="direct", product_dtype=kind).plan((1, 32, 8, 8))
        for kind in (None, "float16")
    ]
    whole, half = (plan.packed_weight_bytes for plan in plans)
    assert half == whole // 2
    assert "float32, products float16" in str(plans[1]) and plans[1].variant == "direct_float16"
