"""The program IR: what it refuses, what it counts, and that it says exactly what it computes."""

import itertools
import json
from fractions import Fraction

import pytest

from winogen.errors import InvalidValue, VerificationError
from winogen.program import Counts, Program, Statement, Term
from winogen.program.ir import exact, max_live

F = Fraction


def statement(target, *terms):
    return Statement(target, tuple(Term(c, name) for c, name in terms))


@pytest.fixture
def program():
    """v0 = 3 (d0 - d1) + d2, v1 = d0 - d1, and d2, 0 passed on."""
    return Program(
        ("d0", "d1", "d2"),
        (
            statement("v1", (1, "d0"), (-1, "d1")),
            statement("v0", (3, "v1"), (1, "d2")),
            statement("t0", ("-5/2", "d1")),
        ),
        ("v0", "v1", "d2", "0", "t0"),
    )


def test_matrix_is_exact(program):
    assert program.to_matrix() == (
        (3, -3, 1),
        (1, -1, 0),
        (0, 0, 1),
        (0, 0, 0),
        (0, F(-5, 2), 0),
    )


def test_counts_fuse_what_one_instruction_can_do(program):
    assert program.counts() == Counts(add=2, mul=2, fma=1, instructions=3, registers=3)
    assert program.depth() == 2
    assert list(program.counts().to_dict()) == ["add", "mul", "fma", "instructions", "registers"]


def test_a_lone_negation_costs_an_instruction():
    negation = Program(("d0",), (statement("v0", (-1, "d0")),), ("v0",))
    assert negation.counts() == Counts(add=1, mul=0, fma=0, instructions=1, registers=1)


def test_verify_names_the_first_wrong_entry(program):
    matrix = [list(row) for row in program.to_matrix()]
    assert program.verify(matrix)
    matrix[1][1] = 1
    with pytest.raises(VerificationError, match=r"entry \(1, 1\) is -1; its matrix has 1"):
        program.verify(matrix)
    with pytest.raises(VerificationError, match="5 outputs of 3 inputs"):
        program.verify(matrix[:2])


def test_json_and_back(program):
    text = json.dumps(program.to_json())
    assert Program.from_json(json.loads(text)) == program
    assert '"-5/2"' in text


def test_irrational_constants_survive_json():
    root = exact("sqrt(2)/2")
    program = Program(("d0",), (statement("v0", (root, "d0")),), ("v0",))
    assert Program.from_json(json.loads(json.dumps(program.to_json()))) == program
    assert program.to_matrix()[0][0] * root == F(1, 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Term(0, "x"), "coefficient of x: got 0"),
        (lambda: Statement("t", ()), "terms of t: got 0; allowed: 1 or 2"),
        (lambda: statement("t", (1, "x"), (2, "x")), "got x twice"),
        (lambda: statement("t", (2, "x"), (3, "y")), "got two constants"),
        (lambda: Program(("a", "a"), (), ()), "inputs: got"),
        (lambda: Program(("0",), (), ()), "inputs: got"),
        (lambda: Program(("a",), (statement("t", (1, "b")),), ()), "undefined operand b"),
        (lambda: Program(("a",), (statement("a", (2, "a")),), ()), "target a again"),
        (lambda: Program(("a",), (), ("b",)), "outputs: got undefined b"),
    ],
)
def test_refuses_what_is_no_program(make, message):
    with pytest.raises(InvalidValue, match=message):
        make()


def simulate(program):
    """Registers by brute force: a machine that loads at the first and frees at the last use."""
    uses = [set(s.operands) for s in program.statements]
    held, peak = set(), 0
    for k, s in enumerate(program.statements):
        held |= uses[k]
        peak = max(peak, len(held))
        held -= {name for name in uses[k] if not any(name in later for later in uses[k + 1 :])}
        held.add(s.target)
        peak = max(peak, len(held))
        if not any(s.target in later for later in uses[k + 1 :]):
            held.remove(s.target)
    return peak


def test_registers_agree_with_a_simulation(program):
    for order in itertools.permutations(program.statements):
        try:
            other = Program(program.inputs, order, program.outputs)
        except InvalidValue:
            continue  # an operand would be read before it is there
        assert max_live(other) == simulate(other)


def test_text_puts_a_plus_first():
    assert str(statement("v1", ("-5/4", "d2"), (1, "d4"))) == "v1 = d4 - 5/4*d2"
    assert str(statement("v1", (-1, "d2"), (-1, "d4"))) == "v1 = -d2 - d4"
