"""Signs that suit vectors without an instruction for c*x - y."""

from fractions import Fraction

import numpy as np
import pytest

from winogen.codegen.transforms import load
from winogen.program.ir import Program, Statement, Term
from winogen.program.signs import negations, without_negations

TILES = [(2, 3), (4, 3), (6, 3), (4, 5), (2, 7)]


@pytest.mark.parametrize("m, r", TILES)
@pytest.mark.parametrize("kind", ["input", "output"])
def test_the_same_is_computed_bit_by_bit(m, r, kind):
    program = load(m, r).programs[kind]
    changed = without_negations(program)
    assert changed.verify(program.to_matrix())
    assert changed.counts() == program.counts() and negations(changed) <= negations(program)
    values = np.random.default_rng(1).standard_normal((len(program.inputs), 99), np.float32)
    assert np.array_equal(np.array(program.run(values)), np.array(changed.run(values)))


def test_the_input_of_the_usual_tile_negates_nothing():
    program = load(4, 3).programs["input"]
    assert negations(program) == 2 and negations(without_negations(program)) == 0


def test_outputs_keep_their_sign():
    half = Statement("v0", (Term(Fraction(1, 2), "d0"), Term(-1, "d1")))
    program = Program(("d0", "d1"), (half,), ("v0",))
    assert negations(program) == 1 and without_negations(program) == program
