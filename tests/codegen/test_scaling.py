"""Moving constants into the filter transform: never wrong, never longer, shorter as promised."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from winogen.algebra import cook_toom, winograd
from winogen.codegen.scaling import lighten
from winogen.program import simplify


def output_instructions(algorithm):
    return simplify(algorithm.at, inputs="p", outputs="y").counts().instructions


@pytest.mark.parametrize(
    "m, r, before, after",
    [(4, 3, 12, 10), (3, 3, 9, 8), (5, 3, 20, 18), (7, 3, 35, 32), (8, 3, 40, 36), (6, 3, 20, 20)],
)
def test_output_transforms_get_shorter(m, r, before, after):
    plain = cook_toom(m, r)
    light, _ = lighten(plain)
    assert light.verify() and light.bt == plain.bt
    assert output_instructions(plain) <= before and output_instructions(light) <= after


def test_nothing_changes_where_nothing_is_gained():
    for plain in (cook_toom(4, 3, "0,1,-1,2,-2,inf"), winograd(2, 3, "x,x-1,x+1,inf")):
        light, factors = lighten(plain)
        assert light is plain and set(factors) == {1}


points = st.fractions(min_value=Fraction(1, 8), max_value=5, max_denominator=8)


@settings(max_examples=15)
@given(st.sets(points, min_size=1, max_size=3), st.booleans(), st.integers(2, 4))
def test_symmetric_sets_never_cost_more(pairs, zero, r):
    chosen = [0] * zero + [sign * p for p in sorted(pairs) for sign in (1, -1)] + ["inf"]
    m = len(chosen) + 1 - r
    if m < 1:
        return
    plain = cook_toom(m, r, chosen)
    light, factors = lighten(plain)
    assert light.verify() and all(factor > 0 for factor in factors)
    assert output_instructions(light) <= output_instructions(plain)
