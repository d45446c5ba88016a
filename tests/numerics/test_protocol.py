"""The measurement agrees with what was published and with arithmetic done by hand."""

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from winogen.algebra import cook_toom, nest, winograd
from winogen.codegen import transforms
from winogen.errors import WinogenError
from winogen.numerics import PRACTICAL, Direct, measure
from winogen.reports.published import DIRECT, PUBLISHED
from winogen.rounding.data import DISTRIBUTIONS, ExactReference, convolve
from winogen.rounding.formats import FORMATS

F43 = cook_toom(4, 3)


@pytest.mark.parametrize("dims", [1, 2])
def test_direct_convolution_as_published(dims):
    found = measure(Direct(1, 3), dims=dims, trials=100_000)
    assert found.mean == pytest.approx(DIRECT[dims], rel=0.03)


@pytest.mark.parametrize("m", [2, 3, 4, 5, 6, 7, 8, 10])
def test_huffman_column_as_published(m):
    found = measure(cook_toom(m, 3, PUBLISHED[m].points), trials=2500)
    assert found.mean == pytest.approx(PUBLISHED[m].error, rel=0.10)


def test_huffman_beats_naive_and_mixed_beats_both():
    f = cook_toom(8, 3, PUBLISHED[8].points)
    naive, huffman = (measure(f, order=order, trials=1500).mean for order in ("naive", "huffman"))
    mixed = measure(f, transforms="float64", trials=1500).mean
    assert mixed < 0.7 * huffman < 0.65 * naive


def test_channels_in_real_use():
    # Relative L2 error over that of sequential direct convolution, 64 channels, normal data.
    settings = {**PRACTICAL, "trials": 150, "order": "naive"}
    direct = measure(Direct(4, 3), **{**settings, "block": None}).relative_l2
    known = {2: 0.6, 4: 1.7, 6: 7.0}
    for m, ratio in known.items():
        assert measure(cook_toom(m, 3), **settings).relative_l2 / direct == pytest.approx(
            ratio, 0.2
        )


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_distributions_have_the_moments_they_state(distribution):
    d = DISTRIBUTIONS[distribution]
    rng = np.random.default_rng(3)
    filters, inputs = (draw(rng, 200_000, FORMATS["float32"]) for draw in (d.filters, d.inputs))
    assert filters.dtype == inputs.dtype == np.float32
    assert filters.var() == pytest.approx(d.filter_variance, rel=0.02)
    assert inputs.var() == pytest.approx(d.input_variance, rel=0.02)
    assert filters.mean() == pytest.approx(0, abs=0.01)
    assert inputs.mean() == pytest.approx(d.input_mean, abs=0.01)


def test_uniform_data_lie_on_the_grid_of_the_standard_library():
    values = DISTRIBUTIONS["uniform"].inputs(np.random.default_rng(0), 10_000, FORMATS["float32"])
    assert np.array_equal(values * 2.0**24, np.round(values * 2.0**24))
    assert -1 <= values.min() and values.max() < 1
    # Dense data have bits beyond it, and F(2,3), exact in its first additions, feels that.
    coarse, dense = (
        measure(cook_toom(2, 3), distribution=name).mean for name in ("uniform", "uniform-dense")
    )
    assert coarse < 0.97 * dense


@given(st.integers(1, 3), st.integers(1, 3), st.integers(0, 10**6))
def test_references_agree(channels, taps, seed):
    rng = np.random.default_rng(seed)
    g = rng.standard_normal((channels, taps, 1, 2)).astype(np.float32)
    d = rng.standard_normal((channels, taps + 2, 3, 2)).astype(np.float32)
    exact = ExactReference(g, d)
    y = convolve(g, d)
    by_hand = sum(
        Fraction(float(g[c, k, 0, 1])) * Fraction(float(d[c, k + 2, 1, 1]))
        for c in range(channels)
        for k in range(taps)
    )
    assert exact.values[2, 1, 1] == float(by_hand)
    assert exact.errors(y)[2, 1, 1] == float(Fraction(float(y[2, 1, 1])) - by_hand)


