"""Formats with few bits of exponent: estimates count what is too small or too large for them."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from winogen.algebra import cook_toom, join, winograd
from winogen.errors import InvalidValue
from winogen.numerics import Direct, Distribution, estimate, measure
from winogen.records import Precision
from winogen.rounding.formats import FORMATS

FAR = "1/4, -1/4, 5/7, -5/7, 7/5, -7/5, 4, -4"  # the best of F(6, 3) in float32
CIRCLE = winograd(4, 3, "x, x-1, x+1, x^2+1, inf")


def scaled(size: float) -> Distribution:
    """Inputs of this standard deviation, and filters of 1."""
    return Distribution.of(
        lambda rng, shape: size * rng.standard_normal(shape), variance=size**2, filters="normal"
    )


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_the_range_of_a_format(name):
    f = FORMATS[name]
    if name != "bfloat16":
        known = np.finfo(name)
        figures = float(known.smallest_normal), float(known.smallest_subnormal), float(known.max)
        assert (f.smallest_normal, f.step, f.largest) == figures
    assert f.round(f.largest) == f.largest and f.round(f.step) == f.step
    assert f.round(f.step * 0.49) == 0


def test_subnormal_filters_are_expected_and_measured():
    f = cook_toom(6, 3, FAR)
    seen, expected = (way(f, dtype="float16") for way in (measure, estimate))
    assert seen.relative_l2 > 0.5  # useless
    assert expected.relative_l2 == pytest.approx(seen.relative_l2, rel=0.3)
    for notes in (seen.notes, expected.notes):
        (note,) = notes
        assert note.startswith("transformed filter: ") and "balanced() or scale()" in note
    assert "note" in str(seen) and seen.to_dict()["notes"] == seen.notes


def test_balanced_rows_cure_it():
    f = cook_toom(6, 3, FAR).balanced()
    assert f.verify()
    seen, expected = (way(f, dtype="float16") for way in (measure, estimate))
    assert not seen.notes and not expected.notes and seen.relative_l2 < 0.014
    assert expected.relative_l2 == pytest.approx(seen.relative_l2, rel=0.1)
    # Elsewhere powers of 2 change nothing, unless sums are sorted by the size of their constants.
    plain = estimate(cook_toom(6, 3, FAR), order="naive").mean
    assert estimate(f, order="naive").mean == pytest.approx(plain, rel=1e-12)


LOW = cook_toom(4, 3).scale(filter=[Fraction(1, 2**17)] * 6, input=[2**12] * 6)
LOW_INPUTS = cook_toom(4, 3).scale(input=[Fraction(1, 2**20)] * 6, filter=[2**12] * 6)
# Whole numbers, so that this input transform loses nothing, and large products.
LOW_OUTPUTS = cook_toom(4, 3, "0, 1, -1, 2, -2, inf").scale(
    input=[96] * 6, output=[Fraction(1, 96)] * 6
)
STAGES = {
    "filters as they are stored": (cook_toom(6, 3, FAR), {"filters": "float64"}),
    "inputs as they are stored": ((LOW_INPUTS, cook_toom(1, 1)), {"transforms": "float32"}),
    "filters along the height": ((LOW, cook_toom(1, 1)), {}),
    "filters along the width": ((cook_toom(1, 1), LOW), {}),
    "inputs along the height": ((LOW_INPUTS, cook_toom(1, 1)), {}),
    "inputs along the width": ((cook_toom(1, 1), LOW_INPUTS), {}),
    "products": (Direct(2, 3), {"distribution": scaled(1e-6)}),
    "outputs along the height": (
        (LOW_OUTPUTS, cook_toom(1, 1)),
        {"distribution": scaled(1e-6), "filters": "float64"},
    ),
    "outputs along the width": (
        (cook_toom(1, 1), LOW_OUTPUTS),
        {"distribution": scaled(1e-6), "filters": "float64"},
    ),
}


@pytest.mark.parametrize("name", STAGES)
def test_every_stage_counts(name):
    algorithm, options = STAGES[name]
    seen = measure(algorithm, dtype="float16", trials=600, **options).relative_l2
    expected = estimate(algorithm, dtype="float16", **options).relative_l2
    assert 0.01 < expected < 1 and expected == pytest.approx(seen, rel=0.25)


SETTINGS = [
    {"filters": "float64"},
    {"fused": True, "channels": 16, "distribution": "normal"},
    {"distribution": "relu"},
    {"transforms": "float32"},
    {"dims": 1},
    {"order": "naive", "distribution": scaled(1e-5)},
]


@given(data=st.data())
@settings(max_examples=25)
def test_random_scalings_within_a_factor_of_2(data):
    """Rows scaled by any powers of 2, so that numbers underflow somewhere, or nowhere."""
    f = data.draw(st.sampled_from([cook_toom(2, 3), cook_toom(4, 3), CIRCLE]))
    powers = st.integers(-9, 5).map(lambda k: Fraction(2) ** k)
    factors = st.lists(powers, min_size=f.products, max_size=f.products)
    f = f.scale(filter=data.draw(factors), input=data.draw(factors))
    options = {"dtype": "float16", **data.draw(st.sampled_from(SETTINGS))}
    seen = measure(f, trials=200, **options)
    expected = estimate(f, **options)
    if math.inf in (seen.mean, expected.mean):
        return
    # Where next to nothing is left of some products, errors are no longer independent.
    allowed = 2 if seen.relative_l2 < 0.3 else 8
    assert seen.relative_l2 / allowed < expected.relative_l2 < seen.relative_l2 * allowed


@pytest.mark.parametrize("algorithm", [Direct(4, 3), join(CIRCLE, CIRCLE), (CIRCLE, CIRCLE)])
@pytest.mark.parametrize("size", [1e-6, 1e-4])
def test_small_data(algorithm, size):
    options = {"dtype": "float16", "distribution": scaled(size)}
    seen = measure(algorithm, trials=150, **options)
    expected = estimate(algorithm, **options)
    assert expected.relative_l2 == pytest.approx(seen.relative_l2, rel=0.2)
    assert estimate(algorithm).notes == ()
    if size == 1e-6:
        assert seen.relative_l2 > 5 * estimate(algorithm, dtype="float16").relative_l2
        assert seen.notes and expected.notes


@pytest.mark.parametrize("algorithm", [cook_toom(4, 3), Direct(4, 3), join(CIRCLE, CIRCLE)])
def test_what_overflows_is_infinite(algorithm):
    options = {"dtype": "float16", "distribution": scaled(9000.0)}
    seen = measure(algorithm, trials=50, **options)
    expected = estimate(algorithm, **options)
    assert seen.mean == seen.half_width == seen.relative_l2 == seen.relative_max == math.inf
    assert expected.mean == expected.relative_l2 == math.inf
    for notes in (seen.notes, expected.notes):
        assert "exceed the largest of float16, 6.55e+04" in notes[0]


def test_constants_overflow():
    f = cook_toom(2, 3).scale(filter=[2**17] * 4)
    for way in (measure, estimate):
        found = way(f, dtype="float16")
        assert found.mean == math.inf and found.notes[0].startswith("transformed filter: numbers")


def test_kernels_scale_what_they_narrow():
    f = cook_toom(6, 3, FAR)
    precision = Precision.of("float32", "float16")
    assert estimate(f, precision=precision).notes == ()
    assert estimate(f, precision=precision).relative_l2 < 0.01


def test_data_that_do_not_fit_are_refused():
    with pytest.raises(
        InvalidValue, match=r"inputs: got numbers of up to 1e\+05; allowed: .*6.55e"
    ):
        measure(cook_toom(2, 3), dtype="float16", inputs=np.full((1, 1, 4, 4), 1e5))
    with pytest.raises(InvalidValue, match="distribution: got .* numbers above 6.55e"):
        measure(cook_toom(2, 3), dtype="float16", distribution=scaled(1e6), trials=10)


def test_integers_are_elsewhere():
    for way in (measure, estimate):
        with pytest.raises(InvalidValue, match=r"dtype: got 'int8'; .*float16.*winogen\.fixed"):
            way(cook_toom(2, 3), dtype="int8")
