"""Filters of rank 1 run as two passes: when, how exactly, and what plans say of it."""

import numpy as np
import pytest
from conv.reference import convolve

import winogen
from winogen.conv.problem import Layer
from winogen.conv.request import Request
from winogen.conv.separable import distance, factors
from winogen.errors import Unsupported


def bells(filters=1, taps=(15, 13), dtype="float32"):
    """Filters that are outer products, rounded once."""
    column, row = (np.exp(-(np.linspace(-2, 1 + filters, n) ** 2)) for n in taps)
    each = [np.outer(column ** (1 + f), row) for f in range(filters)]
    return np.array(each, dtype)[:, None]


def looked(weight, asked=None, **options):
    layer = Layer.of(weight.shape, weight.dtype.name, **options)
    return distance(layer, Request.of(layer, **(asked or {})), weight)


def residual(weight, part):
    """The filters with a second singular value that is so large a part of their norm."""
    (filter,) = weight[:, 0].astype(np.float64)
    u, values, v = np.linalg.svd(filter)
    size = part / np.sqrt(1 - part**2) * values[0]
    return (filter + size * np.outer(u[:, 1], v[1]))[None, None]


def test_rank_one_is_up_to_rounding():
    for dtype, unit in (("float32", 2.0**-23), ("float64", 2.0**-52)):
        assert looked(bells(3, dtype=dtype), groups=3) == 0
        more = residual(bells(dtype="float64"), 8 * unit).astype(dtype)
        assert looked(more) is None
    assert looked(residual(bells(dtype="float64"), 2.0**-24)) is None  # of float64 numbers


@pytest.mark.parametrize("part", [1e-5, 1e-3])
def test_a_tolerance_allows_more(part):
    weight = residual(bells(dtype="float64"), part)
    assert looked(weight) is None and looked(weight, {"tolerance": part / 2}) is None
    assert looked(weight, {"tolerance": 4 * part}) == pytest.approx(part, rel=1e-3)


def test_who_is_not_looked_at():
    flat = np.ones((4, 1, 9, 9), np.float32)
    assert looked(flat, groups=4) == 0
    assert looked(np.ones((4, 2, 9, 9), np.float32), groups=2) is None  # sums over channels
    assert looked(flat[..., :3, :3], groups=4) is None and looked(flat[..., :1], groups=4) is None
    assert looked(flat, {"algorithm": "direct"}, groups=4) is None
    assert looked(flat, {"tile": 2}, groups=4) is None
    assert looked(np.full_like(flat, np.nan), groups=4) is None
    assert looked(np.zeros_like(flat), groups=4) == 0
    rng = np.random.default_rng(0)
    assert looked(rng.standard_normal(flat.shape).astype("f"), {"tolerance": 0.5}, groups=4) is None


def test_factors_are_rounded_once():
    weight = bells(2)
    columns, rows = factors(weight)
    assert columns.shape == (2, 1, 15, 1) and rows.shape == (2, 1, 1, 13)
    assert np.abs(columns * rows - weight).max() <= 2 * 2.0**-23 * np.abs(weight).max()


OPTIONS = [
    dict(padding=((7, 4), (3, 6)), padding_mode="reflect", activation="relu"),
    dict(stride=(2, 1), dilation=(1, 2), padding=5),
    dict(layout="NHWC", padding=7, padding_mode="circular"),
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("multiplier", [1, 2])
def test_results(options, multiplier):
    rng = np.random.default_rng(0)
    weight, bias = bells(3 * multiplier), rng.standard_normal(3 * multiplier).astype("f")
    x = rng.standard_normal((2, 3, 60, 70)).astype("f")
    if options.get("layout") == "NHWC":
        x = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    conv = winogen.Conv2d(weight, bias, groups=3, threads=1, **options)
    plan = conv.plan(x.shape)
    assert "in two passes: 15x1 by " in plan.variant and "in two passes" in str(plan)
    padding = options.get("padding", 0)
    sides = padding if isinstance(padding, tuple) else ((padding, padding),) * 2
    exact = convolve(x, weight, bias, groups=3, **{**options, "padding": sides})
    y = conv(x)
    assert np.abs(y - exact).max() / np.abs(exact).max() < 4 * plan.predicted_error
    assert (y == winogen.conv2d(x, weight, bias, groups=3, threads=2, **options)).all()
    assert (y == conv(x, out=np.empty_like(y), add_after=np.zeros_like(y))).all()


def test_the_residual_counts():
    """It is in the predicted error, and in what is measured."""
    weight = residual(bells(dtype="float64"), 1e-3).astype("f")
    x = np.random.default_rng(0).standard_normal((1, 1, 90, 90)).astype("f")
    exact = convolve(x, weight)
    conv = winogen.Conv2d(weight, threads=1, tolerance=1e-2)
    plan = conv.plan(x.shape)
    error = np.abs(conv(x) - exact).max() / np.abs(exact).max()
    assert 1e-3 <= plan.predicted_error < 1.1e-3 and 2e-4 < error < 3e-3
    assert (
        "two passes" not in winogen.Conv2d(weight, threads=1, tolerance=1e-4).plan(x.shape).variant
    )


def test_memory_and_limits():
    weight = bells()
    x = np.random.default_rng(0).standard_normal((1, 1, 60, 70)).astype("f")
    plan = winogen.Conv2d(weight, threads=1).plan(x.shape)
    between = (60 - 14) * 70 * 4
    assert plan.workspace_bytes >= between
    limited = winogen.Conv2d(weight, threads=1, workspace_limit=between - 1).plan(x.shape)
    assert limited.workspace_bytes < between and "two passes" not in limited.variant


def test_16_bit_images_take_the_usual_kernels():
    weight = bells()
    x = np.random.default_rng(0).standard_normal((1, 1, 60, 70)).astype(np.float16)
    conv = winogen.Conv2d(weight, threads=1)
    assert "two passes" not in conv.plan(x.shape, "float16").variant
    exact = convolve(x, weight)
    assert np.abs(conv(x) - exact).max() / np.abs(exact).max() < 2.0**-10
    with pytest.raises(Unsupported, match='"fft" with float16 arrays'):
        winogen.Conv2d(weight, algorithm="fft")(x)
