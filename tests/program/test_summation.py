"""Programs that add rows in a stated order compute their matrix, in that order."""

import doctest
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winogen.algebra import cook_toom
from winogen.errors import InvalidValue
from winogen.program import summation as module
from winogen.program.analysis import error_growth
from winogen.program.summation import ORDERS, summation

SCALARS = st.fractions(-9, 9, max_denominator=8) | st.sampled_from([0, 0, 1, -1])
MATRICES = st.integers(1, 7).flatmap(
    lambda width: st.lists(
        st.lists(SCALARS, min_size=width, max_size=width), min_size=1, max_size=5
    )
)


@pytest.mark.parametrize("order", ORDERS)
@given(matrix=MATRICES)
def test_every_order_computes_the_matrix(order, matrix):
    program = summation(matrix, order)
    assert program.verify([[Fraction(c) for c in row] for row in matrix])


@pytest.mark.parametrize("order", ORDERS)
def test_rows_share_nothing(order):
    # One statement adds one term, or scales one that has no sum to join.
    rows = cook_toom(6, 3).bt
    terms = [sum(c != 0 for c in row) for row in rows]
    assert summation(rows, order).counts().add == sum(count - 1 for count in terms)


def test_naive_goes_from_left_to_right():
    lines = str(summation([[1, 1, 1, 1]], "naive")).splitlines()
    assert lines[:3] == ["t0 = d0 + d1", "t1 = t0 + d2", "v0 = t1 + d3"]


def test_pairwise_is_balanced():
    assert summation([[1] * 8], "pairwise").depth() == 3
    assert summation([[1] * 5], "pairwise").depth() == 3


def test_huffman_adds_the_smallest_first():
    lines = str(summation([[8, 1, 2, 1, 4]], "huffman")).splitlines()
    # 1 + 1, then that with 2, with 4, with 8: each sum is no larger than the next term.
    assert lines[:2] == ["t0 = d1 + d3", "t1 = 2*d2 + t0"]
    assert lines[-2] == "v0 = 8*d0 + t2"


@given(matrix=MATRICES)
def test_huffman_has_the_least_total_of_partial_sums(matrix):
    # The total |coefficients| of all partial sums bounds the rounding; no other order has less.
    assert all(_total(matrix, "huffman") <= _total(matrix, other) for other in ORDERS)


def _total(matrix, order) -> Fraction:
    program = summation(matrix, order)
    sizes = {name: Fraction(1) for name in program.inputs}
    total = Fraction(0)
    for statement in program.statements:
        size = sum(abs(term.coefficient) * sizes[term.operand] for term in statement.terms)
        sizes[statement.target] = size
        if len(statement.terms) == 2:
            total += size
    return total


def test_huffman_lowers_the_growth_of_errors():
    rows = cook_toom(6, 3, "0,1,-1,2,-2,1/2,-1/2,inf").bt
    assert error_growth(summation(rows)) < error_growth(summation(rows, "naive"))


def test_zero_rows_and_single_terms_cost_nothing_or_one():
    program = summation([[0, 0], [1, 0], [0, -1], [0, 3]])
    assert program.outputs == ("0", "d0", "v2", "v3")
    assert len(program.statements) == 2


def test_irrational_rows():
    rows = cook_toom(4, 3, "0,sqrt(2)/2,-sqrt(2)/2,sqrt(2),-sqrt(2),inf").bt
    assert summation(rows).verify(rows)


@pytest.mark.parametrize("bad", [("sorted", [[1]]), ("naive", [[1, 2], [3]])])
def test_wrong_arguments_are_named(bad):
    order, matrix = bad
    with pytest.raises(InvalidValue, match="allowed"):
        summation(matrix, order)


def test_examples():
    assert doctest.testmod(module).failed == 0
