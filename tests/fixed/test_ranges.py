"""Ranges of programs of integers: exact, reached, and never wider than interval arithmetic says."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from winogen.errors import InvalidValue
from winogen.fixed import Range, intervals, ranges, ranges_2d
from winogen.fixed.ranges import forms, signed
from winogen.program import Program, Statement, Term
from winogen.program.summation import summation

_MATRICES = st.lists(
    st.lists(st.integers(-5, 5), min_size=3, max_size=3).filter(any), min_size=1, max_size=4
)
_RANGES = st.tuples(st.integers(-9, 3), st.integers(0, 9)).map(
    lambda ends: Range(ends[0], ends[0] + ends[1])
)


@settings(max_examples=40, deadline=None)
@given(_MATRICES, _RANGES)
def test_ranges_are_what_the_ends_of_inputs_reach(matrix, inputs):
    program = summation(matrix, "pairwise")
    found = ranges(program, inputs)
    loose = intervals(program, inputs)
    corners = np.array(list(product(inputs, repeat=3)))
    for name, form in forms(program).items():
        values = corners @ np.array(form)
        assert found[name] == (values.min(), values.max())
        assert loose[name].low <= found[name].low <= found[name].high <= loose[name].high


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(st.integers(-3, 3), min_size=2, max_size=2).filter(any), min_size=2,
                max_size=3))  # fmt: skip
def test_ranges_of_two_axes_are_reached(matrix):
    program = summation(matrix, "pairwise")
    inputs = Range(-2, 1)
    b = np.array(matrix)
    tiles = np.array(list(product(inputs, repeat=4))).reshape(-1, 2, 2)
    made = ranges_2d(program, inputs)
    for place, name in enumerate(program.outputs):
        values = (b @ tiles @ b.T)[:, :, place]
        assert made[name] == (values.min(), values.max())


def test_intervals_forget_that_a_value_meets_itself():
    back = Program(
        ("d0", "d1"),
        (
            Statement("t0", (Term(1, "d0"), Term(1, "d1"))),
            Statement("v0", (Term(1, "t0"), Term(-1, "d1"))),
        ),
        ("v0",),
    )
    assert ranges(back, signed(8))["v0"] == signed(8)
    assert intervals(back, signed(8))["v0"] == (-383, 382)


@pytest.mark.parametrize("low, high", [(-1, 0), (-128, 127), (0, 0), (-129, 5), (3, 256)])
def test_bits_are_the_fewest_that_hold_a_range(low, high):
    bits = Range(low, high).bits
    assert signed(bits).low <= low and high <= signed(bits).high
    assert bits == 1 or not (signed(bits - 1).low <= low and high <= signed(bits - 1).high)


def test_fractions_are_refused():
    half = Program(("d0",), (Statement("v0", (Term(Fraction(1, 2), "d0"),)),), ("v0",))
    with pytest.raises(InvalidValue, match="program: got v0 = 1/2"):
        ranges(half, signed(8))
