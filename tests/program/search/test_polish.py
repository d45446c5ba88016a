"""The last step of a search makes constants kinder and nothing else worse."""

from fractions import Fraction as F

import pytest

from winogen.algebra import cook_toom
from winogen.program import shortest_transforms
from winogen.program.ir import Program, Statement, Term
from winogen.program.search.candidate import PricedProgram
from winogen.program.search.lower import NAMES, assignments, emit
from winogen.program.search.network import ONE, Gate, GateNetwork
from winogen.program.search.passes import tidy
from winogen.program.search.polish import polished, regrouped, settled

DYADIC = [(4, "0, 1, -1, 2, -2, inf"), (6, "0, 1, -1, 2, -2, 1/2, -1/2, inf")]


@pytest.mark.parametrize(("m", "points"), DYADIC)
def test_dyadic_points_need_no_rounded_constant(m, points):
    short = shortest_transforms(cook_toom(m, 3, points))
    for kind in ("input", "output"):
        assert PricedProgram.of(short.programs[kind]).constants[0] == 0, kind


def test_a_sum_is_regrouped_where_that_saves_a_rounded_constant():
    # d0 + 5/4 (3/5 d2 - d1) becomes (d0 + 3/4 d2) - 5/4 d1
    gates = (Gate(F(3, 4), 2, F(-5, 4), 1), Gate(ONE, 0, ONE, 3))
    network = GateNetwork(3, gates, ((ONE, 4),))
    candidates = [PricedProgram(network, emit(assignments(network)[0], NAMES))]
    best = polished(candidates, NAMES, "instructions")[0]
    assert best.counts.instructions <= candidates[0].counts.instructions
    assert candidates[0].constants[0] == 1 and best.constants[0] == 0
    assert best.program.to_matrix() == network.to_matrix()


def test_regrouping_keeps_the_matrix_and_finds_both_orders():
    gates = (
        Gate(F(2), 1, F(3), 2),  # read by the next gate only
        Gate(ONE, 0, F(5), 4),
        Gate(ONE, 4 + 1, F(7), 3),
    )
    network = GateNetwork(4, gates, ((F(-1, 2), 6),))
    found = list(regrouped(network))
    assert len(found) == 4 and len(set(found)) == 4
    for other in found:
        assert other.to_matrix() == network.to_matrix() and other != network.compact()


def test_sums_that_others_read_stay():
    gates = (Gate(ONE, 1, ONE, 2), Gate(ONE, 0, ONE, 3))
    assert list(regrouped(GateNetwork(3, gates, ((ONE, 4), (ONE, 3))))) == []


def test_scales_settle_where_constants_are_exact():
    network = four_gates()
    for assignment in assignments(network):
        after = settled(assignment)
        assert after.cost <= assignment.cost
        assert emit(after, NAMES).program.to_matrix() == network.to_matrix()
    assert settled(assignments(network)[0]).cost[1] == 0


def four_gates():
    """d0 + d1 - 17/4 d2, plus and minus d3."""
    gates = (
        Gate(ONE, 0, ONE, 1),
        Gate(ONE, 4, F(-17, 4), 2),
        Gate(ONE, 5, ONE, 3),
        Gate(ONE, 5, -ONE, 3),
    )
    return GateNetwork(4, gates, ((ONE, 6), (ONE, 7)))


def test_terms_are_in_the_order_of_the_partner():
    a, b, c = (Term(1, "a"), Term(2, "b"), Term(-2, "b"))
    program = Program(
        ("a", "b"),
        (Statement("x", (b, a)), Statement("y", (c, a)), Statement("z", (Term(1, "y"), b))),
        ("x", "y", "z"),
    )
    assert [str(s) for s in tidy(program).statements] == [
        "x = a + 2*b",
        "y = a - 2*b",
        "z = y + 2*b",
    ]
    assert tidy(program).to_matrix() == program.to_matrix()
