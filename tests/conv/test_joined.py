"""Kernels that join the complex products of both axes: exact integers, counts, and predictions."""

from fractions import Fraction
from math import lcm

import numpy as np
import pytest
from conv import exact
from hypothesis import given, settings
from hypothesis import strategies as st

import winogen
from winogen import Conv2d
from winogen.algebra import join, winograd
from winogen.codegen import joining, transforms
from winogen.numerics import error_bound, estimate, measure

# n = 5 and 6 along the height and the width, one and two moduli without real roots.
KERNEL, TILE = (3, 2), (3, 5)
MODULI = ("x, x-1, x+1, x^2+1", "x-1, x+1, x^2+1, x^2+4")
WAYS = (("NCHW", "unswitch"), ("NHWC", "indirect"), ("NHWC", "buffer"))


def scale_of(sets):
    """The least integer that makes all transformed filters integers."""
    f = join(*(winograd(m, r, moduli) for m, r, moduli in zip(TILE, KERNEL, sets)))
    return f, lcm(*(Fraction(x).denominator for row in f.matrix("filter") for x in row))


@given(data=st.data())
@settings(max_examples=30)
def test_integers_are_exact(data):
    """Any size, padding, layout and border; every number on the way is an integer or a quarter."""
    f, factor = scale_of(MODULI)
    assert f.products == 5 * 6 + 5 * 2 + 6 * 1 - 2 * 1 * 2 == 42
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    batch, channels, filters, height, width = (
        data.draw(st.integers(low, high))
        for low, high in ((1, 2), (1, 20), (1, 20), (3, 12), (3, 17))
    )
    x = exact.integers(rng, (batch, channels, height, width), 2)
    w = exact.integers(rng, (filters, channels, *KERNEL), 1) * factor
    layout, border = data.draw(st.sampled_from(WAYS))
    exact.check(
        x,
        w,
        exact.integers(rng, filters, 9) * factor,
        layout=layout,
        padding=((1, 2), (2, 0)),
        padding_mode=data.draw(st.sampled_from(exact.MODES)),
        algorithm=dict(algorithm="mcmr", tile=TILE, moduli=MODULI, border=border),
    )


def test_the_plan_counts_joined_products():
    moduli = "x, x-3/4, x+3/4, x-4/3, x+4/3, x^2+1, inf"
    conv = Conv2d(np.ones((8, 4, 3, 3), np.float32), algorithm="mcmr", padding=1, moduli=moduli)
    assert conv.plan((1, 4, 12, 12)).multiplications == 78 * 4 * 4 * 8


def test_rings_that_differ_stay_nested():
    f, g = (transforms.load(3, 3, moduli=f"x, x-1, x+1, {q}") for q in ("x^2+1", "x^2+2"))
    assert joining.joined(f, g) == (f, g)
    assert [t.rows for t in joining.joined(g, g)] == [5, 5]


def test_the_estimate_is_what_is_measured():
    """And joined products are no less accurate than nested ones of the same moduli."""
    f = transforms.load(6, 3, name="f6_3_gaussian")
    options = dict(channels=64, distribution="normal", fused=True, block=32, filters="float64")
    both = joining.joined(f, f)
    estimated = estimate(both, order="program", **options).relative_l2
    assert estimated < estimate((f, f), order="program", **options).relative_l2
    assert error_bound(*both, 64) < error_bound(f, f, 64)
    measured = measure(both, trials=100, order="program", **options).relative_l2
    assert measured == pytest.approx(estimated, rel=0.1)


def test_products_of_integers_stay_nested():
    rng = np.random.default_rng(7)
    x = rng.standard_normal((1, 24, 15, 16), dtype=np.float32)
    weight = rng.standard_normal((20, 24, 3, 3), dtype=np.float32)
    way = {"padding": 1, "algorithm": "mcmr", "tile": 4, "moduli": "x, x-1, x+1, x^2+1, inf"}
    exact = winogen.conv2d(x.astype(float), weight.astype(float), padding=1, algorithm="direct")
    found = winogen.conv2d(x, weight, product_dtype="int16", **way)
    assert abs(found - exact).max() < 2e-3 * abs(exact).max()
