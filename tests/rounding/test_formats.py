"""Emulated formats round as the real ones do, operation by operation."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from winogen.algebra import cook_toom
from winogen.errors import InvalidValue
from winogen.program.summation import summation
from winogen.rounding.formats import FORMATS, ROUNDINGS, Arithmetic, format_named

FLOATS = st.floats(-1e4, 1e4, width=32)


def narrow(name, values):
    return FORMATS[name].round(np.array(values, np.float32))


@given(st.lists(FLOATS, min_size=1, max_size=20))
def test_float16_is_numpys(values):
    assert np.array_equal(narrow("float16", values), np.float32(values).astype(np.float16))


@given(FLOATS)
def test_bfloat16_is_the_nearest_of_its_neighbours(value):
    rounded = float(narrow("bfloat16", value))
    # A bfloat16 is a float32 whose lower 16 bits are 0; around any float32 there are two.
    bits = int(np.float32(value).view(np.uint32))
    below, above = (
        float(np.uint32(b & 0xFFFF0000).view(np.float32)) for b in (bits, bits + 0x10000)
    )
    assert rounded in (below, above)
    assert abs(rounded - value) == min(abs(below - value), abs(above - value))
    if abs(below - value) == abs(above - value):
        assert int(np.float32(rounded).view(np.uint32)) >> 16 & 1 == 0  # ties go to even


@given(st.integers(0x3000, 0x4F00))
def test_bfloat16_ties_go_to_even(upper):
    value = np.uint32(upper << 16 | 0x8000).view(np.float32)
    rounded = int(narrow("bfloat16", value).view(np.uint32)) >> 16
    assert rounded == upper + upper % 2


def test_infinities_and_nan_survive():
    for name in ("bfloat16", "float16"):
        values = narrow(name, [np.inf, -np.inf, np.nan])
        assert values[0] == np.inf and values[1] == -np.inf and np.isnan(values[2])


@given(st.lists(FLOATS, min_size=2, max_size=2))
def test_operations_round_once(values):
    x, y = narrow("float16", values)
    arithmetic = Arithmetic(FORMATS["float16"])
    with np.errstate(over="ignore"):
        assert arithmetic.add(x, y) == np.float16(x) + np.float16(y)
        assert arithmetic.multiply(x, y) == np.float16(x) * np.float16(y)


def test_fused_multiply_add_rounds_once():
    x = np.float32(1 + 2.0**-12)
    plain, fused = (Arithmetic(FORMATS["float32"], f) for f in (False, True))
    assert plain.multiply_add(x, x, np.float32(-1)) == np.float32(2.0**-11)
    assert fused.multiply_add(x, x, np.float32(-1)) == np.float32(2.0**-11 + 2.0**-24)
    with pytest.raises(InvalidValue, match="fused"):
        Arithmetic(FORMATS["float64"], True)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_programs_run_as_the_evaluator_runs_them(name):
    program = summation(cook_toom(4, 3).bt)
    values = np.random.default_rng(0).standard_normal((6, 50)).astype(name)
    assert np.array_equal(Arithmetic(FORMATS[name]).run(program, values), program.run(values))


def test_fused_programs_are_closer_to_the_truth():
    program = summation(cook_toom(6, 3).bt)
    values = np.random.default_rng(0).standard_normal((8, 2000)).astype(np.float32)
    truth = program.run(values.astype(np.float64))
    plain, fused = (
        np.abs(Arithmetic(FORMATS["float32"], f).run(program, values) - truth).mean()
        for f in (False, True)
    )
    assert 0.5 * plain < fused < 0.95 * plain


def test_ulp_is_the_spacing():
    values = np.float32([1, 1.5, 2, 0.75, 1000])
    assert np.array_equal(FORMATS["float32"].ulp(values), np.spacing(values))


def test_names():
    assert format_named(np.float32).name == "float32"
    with pytest.raises(InvalidValue, match="storage: got 'fp8'; allowed: bfloat16"):
        format_named("fp8", "storage")


def all_codes(size):
    """Every number of so many bytes: its bytes, lowest first."""
    codes = np.arange(1 << 8 * size, dtype="<u4")
    return np.ascontiguousarray(codes[:, None].view(np.uint8)[:, :size])


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize(
    "name",
    [
        "float16",
        "bfloat16",
        pytest.param("flyte24", marks=pytest.mark.thorough),  # has 2^24 codes
        "flyte16",
        "flyte8",
    ],
)
def test_every_code_survives(name, rounding):
    known = FORMATS[name].rounds(rounding)
    codes = all_codes(known.size)[:: 97 if (name, rounding) == ("flyte24", "cut") else 1]
    values = known.unpack(codes)
    same = known.pack(values)
    assert np.array_equal(same[~np.isnan(values)], codes[~np.isnan(values)])
    nan = known.unpack(same[np.isnan(values)])  # made quiet, and never infinite
    assert np.isnan(nan).all() and (nan.size > 0) == (name != "flyte8")


@pytest.mark.parametrize("name", ["int16", "int8"])
def test_integers_are_rounded_and_saturated(name):
    known = FORMATS[name]
    limits = np.iinfo(name)
    values = np.arange(limits.min, limits.max + 1)
    assert np.array_equal(known.unpack(known.pack(values)), values)
    assert known.round([0.5, 1.5, -2.5, 1e9, -1e9, np.nan]).tolist() == [
        0, 2, -2, limits.max, limits.min, 0,
    ]  # fmt: skip
    assert known.rounds("cut").round([1.9, -1.9]).tolist() == [1, -1]


@pytest.mark.parametrize(
    ("name", "nearest", "cut"),
    [
        ("flyte24", 2.0**-16, 2.0**-15),
        ("bfloat16", 2.0**-8, 2.0**-7),
        ("float16", 2.0**-11, 2.0**-10),
        ("flyte8", 1.0, 0.75),
    ],
)
def test_relative_errors_reach_their_bounds(name, nearest, cut):
    values = np.geomspace(1, 16, 200_001).astype(np.float32)
    for rounding, most in (("even", nearest), ("cut", cut)):
        error = np.abs(FORMATS[name].rounds(rounding).round(values) / values.astype(float) - 1)
        assert 0.95 * most < error.max() <= most


@pytest.mark.parametrize("name", ["float16", "bfloat16", "flyte24"])
@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=20))
def test_doubles_are_rounded_once(name, values):
    known = FORMATS[name]
    got = known.unpack(known.pack(np.array(values, np.float64))).astype(np.float64)
    lower = known.unpack(known.rounds("cut").pack(np.array(values, np.float64)))
    step = known.pack(lower).astype(np.int64) @ 256 ** np.arange(known.size) + 1
    upper = known.unpack(step.astype("<i8")[:, None].view(np.uint8)[:, : known.size])
    with np.errstate(invalid="ignore"):  # the step beyond infinity
        lower, upper = lower.astype(float), upper.astype(float)
    for value, result, low, high in zip(values, got, lower, upper):
        if not np.isfinite(high):  # the step to infinity counts as large as the last one
            continue
        below, above = Fraction(value) - Fraction(low), Fraction(high) - Fraction(value)
        even = known.pack(low)[0] % 2 == 0
        assert abs(low) <= abs(value) <= abs(high)
        assert result == (low if abs(below) < abs(above) or (below == above and even) else high)


def test_rounding_through_float32_would_round_twice():
    # Just above the middle between two numbers, by less than a float32 can see.
    for name, exponent in (("float16", -11), ("bfloat16", -8), ("flyte24", -16)):
        value = 1 + 2.0**exponent + 2.0**-40
        assert FORMATS[name].round(np.float64(value)) == 1 + 2.0 ** (exponent + 1)
        assert FORMATS[name].round(np.float32(value)) == 1


@pytest.mark.parametrize("name", ["float16", "bfloat16", "flyte24"])
def test_what_no_format_rounds(name):
    known = FORMATS[name]
    signalling = np.array([0x7F800001, 0xFF800001], np.uint32).view(np.float32)
    assert np.isnan(known.unpack(known.pack(signalling))).all()  # the quiet bit is set, then cut
    values = np.array([0.0, -0.0, np.inf, -np.inf, 1e300, -1e300, 1e-300, -1e-300])
    wanted = np.array([0.0, -0.0, np.inf, -np.inf, np.inf, -np.inf, 0.0, -0.0])
    got = known.unpack(known.pack(values)).astype(float)
    assert np.array_equal(got, wanted) and np.array_equal(np.signbit(got), np.signbit(wanted))
    cut = known.rounds("cut")
    assert np.isfinite(cut.unpack(cut.pack(1e300))) and cut.round(np.inf) == np.inf


def test_flyte8_has_neither_infinity_nor_nan():
    known = FORMATS["flyte8"]
    for name in (np.inf, 1e300, np.nan):
        assert known.round(name) == 2.0**127
    assert np.array_equal(known.round([0.0, 3.0, -0.3]), [0.0, 2.0, -0.5])
    assert np.array_equal(known.rounds("cut").round([7.9, -1.99]), [2.0, -0.5])


def test_bfloat16_is_a_rounded_flyte16_and_ml_dtypes_own():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.random.default_rng(0).integers(0, 1 << 32, 100_000, np.uint32).view(np.float32)
    values = values[~np.isnan(values)]
    theirs = values.astype(ml_dtypes.bfloat16).view(np.uint8).reshape(-1, 2)
    assert np.array_equal(FORMATS["bfloat16"].pack(values), theirs)
    assert np.array_equal(FORMATS["flyte16"].pack(values), theirs)


def test_flytes_of_float64():
    values = np.random.default_rng(0).standard_normal(1000)
    for size in range(1, 8):
        known = FORMATS[f"flyte{8 * size}d"]
        packed = known.pack(values)
        assert packed.shape == (1000, size)
        back = known.unpack(packed)
        # The last one has lost three bits of the exponent.
        assert size == 1 or np.abs(back / values - 1).max() <= known.unit
        assert np.array_equal(known.pack(back), packed)
        cut = values.view(np.uint64) >> np.uint64(64 - 8 * size) << np.uint64(64 - 8 * size)
        assert np.array_equal(known.rounds("cut").round(values), cut.view(np.float64))


def test_wrong_formats_are_refused():
    with pytest.raises(InvalidValue, match="rounding: got 'up'; allowed: even, cut"):
        FORMATS["float16"].rounds("up")
    with pytest.raises(InvalidValue, match=r"packed: got shape \(2,\); allowed: \(…, 3\)"):
        FORMATS["flyte24"].unpack(np.zeros(2, np.uint8))
