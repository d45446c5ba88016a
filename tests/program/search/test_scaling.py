"""Three transforms together, scalings between them free; and transforms in two dimensions."""

from fractions import Fraction

import pytest
from laboratory.proofs.nested import kronecker, nest_programs, nested_instructions, simplify_2d

from winogen.algebra import cook_toom, winograd
from winogen.errors import InvalidValue, VerificationError
from winogen.program import shortest_transforms, simplify
from winogen.program.ir import exact
from winogen.program.search.lower import Names, lower
from winogen.program.search.strategies import STRATEGIES

F = Fraction


@pytest.mark.parametrize(
    ("m", "r", "points", "instructions"),
    [
        (2, 3, None, (4, 4, 4)),
        (4, 3, "0,1,-1,2,-2,inf", (12, 6, 10)),
        (4, 3, None, (12, 8, 10)),
        (6, 3, None, (22, 11, 18)),
        (3, 3, None, (10, 8, 8)),
    ],
)
def test_scalings_save_instructions(m, r, points, instructions):
    short = shortest_transforms(cook_toom(m, r, points))
    found = [short.programs[kind].counts().instructions for kind in ("input", "filter", "output")]
    assert all(a <= b for a, b in zip(found, instructions)), found
    assert short.algorithm.verify()
    assert short.input.to_matrix() == short.algorithm.bt
    assert short.filter.to_matrix() == short.algorithm.g
    assert short.output.to_matrix() == short.algorithm.at


def test_names_are_those_of_the_transforms():
    short = shortest_transforms(cook_toom(2, 3))
    assert (short.input.inputs[0], short.filter.inputs[0], short.output.inputs[0]) == (
        "d0",
        "g0",
        "p0",
    )
    assert short.output.outputs == ("y0", "y1")


def test_moduli_of_degree_two():
    short = shortest_transforms(winograd(4, 3, "x, x-1, x+1, x^2+1, inf"))
    assert short.input.counts().instructions <= 9


@pytest.mark.thorough
def test_irrational_points():
    algorithm = cook_toom(4, 3, "0, sqrt(2)/2, -sqrt(2)/2, sqrt(2), -sqrt(2), inf")
    short = shortest_transforms(algorithm)
    assert [p.counts().instructions for p in short.programs.values()] <= [12, 8, 10]


def test_objectives_are_checked():
    with pytest.raises(InvalidValue, match="objective: got 'fast'"):
        shortest_transforms(cook_toom(2, 3), "fast")
    with pytest.raises(InvalidValue, match="objective: got 'fast'"):
        shortest_transforms(cook_toom(2, 3), filter_objective="fast")


@pytest.mark.parametrize(("free_outputs", "free_inputs"), [(0, 0), (1, 0), (0, 1)])
def test_lowered_programs_tell_their_scales(free_outputs, free_inputs):
    matrix = cook_toom(4, 3, "0,5/8,-5/8,3/2,-3/2,inf").at
    for network in STRATEGIES["greedy"](matrix)[:3]:
        for item in lower(network, Names(), free_outputs, free_inputs, tries=6):
            expected = tuple(
                tuple(out * c / into for c, into in zip(row, item.input_scales))
                for row, out in zip(matrix, item.output_scales)
            )
            assert item.program.to_matrix() == expected
            assert free_outputs or set(item.output_scales) == {1}
            assert free_inputs or set(item.input_scales) == {1}


# ---- two dimensions ------------------------------------------------------------------------------


def test_nested_programs_compute_the_kronecker_product():
    a = cook_toom(2, 3)
    vertical, horizontal = simplify(a.g), simplify(a.bt)
    square = nest_programs(vertical, horizontal, "x", "y")
    assert square.to_matrix() == kronecker(a.g, a.bt)
    assert (
        square.counts().instructions == nested_instructions(vertical, horizontal) == 4 * 4 + 4 * 4
    )
    assert square.inputs[:2] == ("x0", "x1") and square.outputs[5] == "y5"


def test_nested_zero_rows():
    program = simplify([[1, 1], [0, 0]])
    assert nest_programs(program, program).to_matrix() == kronecker(
        [[1, 1], [0, 0]], [[1, 1], [0, 0]]
    )


@pytest.mark.parametrize(
    ("m", "points", "nested"),
    [
        (4, "0,1,-1,2,-2,inf", (144, 63, 100)),
        (6, "0,1,-1,2,-2,1/2,-1/2,inf", (384, 132, 280)),
    ],
)
def test_nested_transforms_cost_no_more_than_the_best_known(m, points, nested):
    a = cook_toom(m, 3, points)
    programs = [simplify(matrix) for matrix in (a.bt, a.g, a.at)]
    assert all(nested_instructions(p, p) <= count for p, count in zip(programs, nested))


def test_two_by_two_blocks_need_seven_gates():
    left, right = [[1, 2], [1, 5]], [[1, 3], [1, -7]]
    program = simplify_2d(left, right, "additions")
    assert program.counts().add == 7
    assert program.verify(kronecker(left, right))


def test_the_input_transform_of_f23_saves_one_of_32():
    program = simplify_2d(cook_toom(2, 3).bt)
    assert program.counts().instructions == 31


def test_two_dimensional_results_are_proven():
    program = simplify_2d([[1, 1], [1, -1]])
    with pytest.raises(VerificationError):
        program.verify(kronecker([[1, 1], [1, -2]], [[1, 1], [1, -1]]))
    assert kronecker([["1/2"]], [[exact("4")]]) == ((2,),)
    with pytest.raises(InvalidValue, match="matrix"):
        simplify_2d([[]])
