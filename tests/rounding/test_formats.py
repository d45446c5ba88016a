"""Emulated formats round as the real ones do, operation by operation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from winogen.algebra import cook_toom
from winogen.errors import InvalidValue
from winogen.program.summation import summation
from winogen.rounding.formats import FORMATS, Arithmetic, format_named

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
