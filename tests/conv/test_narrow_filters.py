"""Filters in narrow numbers: exact where they hold the filters, else as `Format` rounds them."""

from fractions import Fraction

import numpy as np
import pytest
from conv import exact
from conv.exact import LAYOUTS, PLAIN, WINOGRAD

import winogen
from winogen import Conv2d
from winogen.codegen.transforms import load
from winogen.errors import InvalidValue, Unsupported
from winogen.kernels import family
from winogen.records import TRIED_FILTER_TYPES
from winogen.rounding.formats import FORMATS
from winogen.toolchain import host_targets

ALGORITHMS = PLAIN + WINOGRAD
# F(2,3): the transformed filters of weights that are multiples of 4 are integers up to 36, which
# even eight bits hold.
SMALL = dict(points="0,1,-1,inf")
TARGETS = [target.name for target in host_targets() if target.name != "sse2"]  # as generic


def options_of(algorithm):
    return {"algorithm": algorithm, **(SMALL if algorithm in WINOGRAD else {})}


def check_exact(algorithm, layout, filter_dtype, sizes, seams=None, **options):
    rng = np.random.default_rng(3)
    groups, channels, filters = sizes
    w = 4 * exact.integers(rng, (groups * filters, channels, 3, 3), 1)
    if filter_dtype == "flyte8":  # of these numbers it holds 0, +-2 and +-8
        w = w * 2
    for height, width in ((3, 3), (5, 9), (8, 7)):
        exact.check(
            exact.integers(rng, (2, groups * channels, height, width), 3),
            w,
            exact.integers(rng, groups * filters, 50),
            algorithm={**options_of(algorithm), "filter_dtype": filter_dtype, "threads": 1},
            padding=((1, 1), (1, 1)),
            groups=groups,
            layout=layout,
            seams=seams and np.random.default_rng(seams),
            **options,
        )


@pytest.mark.parametrize(
    "algorithm, isa",
    [
        pytest.param(
            algorithm,
            isa,
            marks=() if isa == TARGETS[0] else pytest.mark.thorough,
        )
        for algorithm in ALGORITHMS
        for isa in TARGETS
    ],
)
def test_integers_leave_nothing_to_round(algorithm, isa, monkeypatch):
    """On every instruction set, formats and layouts in turn."""
    monkeypatch.setenv("WINOGEN_ISA", isa)
    turn = ALGORITHMS.index(algorithm) + TARGETS.index(isa)
    name = ("float16", "flyte24", "bfloat16")[turn % 3]
    for sizes in ((1, 18, 5), (2, 3, 33)):
        check_exact(algorithm, LAYOUTS[turn % 2], name, sizes)


@pytest.mark.parametrize("filter_dtype", TRIED_FILTER_TYPES)
def test_every_format_computes(filter_dtype):
    check_exact("direct", "NCHW", filter_dtype, (1, 5, 17))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("algorithm", ("direct", "mcmr"))
def test_what_is_added_is_not_scaled(algorithm, layout):
    check_exact(algorithm, layout, "float16", (1, 18, 40), seams=5, activation="relu")


def rounded_weights(w, name):
    """The weights as packed filters of direct convolution hold them."""
    known = FORMATS[name]
    if name != "float16":
        return known.round(w).astype(np.float64)
    # Each filter is scaled by a power of two: its largest number becomes 2^14 up to 2^15.
    exponents = 15 - np.frexp(np.abs(w).reshape(len(w), -1).max(1))[1][:, None, None, None]
    return np.ldexp(known.round(np.ldexp(w.astype(float), exponents)).astype(float), -exponents)


@pytest.mark.parametrize("filter_dtype", TRIED_FILTER_TYPES)
def test_direct_filters_are_those_of_the_format(filter_dtype):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 7, 6, 6)).astype(np.float32)
    w = rng.standard_normal((9, 7, 3, 3)).astype(np.float32)
    w *= np.float32(10.0) ** rng.integers(-12, 12, (9, 1, 1, 1))  # scales apart
    y = winogen.conv2d(x, w, algorithm="direct", filter_dtype=filter_dtype)
    wanted = winogen.conv2d(x.astype(float), rounded_weights(w, filter_dtype), algorithm="direct")
    sizes = np.abs(wanted).max((0, 2, 3), keepdims=True)
    assert (np.abs(y - wanted) < 2e-6 * sizes).all()