def test_float64_needs_the_exact_reference():
    exact = measure(F43, dtype="float64", trials=200)
    rough = measure(F43, dtype="float64", trials=200, reference="float64")
    single = measure(F43, trials=200)
    assert exact.settings["reference"] is None and exact.mean < 1.1 * rough.mean
    assert exact.mean == pytest.approx(single.mean * 2.0**-29, rel=0.15)


@pytest.mark.parametrize("narrow,bits", [("bfloat16", 8), ("float16", 11)])
def test_narrow_formats_scale_with_their_unit(narrow, bits):
    single = measure(F43, trials=800, distribution="uniform-dense").mean
    arithmetic = measure(F43, trials=800, dtype=narrow, distribution="uniform-dense").mean
    storage = measure(F43, trials=800, storage=narrow, distribution="uniform-dense").mean
    assert arithmetic == pytest.approx(single * 2.0 ** (24 - bits), rel=0.25)
    assert storage < 0.6 * arithmetic


def test_blocked_accumulation_is_more_accurate():
    kept, chained = (
        measure(
            cook_toom(2, 3),
            **{**PRACTICAL, "order": "naive", "channels": 256, "trials": 60},
            block=block,
        ).relative_l2
        for block in (64, None)
    )
    assert kept < 0.75 * chained


def test_one_and_two_dimensions_and_unlike_axes():
    line = measure(F43, dims=1, trials=500)
    assert line.errors.shape == (1, 4, 500) and line.outputs == 4
    both = measure(nest(cook_toom(2, 3), F43), trials=500)
    assert both.errors.shape == (2, 4, 500)
    assert line.mean < both.mean < measure(F43, trials=500).mean


def test_anything_with_the_matrices_will_do():
    transform = transforms.load(4, 3)
    assert measure(transform, trials=50).mean > 0
    moduli = winograd(4, 3, "x,x-1,x+1,x^2+1,inf")
    assert measure(moduli, trials=2000).mean < 0.5 * measure(F43, trials=2000).mean


def test_ranges_say_what_each_stage_holds():
    found = measure(cook_toom(6, 3, "0,1,-1,2,-2,3,-3,inf"), trials=300, channels=4)
    ranges = found.ranges
    assert ranges["input"] <= 1 and ranges["filter"] <= 1
    # Rows of B^T sum up to 49/3 + 14 + ... in absolute value: inputs grow before they shrink again.
    assert ranges["transformed input"] > 50 > ranges["output"]
    assert ranges["sum over channels"] > ranges["product"] / 4


def test_the_same_seed_gives_the_same_numbers():
    one, two, other = (measure(F43, trials=300, seed=s) for s in (5, 5, 6))
    assert one == two and np.array_equal(one.errors, two.errors)
    assert one.mean != other.mean


def test_confidence_interval_covers():
    truth = measure(F43, trials=40_000).mean
    inside = 0
    for seed in range(40):
        low, high = measure(F43, trials=200, seed=100 + seed).interval
        inside += low < truth < high
    assert inside >= 33  # 38 expected; fewer than 33 has a probability of 1 %


def test_results_are_plain_numbers():
    found = measure(F43, trials=20)
    assert json.loads(json.dumps(found.to_dict()))["mean"] == found.mean
    assert "relative L2" in str(found) and "F(4,3)" in str(found)
    assert found.maximum >= found.mean and found.relative_max > 0 and found.ulp_mean > 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"dims": 3},
        {"channels": 0},
        {"trials": 0},
        {"order": "sorted"},
        {"distribution": "cauchy"},
        {"dtype": "float8"},
        {"storage": "int8"},
        {"transforms": "float128"},
        {"block": 0},
        {"reference": "guess"},
        {"compiled": "fortran"},
        {"dtype": "float64", "fused": True},
    ],
)
def test_wrong_arguments_are_named(wrong):
    with pytest.raises(WinogenError, match=f"(?s){list(wrong)[-1]}.*allowed"):
        measure(F43, **{"trials": 5, **wrong})


def test_wrong_algorithms_are_named():
    for value in (None, "f4_3", F43.transpose()):
        with pytest.raises(WinogenError, match="algorithm"):
            measure(value, trials=5)
    with pytest.raises(WinogenError, match="dims"):
        measure(nest(F43, F43), dims=1)
