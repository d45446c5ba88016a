"""Transforms in narrow lanes: within their bound of the exact rationals, and no overflow."""

from fractions import Fraction

import numpy as np
import pytest

from winogen import cook_toom, winograd
from winogen.errors import InvalidValue
from winogen.fixed import integral
from winogen.fixed.lanes import passes
from winogen.fixed.ranges import signed
from winogen.program import Program, Statement, Term

GAUSSIAN = "x, x-1, x+1, x^2+1, inf"


def run(lanes, program, values, bits):
    """One pass in Python; every value that is stored has to fit."""
    known = dict(zip(program.inputs, values))
    for one in lanes.statements:
        total = sum(factor * known[name] for factor, name in one.terms)
        known[one.target] = (total + max((1 << one.shift >> 1) - 1, 0)) >> one.shift
        assert -(1 << (bits - 1)) <= known[one.target] < 1 << (bits - 1)
    return [known.get(name, 0) for name in program.outputs]


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize(
    "make", [lambda: cook_toom(2, 3), lambda: winograd(4, 3, GAUSSIAN)], ids=["f2", "f4"]
)
@pytest.mark.parametrize("kind", ["input", "filter"])
def test_a_transform_is_within_its_bound(kind, make, bits):
    made = integral(make())
    program, matrix = made.quick_programs[kind], np.array(made.matrices[kind], object)
    found = passes(program, signed(bits), bits)
    assert max(max(row) for row in found.exponents) > 0  # something has to be scaled down
    low, high = signed(bits)
    random, size = np.random.default_rng(bits), matrix.shape[1]
    tiles = [random.integers(low, high + 1, (size, size)) for _ in range(40)]
    for column in matrix:  # extreme inputs: those of the largest outputs of both signs
        for row in matrix:
            signs = np.outer(np.sign(column), np.sign(row))
            tiles += [np.where(signs > 0, high, low), np.where(signs > 0, low, high)]
    tiles += [random.choice([low, high], (size, size)) for _ in range(40)]
    worst = Fraction(0)
    for tile in tiles:
        tile = tile.astype(object)
        half = np.array([run(found.columns, program, tile[:, j], bits) for j in range(size)])
        stored = [run(found.rows, program, half[:, i].tolist(), bits) for i in range(len(matrix))]
        exact = matrix @ tile @ matrix.T
        for i, row in enumerate(stored):
            for j, value in enumerate(row):
                error = abs(value - Fraction(exact[i, j], 1 << found.exponents[i][j]))
                assert error <= found.errors[i][j]
                worst = max(worst, error)
    assert worst > max(max(row) for row in found.errors) / 4  # the bound says something


def test_shifts_are_no_larger_than_widths_ask_for():
    made = integral(cook_toom(2, 3))
    # Differences and sums of two: one bit for each axis, and none where 7 bits come in.
    found = passes(made.quick_programs["input"], signed(8), 8)
    assert {max(row) for row in found.exponents} == {2}
    assert not any(map(any, passes(made.quick_programs["input"], signed(6), 8).exponents))
    with pytest.raises(InvalidValue, match="lanes: got"):
        large = Statement("t", (Term(40_000, "d0"), Term(1, "d1")))
        passes(Program(("d0", "d1"), (large,), ("t",)), signed(16), 16)