def emulated(x, w, transform, both, filter_dtype):
    """The outputs of one tile (M, m or 1, m), from filters that numpy transforms and rounds.

    ``both``: whether both axes are transformed, or the width only.
    """
    at, g, bt = (
        np.array([[float(Fraction(x)) for x in row] for row in matrix])
        for matrix in (transform.at, transform.g, transform.bt)
    )
    u = np.einsum("mckq,bq->mckb", w.astype(float), g)
    v = np.einsum("ckq,bq->ckb", x.astype(float), bt)
    if both:
        u, v = np.einsum("mckb,ak->mcab", u, g), np.einsum("ckb,ak->cab", v, bt)
    exponents = np.zeros((len(w), 1, 1, 1), int)
    if filter_dtype == "float16":
        growth = np.ceil(1e3 * np.abs(g).sum(1).max() ** (2 if both else 1)) / 1e3
        most = np.float32(growth) * np.abs(w).max((1, 2, 3), keepdims=True)
        exponents += 15 - np.frexp(most)[1]
    rounded = FORMATS[filter_dtype].round(np.ldexp(u, exponents)).astype(float)
    products = np.einsum("mcab,cab->mab", np.ldexp(rounded, -exponents), v)
    wanted = np.einsum("mab,ia->mib", products, at if both else np.ones((1, 3)))
    return np.einsum("mib,jb->mij", wanted, at)


@pytest.mark.parametrize(
    "algorithm, filter_dtype",
    [
        pytest.param(algorithm, dtype, marks=() if algorithm == "mcmr" else pytest.mark.thorough)
        for algorithm in WINOGRAD
        for dtype in ("float16", "bfloat16", "flyte24")
    ],
)
def test_transformed_filters_are_those_of_the_format(algorithm, filter_dtype):
    rng, both = np.random.default_rng(1), algorithm != "winograd1d"
    x = rng.standard_normal((1, 5, 6 if both else 3, 6)).astype(np.float32)
    w = rng.standard_normal((3, 5, 3, 3)).astype(np.float32)
    y = winogen.conv2d(
        x, w, algorithm=algorithm, tile=4 if both else (1, 4), filter_dtype=filter_dtype
    )
    wanted = emulated(x[0], w, load(4, 3), both, filter_dtype)
    assert np.abs(y[0] - wanted).max() < 3e-6 * np.abs(wanted).max()
    exactly = winogen.conv2d(x.astype(float), w.astype(float), algorithm="direct")
    assert np.abs(y - exactly).max() > 3e-6 * np.abs(wanted).max()  # that there was a rounding


@pytest.mark.parametrize(
    "filter_dtype, half", [("float16", -11), ("bfloat16", -8), ("flyte24", -16)]
)
def test_transformed_filters_are_rounded_once_from_double(filter_dtype, half):
    """Sums a hair beyond the middle of two numbers, which a float32 would put into the middle."""
    x = np.zeros((1, 1, 4, 4), np.float32)
    x[0, 0, 0] = np.random.default_rng(2).integers(1, 9, 4)
    w = np.zeros((1, 1, 3, 3), np.float32)
    w[0, 0, 0] = 1, 2.0**half, 2.0**-40
    y = winogen.conv2d(x, w, algorithm="mcmr", tile=2, filter_dtype=filter_dtype)
    wanted = emulated(x[0], w, load(2, 3), True, filter_dtype)
    assert np.abs(y[0] - wanted).max() < 1e-6 * np.abs(wanted).max()
    twice = emulated(x[0], np.where(w < 1e-6, 0, w), load(2, 3), True, filter_dtype)
    assert np.abs(twice - wanted).max() > 3e-6 * np.abs(wanted).max()


@pytest.mark.parametrize("algorithm", ("direct", "mcmr"))
def test_float16_holds_any_range(algorithm):
    """Filters near both ends of float32, some of zeros, and images of 0 to 255 with F(6, 3)."""
    rng = np.random.default_rng(2)
    x = rng.integers(0, 256, (1, 16, 12, 12)).astype(np.float32)
    w = rng.standard_normal((24, 16, 3, 3)).astype(np.float32)
    w *= np.ldexp(np.float32(1), np.arange(-108, 108, 9))[:, None, None, None]
    w[7] = 0
    options = dict(algorithm=algorithm, tile=6 if algorithm == "mcmr" else None, padding=1)
    y = winogen.conv2d(x, w, filter_dtype="float16", **options)
    wanted = winogen.conv2d(x.astype(float), w.astype(float), algorithm="direct", padding=1)
    sizes = np.abs(wanted).max((0, 2, 3), keepdims=True)
    error = np.abs(y - wanted).max((0, 2, 3), keepdims=True)
    assert (error[sizes > 0] < 2e-2 * sizes[sizes > 0]).all() and not y[:, 7].any()
    w[3, 2, 1, 1], w[5, 0, 0, 0] = np.inf, np.nan
    y = winogen.conv2d(x, w, filter_dtype="float16", **options)
    assert not np.isfinite(y[:, (3, 5)]).all((0, 2, 3)).any()
    assert np.isfinite(y[:, [m for m in range(24) if m not in (3, 5)]]).all()


