"""Products of integers: their error, their range, and numbers that have no steps.

Errors are compared with what rounding to steps of 1/32760 and 1/65540 of the norms of a chunk of 32
channels makes: 6e-5 of a product, of which F(4, 3) makes seven times as much. Steps of bytes are
1/127 of the largest of 64 channels, 160 times as much of a product.
"""

import numpy as np
import pytest
from conv.reference import convolve

import winogen
from winogen.conv.standalone import standalone
from winogen.errors import Unsupported, WinogenError
from winogen.toolchain import host_targets

# The largest error, of the largest output.
LARGEST = {
    "int16": {2: 2.5e-4, (3, 4): 1e-3, 4: 1e-3},
    "int8": {2: 4e-2, (3, 4): 0.16, 4: 0.16},
}
TYPES = pytest.mark.parametrize("products", LARGEST)
WAYS = pytest.mark.parametrize(
    "algorithm, products", [("mcmr", "int16"), ("winograd1d", "int16"), ("mcmr", "int8")]
)


def normal(channels, filters, size, *, groups=1, batch=1, seed=0):
    """Input and weight of a layer with a kernel of 3 x 3."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((batch, groups * channels, *size)).astype(np.float32)
    weight = rng.standard_normal((groups * filters, channels, 3, 3)).astype(np.float32)
    return x, weight


def computed(x, weight, products, algorithm="mcmr", tile=4, layout="NCHW", **options):
    """The output in NCHW."""
    options = {"padding": 1, "threads": 1, "product_dtype": products, **options}
    if layout == "NHWC":
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    if algorithm == "winograd1d" and isinstance(tile, tuple):
        tile = tile[1]
    y = winogen.conv2d(x, weight, algorithm=algorithm, tile=tile, layout=layout, **options)
    return y.transpose(0, 3, 1, 2) if layout == "NHWC" else y


def error(y, x, weight, groups=1):
    """The largest error of an output, of the largest output."""
    exact = convolve(x.astype(float), weight.astype(float), padding=((1, 1), (1, 1)), groups=groups)
    return abs(y - exact).max() / abs(exact).max()


# Channels and filters of a group, size and groups: one chunk and less, chunks and a rest, a rest
# that fills half a word, blocks of filters and a rest, rows of panels and a rest.
LAYERS = (
    ((7, 33, (9, 11)), {}),
    ((32, 16, (4, 4)), {}),
    ((40, 20, (15, 17)), {"groups": 2}),
    ((100, 50, (7, 30)), {"batch": 3}),
)


@pytest.mark.parametrize("counts, more", LAYERS, ids=["7", "32", "40", "100"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@WAYS
def test_errors_are_those_of_the_steps(counts, more, layout, algorithm, products):
    x, weight = normal(*counts, **more)
    groups = more.get("groups", 1)
    y = computed(x, weight, products, algorithm, layout=layout, groups=groups)
    # One axis makes the root of what two make.
    most = LARGEST[products][4] if algorithm == "mcmr" else 3e-4
    assert most / 1000 < error(y, x, weight, groups) < most


@pytest.mark.parametrize("tile, border", [(2, "unswitch"), ((3, 4), "indirect"), (4, "buffer")])
@TYPES
def test_tiles_and_borders(products, tile, border):
    x, weight = normal(40, 20, (10, 13))
    y = computed(x, weight, products, tile=tile, border=border, edge="direct", layout="NHWC")
    assert error(y, x, weight) < LARGEST[products][tile]


@TYPES
def test_arrays_of_16_bits(products):
    x, weight = normal(40, 20, (10, 13))
    x = x.astype(np.float16)
    y = computed(x, weight, products, layout="NHWC")
    wide = computed(x.astype(np.float32), weight, products, layout="NHWC")
    assert y.dtype == np.float16 and np.array_equal(y, wide.astype(np.float16))


@TYPES
def test_nothing_overflows(products):
    """Where U and V of a chunk are parallel, sums are as large as norms allow: almost 2^31."""
    rng, chunk = np.random.default_rng(3), 32 if products == "int16" else 64
    for channels in (np.ones(chunk), rng.standard_normal(chunk), 10.0 ** -np.arange(chunk)):
        image, kernel = rng.standard_normal((14, 14)), rng.standard_normal((3, 3))
        x = (channels[:, None, None] * image).astype(np.float32)[None]
        weight = (channels[:, None, None] * kernel).astype(np.float32)[None]
        for sign in (1, -1):
            y = computed(x, sign * weight, products)
            assert error(y, x, sign * weight) < LARGEST[products][4]


@TYPES
def test_steps_go_with_the_size_of_numbers(products):
    """Also where squares leave the range of float32."""
    x, weight = normal(40, 20, (10, 13))
    for power in (2.0**-100, 2.0**-60, 2.0**20, 2.0**90):
        scaled = computed((x * power).astype(np.float32), weight, products) / power
        assert error(scaled, x, weight) < LARGEST[products][4]
        scaled = computed(x, (weight * power).astype(np.float32), products) / power
        assert error(scaled, x, weight) < LARGEST[products][4]
    least = computed(np.full_like(x, 1e-44), weight, products)
    assert np.isfinite(least).all() and abs(least).max() < 1e-40


@TYPES
def test_zeros_are_exact(products):
    x, weight = normal(40, 20, (10, 13))
    bias = np.arange(20, dtype=np.float32)
    y = computed(0 * x, weight, products, bias=bias)
    assert np.array_equal(y, np.broadcast_to(bias[:, None, None], (1, 20, 10, 13)))
    assert not computed(x, 0 * weight, products).any()
    x[:, :, :, :7] = 0  # whole tiles of zeros beside others
    assert error(computed(x, weight, products), x, weight) < LARGEST[products][4]


@TYPES
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_so_where_it_is(products, value):
    x, weight = normal(40, 20, (12, 12))
    y = computed(x, weight, products)
    x[0, 33, 5, 5] = value  # in the tiles of rows 0 to 3 (their last input) and 4 to 7, only
    bad = computed(x, weight, products)
    assert np.isnan(bad[:, :, 4:8, 4:8]).all()
    assert np.array_equal(bad[:, :, 8:], y[:, :, 8:])
    # The first number of the tile of rows 6 and 7 is all of it that is not finite.
    assert np.isnan(computed(x, weight, products, tile=2)[:, :, 6, 6]).all()
    x, weight = normal(40, 20, (12, 12))
    weight[3, 17, 1, 1] = value
    bad = computed(x, weight, products)
    assert np.isnan(bad[:, 3]).all()
    assert np.array_equal(np.delete(bad, 3, 1), np.delete(y, 3, 1))


@TYPES
def test_bits_depend_on_no_block_and_no_thread(products):
    x, weight = normal(72, 40, (30, 30), batch=2)
    y = computed(x, weight, products)
    assert np.array_equal(computed(x, weight, products, threads=2), y)
    assert np.array_equal(computed(x[1:], weight, products), y[1:])
    small = winogen.Conv2d(weight, padding=1, algorithm="mcmr", tile=4, product_dtype=products)
    least = small.plan(x.shape).workspace_bytes
    for limit in (least // 2, least // 4):
        try:
            cut = computed(x, weight, products, workspace_limit=limit)
        except WinogenError:  # nothing is that small
            continue
        assert np.array_equal(cut, y)


# With and without instructions for the dot product.
DOTS = {"vnni", "avxvnni", "dotprod"}
ISAS = [target.name for target in host_targets()] + [
    f"{target.name}-{name}"
    for target in host_targets()
    for name in sorted(target.extensions & DOTS)
]


@pytest.mark.thorough
@WAYS
def test_every_instruction_set_multiplies_alike(algorithm, products, monkeypatch):
    x, weight = normal(72, 40, (12, 15))
    outputs = {}
    for isa in ISAS:
        monkeypatch.setenv("WINOGEN_ISA", isa)
        outputs[isa] = computed(x, weight, products, algorithm, tile=2)
        assert error(outputs[isa], x, weight) < LARGEST[products][2]
    for isa, y in outputs.items():  # sums of integers are exact, however they are made
        assert np.array_equal(y, outputs[isa.split("-")[0]])


@WAYS
@pytest.mark.parametrize("channels", [3, 40])
def test_steps_depend_on_no_other_group_and_no_other_array(algorithm, products, channels):
    """With channels last, loads of whole vectors reach into both."""
    x, weight = normal(channels, 20, (10, 13), groups=2)
    options = {"padding": 1, "algorithm": algorithm, "product_dtype": products, "tile": 4}
    options = {**options, "layout": "NHWC", "threads": 1}
    x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    alone = [
        winogen.conv2d(np.ascontiguousarray(x[..., g * channels : (g + 1) * channels]),
                       weight[g * 20 : (g + 1) * 20], **options)
        for g in range(2)
    ]  # fmt: skip
    assert np.array_equal(winogen.conv2d(x, weight, groups=2, **options), np.concatenate(alone, 3))
    x[..., channels:] = np.nan
    assert np.array_equal(winogen.conv2d(x[..., :channels], weight[:20], **options), alone[0])


@TYPES
def test_the_epilogue_comes_after_the_steps(products):
    x, weight = normal(40, 20, (10, 13))
    bias, add = np.arange(20, dtype=np.float32), np.ones((1, 20, 10, 13), np.float32)
    plain = computed(x, weight, products)
    y = computed(x, weight, products, bias=bias, add=add, activation="relu")
    assert np.allclose(y, np.maximum(plain + bias[:, None, None] + 1, 0), atol=1e-4)


@TYPES
@pytest.mark.parametrize("options", [dict(stride=2), dict(dilation=(2, 1))])
def test_strided_and_dilated_layers_have_products_of_integers(products, options):
    x, weight = normal(40, 20, (13, 14))
    way = {"padding": 1, **options}
    exact = winogen.conv2d(x.astype(float), weight.astype(float), algorithm="direct", **way)
    found = winogen.conv2d(x, weight, product_dtype=products, **way)
    assert np.abs(found - exact).max() < LARGEST[products][4] * np.abs(exact).max()
    assert (found != winogen.conv2d(x, weight, algorithm="direct", **way)).any()


def test_what_has_no_products_of_integers():
    x, weight = normal(8, 8, (8, 8))
    with pytest.raises(Unsupported, match='product_dtype: got "int16" with algorithm "direct"'):
        winogen.conv2d(x, weight, algorithm="direct", product_dtype="int16")
    with pytest.raises(WinogenError, match='product_dtype: got "int16" with float64 arrays'):
        winogen.conv2d(x.astype(float), weight.astype(float), product_dtype="int16")
    with pytest.raises(Unsupported, match=r"stride \(5, 5\).*; allowed: None$"):
        winogen.conv2d(x, weight, stride=5, product_dtype="int16")
    with pytest.raises(Unsupported, match="8 groups.*; allowed: None, or algorithm winograd1d"):
        winogen.conv2d(x, weight[:, :1], groups=8, product_dtype="int16")
    with pytest.raises(Unsupported, match='"int8" with algorithm "winograd1d"; allowed: None'):
        winogen.conv2d(x, weight, algorithm="winograd1d", product_dtype="int8")


def test_packed_filters_have_half_the_bytes_or_a_quarter():
    _, weight = normal(64, 32, (8, 8))
    plans = [
        winogen.Conv2d(weight, algorithm="mcmr", tile=4, product_dtype=kind).plan((1, 64, 8, 8))
        for kind in (None, "int16", "int8")
    ]
    whole, half, quarter = (plan.packed_weight_bytes for plan in plans)
    assert half == whole // 2 + 36 * 32 * 4  # and the steps
    assert quarter == whole // 4 + 36 * 32 * 8  # and what sums begin with


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("channels", [5, 64, 100])
def test_bytes_are_exact_where_all_steps_are_1(channels, layout):
    """The first channel of each chunk makes all of V +-127, and the last all of U +-127: no step of
    a tile or filter is any other, and what else is there are small integers.
    """
    rng = np.random.default_rng(channels)
    x = rng.integers(-31, 32, (1, channels, 14, 18)).astype(np.float32)
    weight = 4 * rng.integers(-7, 8, (19, channels, 3, 3)).astype(np.float32)
    for first in range(0, channels, 64):
        pattern = np.array([0, 0, 127, 127])  # B^T of it is +-127, wherever a tile begins
        rows, cols = (np.resize(pattern, size) for size in x.shape[2:])
        x[0, first] = np.outer(rows, cols) / 127
        weight[:, first] = 0
    x[:, -1] = 0
    weight[:, -1] = 127 * np.outer([1, 2, -1], [1, 2, -1])  # of which G makes 1, 1, -1, -1
    exact = winogen.conv2d(x, weight, algorithm="direct", threads=1)
    y = computed(x, weight, "int8", tile=2, layout=layout, padding=0)
    assert np.array_equal(y, exact) and len(np.unique(y)) > 500


@TYPES
@pytest.mark.parametrize("seed", range(6))
def test_errors_are_those_that_are_predicted(products, seed):
    rng = np.random.default_rng(seed)
    channels, filters, groups = (int(rng.integers(1, top)) for top in (150, 70, 3))
    size = tuple(int(n) for n in rng.integers(20, 34, 2))
    x, weight = normal(channels, filters, size, groups=groups, seed=seed)
    layout, tile = rng.choice(["NCHW", "NHWC"]), int(rng.choice([2, 4]))
    if layout == "NHWC":
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    options = dict(stride=int(rng.integers(1, 3)), padding=1, groups=groups, layout=str(layout))
    conv = winogen.Conv2d(
        weight, algorithm="mcmr", tile=tile, product_dtype=products, threads=1, **options
    )
    exact = winogen.conv2d(x.astype(float), weight.astype(float), algorithm="direct", **options)
    found = abs(conv(x) - exact).max() / abs(exact).max()
    assert 0.5 < found / conv.plan(x.shape).predicted_error < 2


@pytest.mark.parametrize("isa", ["avx512+vnni", "avx2+avxvnni", "neon+dotprod", "avx512", "neon"])
def test_a_tolerance_takes_bytes_where_an_instruction_multiplies_them(isa):
    for tolerance, takes in ((None, False), (1e-2, False), (5e-2, "+" in isa)):
        files = standalone(
            (1, 256, 28, 28), (256, 256, 3, 3), padding=1, tolerance=tolerance, name="one", isa=isa
        )
        assert ("products of int8" in files["one.c"][:2000]) == takes
