"""Scheduling: the same values in an order that needs few registers."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
from laboratory.proofs.nested import nest_programs

from winogen.algebra import cook_toom
from winogen.errors import InvalidValue
from winogen.program import Program, Statement, Term, simplify
from winogen.program.ir import max_live
from winogen.program.search.passes import prefer_sums, rename
from winogen.program.search.schedule import schedule


@st.composite
def programs(draw, most=6):
    width = draw(st.integers(1, 4))
    names = [f"d{j}" for j in range(width)]
    statements = []
    for k in range(draw(st.integers(1, most))):
        operands = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
        constants = draw(st.permutations([draw(st.sampled_from([1, -1, 2, -3])), -1]))
        terms = tuple(Term(c, name) for c, name in zip(constants, operands))
        statements.append(Statement(f"s{k}", terms))
        names.append(f"s{k}")
    outputs = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))
    return Program(tuple(f"d{j}" for j in range(width)), statements, outputs)


def fewest_registers(program):
    best = None
    for order in itertools.permutations(program.statements):
        try:
            peak = max_live(Program(program.inputs, order, program.outputs))
        except InvalidValue:
            continue
        best = peak if best is None else min(best, peak)
    return best


@settings(max_examples=60)
@given(programs())
def test_short_programs_get_the_fewest_registers_possible(program):
    ordered = schedule(program)
    assert ordered.to_matrix() == program.to_matrix()
    assert sorted(map(str, ordered.statements)) == sorted(map(str, program.statements))
    assert max_live(ordered) == fewest_registers(program)


def test_a_good_enough_order_is_kept():
    program = simplify(cook_toom(4, 3).bt)
    worse = Program(
        program.inputs, sorted(program.statements, key=lambda s: s.target), program.outputs
    )
    peak = max_live(worse)
    assert schedule(worse, registers=peak) is worse
    assert max_live(schedule(worse)) <= max_live(program) <= peak


def test_f63_needs_half_of_the_registers_of_avx2():
    algorithm = cook_toom(6, 3)
    for matrix in (algorithm.bt, algorithm.g, algorithm.at):
        assert simplify(matrix).counts().registers <= 8


def test_long_programs_are_scheduled_too():
    program = simplify(cook_toom(4, 3).bt)
    square = nest_programs(program, program)
    assert len(square.statements) == 144
    assert max_live(schedule(square)) <= max_live(square)


@given(programs())
def test_signs_may_be_flipped_but_values_stay(program):
    changed, flipped = prefer_sums(program)
    signs = [-1 if name in flipped else 1 for name in program.outputs]
    for sign, row, other in zip(signs, program.to_matrix(), changed.to_matrix()):
        assert tuple(sign * c for c in row) == other
    fixed, flipped = prefer_sums(program, program.outputs)
    assert fixed.to_matrix() == program.to_matrix() and not flipped & set(program.outputs)


def test_all_minus_is_avoided():
    def minus(t, x, y):
        return Statement(t, (Term(-1, x), Term(-1, y)))

    program = Program(("a", "b", "c"), (minus("t", "a", "b"), minus("v", "c", "t")), ("v",))
    changed, _ = prefer_sums(program, program.outputs)
    assert [str(s) for s in changed.statements] == ["t = a + b", "v = t - c"]


@given(programs())
def test_renaming_numbers_in_order_of_execution(program):
    renamed = rename(program, "v", "t")
    assert renamed.to_matrix() == program.to_matrix()
    fresh = [s.target for s in renamed.statements if s.target.startswith("t")]
    assert fresh == [f"t{k}" for k in range(len(fresh))]