@pytest.mark.parametrize("largest", (3.4e38, 1.2e-38))
def test_filters_at_the_ends_of_float32_have_a_scale(largest):
    """Transformed filters of F(2, 3) may be more than twice as large, which no float32 holds."""
    w = np.full((1, 1, 3, 3), largest, np.float32)
    x = np.full((1, 1, 4, 4), 1e-3 if largest > 1 else 1e30, np.float32)
    y = winogen.conv2d(x, w, algorithm="mcmr", tile=2, filter_dtype="float16")
    wanted = 9 * x[0, 0, 0, 0].astype(float) * w[0, 0, 0, 0].astype(float)
    assert np.abs(y / wanted - 1).max() < 1e-3


def test_packed_bytes_are_exactly_fewer():
    w = np.ones((40, 24, 3, 3), np.float32)
    options = dict(algorithm="mcmr", tile=4, padding=1)
    whole = Conv2d(w, **options).plan((1, 24, 14, 14)).packed_weight_bytes
    for name, quarters in (("float16", 2), ("bfloat16", 2), ("flyte24", 3), ("flyte8", 1)):
        plan = Conv2d(w, filter_dtype=name, **options).plan((1, 24, 14, 14))
        assert 4 * plan.packed_weight_bytes == quarters * whole
        assert f"float32, filters {name}" in str(plan) and plan.precision.filters == name


def test_the_result_does_not_depend_on_threads():
    rng = np.random.default_rng(4)
    x = rng.standard_normal((2, 24, 10, 10)).astype(np.float32)
    w = rng.standard_normal((70, 24, 3, 3)).astype(np.float32)
    for algorithm in ("mcmr", "direct"):
        one, two = (
            winogen.conv2d(x, w, algorithm=algorithm, filter_dtype="float16", threads=threads)
            for threads in (1, 2)
        )
        assert np.array_equal(one, two)


def test_what_has_no_narrow_filters_is_refused():
    x, w = np.zeros((1, 8, 8, 8), np.float32), np.zeros((8, 8, 3, 3), np.float32)
    with pytest.raises(InvalidValue, match="filter_dtype: got 'float8'; allowed: None, .float16"):
        winogen.conv2d(x, w, filter_dtype="float8")
    with pytest.raises(InvalidValue, match='filter_dtype: got "float16" with float64 arrays'):
        winogen.conv2d(x.astype(float), w.astype(float), filter_dtype="float16")
    with pytest.raises(Unsupported, match='filter_dtype: got "float16" with algorithm "loops"'):
        winogen.conv2d(x, w, filter_dtype="float16", algorithm="loops")
    for algorithm in ALGORITHMS:
        assert any(variant.widens_filters for variant in family(algorithm))


@pytest.mark.parametrize("algorithm, tile", [("direct", None), ("mcmr", 2), ("mcmr", 4),
                                             ("mcmr", 6), ("winograd1d", 4)])  # fmt: skip
def test_errors_are_as_predicted(algorithm, tile):
    """Within a factor of two, which is what a tolerance allows for."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 64, 24, 24)).astype(np.float32)
    w = rng.standard_normal((48, 64, 3, 3)).astype(np.float32)
    exactly = winogen.conv2d(x.astype(float), w.astype(float), algorithm="direct")
    for name in ("float16", "flyte24"):
        conv = Conv2d(w, algorithm=algorithm, tile=tile, filter_dtype=name)
        error = np.abs(conv(x) - exactly).max() / np.abs(exactly).max()
        assert 0.5 < error / conv.plan(x.shape).predicted_error < 2


@pytest.mark.parametrize("layout", exact.LAYOUTS)
@pytest.mark.parametrize("filter_dtype", TRIED_FILTER_TYPES)
def test_what_is_not_finite_stays_so(filter_dtype, layout):
    """To the place and the sign: of inputs always, of filters where their type can hold it."""
    draw = np.random.default_rng(2)
    x, weight = (
        draw.integers(-2, 3, shape).astype("f4") for shape in ((1, 8, 9, 9), (16, 8, 3, 3))
    )
    without_numbers = lambda y: np.where(np.isfinite(y), 0, y)
    for array, index in ((x, (0, 3, 4, 4)), (weight, (5, 2, 1, 1))):
        kept = array[index]
        for value in (np.inf, -np.inf, np.nan):
            array[index] = value
            image = x if layout == "NCHW" else x.transpose(0, 2, 3, 1)
            options = {"padding": 1, "layout": layout, "algorithm": "direct"}
            y = winogen.conv2d(image, weight, filter_dtype=filter_dtype, **options)
            if filter_dtype == "flyte8" and array is weight:  # has its largest number instead
                assert not np.isnan(y).any()
            else:
                expected = without_numbers(winogen.conv2d(image, weight, **options))
                assert np.array_equal(without_numbers(y), expected, equal_nan=True)
        array[index] = kept
