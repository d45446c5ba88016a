"""Running programs: exact values, and the roundings of compiled C without contraction."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from winogen.errors import InvalidType, InvalidValue
from winogen.program import Program, Statement, Term, simplify
from winogen.program.evaluate import round_scalar
from winogen.program.ir import exact

F = Fraction
INPUT = simplify([["81/4", 0, "-25/4", 0, 1], [0, "-27/8", "9/4", "3/2", 1]])


def test_exact_on_sequences_integers_and_fractions():
    values = [1, -2, 3, 5, 7]
    expected = [sum(c * v for c, v in zip(row, values)) for row in INPUT.to_matrix()]
    assert INPUT.run(values) == expected
    assert list(INPUT.run(np.array(values, dtype=np.int8))) == expected
    assert list(INPUT.run(np.array([F(v) for v in values], dtype=object))) == expected


def test_integers_do_not_overflow():
    big = np.full((5, 2), 2**62, dtype=np.int64)
    assert INPUT.run(big)[0, 0] == F(81, 4) * 2**62 - F(25, 4) * 2**62 + 2**62


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_round_statement_by_statement(dtype):
    rng = np.random.default_rng(1)
    data = rng.standard_normal((5, 3, 4)).astype(dtype)
    value = dict(zip(INPUT.inputs, data))
    for s in INPUT.statements:
        terms = []
        for t in s.terms:
            x = value[t.operand]
            terms.append(
                x * dtype(float(t.coefficient)) if not t.is_unit else x * dtype(t.coefficient)
            )
        value[s.target] = terms[0] + terms[1] if len(terms) == 2 else terms[0]
        assert value[s.target].dtype == dtype
    got = INPUT.run(data)
    assert got.dtype == dtype and got.shape == (2, 3, 4)
    assert np.array_equal(got, np.stack([value[name] for name in INPUT.outputs]))


def test_outputs_may_be_inputs_or_zero_and_are_copies():
    program = Program(("a", "b"), (), ("b", "0"))
    data = np.ones((2, 2), np.float32)
    out = program.run(data)
    out[0] = 5
    assert (data == 1).all() and (out[1] == 0).all()


def test_refuses_wrong_inputs():
    with pytest.raises(InvalidValue, match="values: got 4 inputs; allowed: 5"):
        INPUT.run([1, 2, 3, 4])
    with pytest.raises(InvalidType, match="got dtype complex128"):
        INPUT.run(np.zeros((5, 1), complex))


def test_constants_are_rounded_once():
    # Half-way between two float32 numbers but for a hair that float64 cannot see.
    tie = F(1) + F(1, 2**24)
    hair = F(1, 2**90)
    one, above = np.float32(1), np.nextafter(np.float32(1), np.float32(2))
    assert round_scalar(tie, np.float32) == one  # to even
    assert round_scalar(tie + hair, np.float32) == above
    assert round_scalar(tie - hair, np.float32) == one
    assert np.float32(float(tie + hair)) == one  # what rounding twice would give


@given(st.fractions(min_value=-1000, max_value=1000))
def test_rounding_is_to_nearest(value):
    near = round_scalar(value, np.float32)
    error = abs(F(float(near)) - value)
    for other in (np.nextafter(near, np.float32(s)) for s in (-np.inf, np.inf)):
        assert error <= abs(F(float(other)) - value)


def test_irrational_constants_are_rounded_correctly():
    root = exact("sqrt(2)")
    assert round_scalar(root, np.float64) == np.sqrt(2)
    assert round_scalar(root, np.float32) == np.float32(np.sqrt(2))
    program = Program(("a",), (Statement("v", (Term(root, "a"),)),), ("v",))
    assert program.run(np.ones(1))[0] == np.sqrt(2)
