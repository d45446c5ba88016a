"""Algorithms of integers by adders: equal to direct convolution, signs moved between transforms."""

from dataclasses import replace

import numpy as np
import pytest

from winogen import cook_toom, winograd
from winogen.errors import InvalidValue, VerificationError
from winogen.fixed import integral, of_adders
from winogen.fixed.adders import search, with_programs
from winogen.program import adder_program
from winogen.program.adders import adders, of_shifts

GAUSSIAN = "x, x-1, x+1, x^2+1, inf"


@pytest.mark.parametrize("make", [lambda: cook_toom(3, 2), lambda: winograd(4, 3, GAUSSIAN)])
def test_adders_compute_the_scaled_convolution(make):
    made = of_adders(integral(make()))
    m, r, n = made.algorithm.m, made.algorithm.r, made.algorithm.n
    random = np.random.default_rng(0)
    d, g = random.integers(-128, 128, n), random.integers(-128, 128, r)
    v, u = made.programs["input"].run(d), made.programs["filter"].run(g)
    y = made.programs["output"].run(u * v)
    assert list(y) == [made.scale * sum(g[k] * d[i + k] for k in range(r)) for i in range(m)]
    assert all(map(of_shifts, made.programs.values()))
    assert made.verify()


def test_signs_that_cost_a_negation_move_on():
    """Of (d1 - d3) - p and -(d1 - d3) - p with p = d4 - d2, a row, one is all negative."""
    made = integral(winograd(4, 3, GAUSSIAN))
    costs = [adders(adder_program(made.bt, depth=2, free_signs=free)) for free in (False, True)]
    assert costs == [11, 10]
    moved = of_adders(made)
    assert adders(moved.programs["input"]) <= 10
    for ours, theirs in ((moved.bt, made.bt), (moved.g, made.g)):
        assert all(row in (other, tuple(-c for c in other)) for row, other in zip(ours, theirs))
    assert moved.bt != made.bt and moved.at != made.at


def test_no_row_that_leads_to_products_is_all_negative():
    for made in (integral(cook_toom(4, 3, "0, 1, -1, 2, -2, inf")), integral(cook_toom(5, 3))):
        assert all(max(row) > 0 for rows in (made.bt, made.g) for row in rows)


def test_programs_of_something_else_are_refused():
    made = integral(cook_toom(2, 3))
    programs, other = search(made.matrices), search(integral(cook_toom(2, 2)).matrices)
    with pytest.raises(VerificationError):
        with_programs(made, {**programs, "output": other["output"]})
    five = replace(
        programs["input"],
        statements=tuple(
            replace(one, terms=(replace(one.terms[0], coefficient=5), *one.terms[1:]))
            for one in programs["input"].statements
        ),
    )
    with pytest.raises(InvalidValue, match="powers of two"):
        with_programs(made, {**programs, "input": five})
