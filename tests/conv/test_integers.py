"""Products of integers: their error, their range, and numbers that have no steps.

Errors are compared with what rounding to steps of 1/32760 and 1/65540 of the norms of a chunk of 32
channels makes: 6e-5 of a product, of which F(4, 3) makes seven times as much.
"""

import numpy as np
import pytest
from conv.reference import convolve

import winogen
from winogen.errors import Unsupported, WinogenError
from winogen.toolchain import host_targets

# The largest error, of the largest output.
LARGEST = {2: 2.5e-4, (3, 4): 1e-3, 4: 1e-3}


def normal(channels, filters, size, *, groups=1, batch=1, seed=0):
    """Input and weight of a layer with a kernel of 3 x 3."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((batch, groups * channels, *size)).astype(np.float32)
    weight = rng.standard_normal((groups * filters, channels, 3, 3)).astype(np.float32)
    return x, weight


def computed(x, weight, algorithm="mcmr", tile=4, layout="NCHW", **options):
    """The output in NCHW."""
    options = {"padding": 1, "threads": 1, **options}
    if layout == "NHWC":
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    if algorithm == "winograd1d" and isinstance(tile, tuple):
        tile = tile[1]
    y = winogen.conv2d(
        x, weight, algorithm=algorithm, tile=tile, layout=layout, product_dtype="int16", **options
    )
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
@pytest.mark.parametrize("algorithm", ["mcmr", "winograd1d"])
def test_errors_are_those_of_the_steps(counts, more, layout, algorithm):
    x, weight = normal(*counts, **more)
    groups = more.get("groups", 1)
    y = computed(x, weight, algorithm, layout=layout, groups=groups)
    # One axis makes the root of what two make.
    assert 1e-6 < error(y, x, weight, groups) < (LARGEST[4] if algorithm == "mcmr" else 3e-4)


@pytest.mark.parametrize("tile, border", [(2, "unswitch"), ((3, 4), "indirect"), (4, "buffer")])
def test_tiles_and_borders(tile, border):
    x, weight = normal(40, 20, (10, 13))
    y = computed(x, weight, tile=tile, border=border, edge="direct", layout="NHWC")
    assert error(y, x, weight) < LARGEST[tile]


def test_arrays_of_16_bits():
    x, weight = normal(40, 20, (10, 13))
    x = x.astype(np.float16)
    y = computed(x, weight, layout="NHWC")
    wide = computed(x.astype(np.float32), weight, layout="NHWC")
    assert y.dtype == np.float16 and np.array_equal(y, wide.astype(np.float16))


def test_nothing_overflows():
    """Where U and V of a chunk are parallel, sums are as large as norms allow: almost 2^31."""
    rng = np.random.default_rng(3)
    for channels in (np.ones(32), rng.standard_normal(32), 10.0 ** -np.arange(32)):
        image, kernel = rng.standard_normal((14, 14)), rng.standard_normal((3, 3))
        x = (channels[:, None, None] * image).astype(np.float32)[None]
        weight = (channels[:, None, None] * kernel).astype(np.float32)[None]
        for sign in (1, -1):
            assert error(computed(x, sign * weight), x, sign * weight) < LARGEST[4]


def test_steps_go_with_the_size_of_numbers():
    """Also where squares leave the range of float32."""
    x, weight = normal(40, 20, (10, 13))
    for power in (2.0**-100, 2.0**-60, 2.0**20, 2.0**90):
        scaled = computed((x * power).astype(np.float32), weight) / power
        assert error(scaled, x, weight) < LARGEST[4]
        scaled = computed(x, (weight * power).astype(np.float32)) / power
        assert error(scaled, x, weight) < LARGEST[4]
    least = computed(np.full_like(x, 1e-44), weight)
    assert np.isfinite(least).all() and abs(least).max() < 1e-40


def test_zeros_are_exact():
    x, weight = normal(40, 20, (10, 13))
    bias = np.arange(20, dtype=np.float32)
    assert np.array_equal(
        computed(0 * x, weight, bias=bias), np.broadcast_to(bias[:, None, None], (1, 20, 10, 13))
    )
    assert not computed(x, 0 * weight).any()
    x[:, :, :, :7] = 0  # whole tiles of zeros beside others
    assert error(computed(x, weight), x, weight) < LARGEST[4]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_so_where_it_is(value):
    x, weight = normal(40, 20, (12, 12))
    y = computed(x, weight)
    x[0, 33, 5, 5] = value  # in the tiles of rows 0 to 3 (their last input) and 4 to 7, only
    bad = computed(x, weight)
    assert not np.isfinite(bad[:, :, 4:8, 4:8]).any()
    assert np.array_equal(bad[:, :, 8:], y[:, :, 8:])
    x, weight = normal(40, 20, (12, 12))
    weight[3, 17, 1, 1] = value
    bad = computed(x, weight)
    assert not np.isfinite(bad[:, 3]).any()
    assert np.array_equal(np.delete(bad, 3, 1), np.delete(y, 3, 1))


def test_bits_depend_on_no_block_and_no_thread():
    x, weight = normal(72, 40, (30, 30), batch=2)
    y = computed(x, weight)
    assert np.array_equal(computed(x, weight, threads=2), y)
    assert np.array_equal(computed(x[1:], weight), y[1:])
    small = winogen.Conv2d(weight, padding=1, algorithm="mcmr", tile=4, product_dtype="int16")
    least = small.plan(x.shape).workspace_bytes
    for limit in (least // 2, least // 4):
        try:
            cut = computed(x, weight, workspace_limit=limit)
        except WinogenError:  # nothing is that small
            continue
        assert np.array_equal(cut, y)


# With and without instructions for the dot product.
DOTS = {"vnni", "avxvnni"}
ISAS = [target.name for target in host_targets()] + [
    f"{target.name}-{name}"
    for target in host_targets()
    for name in sorted(target.extensions & DOTS)
]


@pytest.mark.thorough
@pytest.mark.parametrize("algorithm", ["winograd1d", "mcmr"])
def test_every_instruction_set_multiplies_alike(algorithm, monkeypatch):
    x, weight = normal(72, 40, (12, 15))
    outputs = {}
    for isa in ISAS:
        monkeypatch.setenv("WINOGEN_ISA", isa)
        outputs[isa] = computed(x, weight, algorithm, tile=2)
        assert error(outputs[isa], x, weight) < LARGEST[2]
    for isa, y in outputs.items():  # sums of integers are exact, however they are made
        assert np.array_equal(y, outputs[isa.split("-")[0]])


@pytest.mark.parametrize("algorithm", ["mcmr", "winograd1d"])
@pytest.mark.parametrize("channels", [3, 40])
def test_steps_depend_on_no_other_group_and_no_other_array(algorithm, channels):
    """With channels last, loads of whole vectors reach into both."""
    x, weight = normal(channels, 20, (10, 13), groups=2)
    options = {"padding": 1, "algorithm": algorithm, "product_dtype": "int16", "tile": 4}
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


def test_the_epilogue_comes_after_the_steps():
    x, weight = normal(40, 20, (10, 13))
    bias, add = np.arange(20, dtype=np.float32), np.ones((1, 20, 10, 13), np.float32)
    plain = computed(x, weight)
    y = computed(x, weight, bias=bias, add=add, activation="relu")
    assert np.allclose(y, np.maximum(plain + bias[:, None, None] + 1, 0), atol=1e-4)


@pytest.mark.parametrize("options", [dict(stride=2), dict(dilation=(2, 1))])
def test_strided_and_dilated_layers_have_products_of_integers(options):
    x, weight = normal(40, 20, (13, 14))
    way = {"padding": 1, **options}
    exact = winogen.conv2d(x.astype(float), weight.astype(float), algorithm="direct", **way)
    found = winogen.conv2d(x, weight, product_dtype="int16", **way)
    assert np.abs(found - exact).max() < 1e-3 * np.abs(exact).max()
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


def test_packed_filters_have_half_the_bytes():
    _, weight = normal(64, 32, (8, 8))
    plans = [
        winogen.Conv2d(weight, algorithm="mcmr", tile=4, product_dtype=kind).plan((1, 64, 8, 8))
        for kind in (None, "int16")
    ]
    whole, half = (plan.packed_weight_bytes for plan in plans)
    assert half == whole // 2 + 36 * 32 * 4  # and the steps
