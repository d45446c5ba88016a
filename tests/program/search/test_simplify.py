"""simplify: the figures it has to reach, its objectives, and that it can be trusted."""

import subprocess
import sys
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kernels.turns import first

from winogen.algebra import cook_toom
from winogen.errors import InvalidValue
from winogen.program import simplify
from winogen.program.analysis import error_growth, naive_counts, network_growth
from winogen.program.search.greedy import greedy

F = Fraction

# Instructions of input, filter and output transform: at most what the best known code needs.
KNOWN = {
    (2, 3, "0,1,-1,inf"): (4, 4, 4),
    (4, 3, "0,1,-1,2,-2,inf"): (12, 8, 10),
    (6, 3, "0,1,-1,2,-2,1/2,-1/2,inf"): (24, 12, 20),
    (2, 5, "0,1,-1,2,-2,inf"): (12, 13, 8),
    (4, 5, "0,1,-1,2,-2,1/2,-1/2,inf"): (24, 18, 16),
    (2, 7, "0,1,-1,2,-2,1/2,-1/2,inf"): (24, 24, 12),
    (4, 3, "0,5/8,-5/8,3/2,-3/2,inf"): (12, 8, 12),
    (8, 3, "0,3/8,-3/8,3/4,-3/4,5/4,-5/4,9/4,-9/4,inf"): (40, 17, 40),
}
OURS = {
    (2, 3, "0,1,-1,inf"): (4, 4, 4),
    (4, 3, "0,1,-1,2,-2,inf"): (12, 7, 10),
    (6, 3, "0,1,-1,2,-2,1/2,-1/2,inf"): (22, 11, 18),
    (2, 5, "0,1,-1,2,-2,inf"): (12, 12, 8),
    (4, 5, "0,1,-1,2,-2,1/2,-1/2,inf"): (22, 16, 16),
    (2, 7, "0,1,-1,2,-2,1/2,-1/2,inf"): (22, 21, 12),
    (4, 3, "0,5/8,-5/8,3/2,-3/2,inf"): (12, 8, 12),
    (8, 3, "0,3/8,-3/8,3/4,-3/4,5/4,-5/4,9/4,-9/4,inf"): (40, 15, 38),
}


def matrices(algorithm):
    return algorithm.bt, algorithm.g, algorithm.at


def negations(matrix):
    """Rows that are nothing but -d_j, which take an instruction where no sum carries the sign."""
    return sum(sorted(row) == [-1, *[0] * (len(row) - 1)] for row in matrix)


@pytest.mark.parametrize(("m", "r", "points"), first(4, KNOWN))
def test_no_more_instructions_than_the_best_known(m, r, points):
    algorithm = cook_toom(m, r, points)
    programs = [simplify(matrix) for matrix in matrices(algorithm)]
    found = tuple(program.counts().instructions for program in programs)
    assert all(a <= b for a, b in zip(found, KNOWN[m, r, points]))
    assert found == OURS[m, r, points]
    for program, matrix in zip(programs, matrices(algorithm)):
        assert program.to_matrix() == matrix
        assert program.counts().registers <= 16


@pytest.mark.parametrize(
    ("m", "points", "published", "ours"),
    [
        (2, "0,1,-1,inf", (4, 3, 4), (4, 3, 4)),
        (4, "0,1,-1,2,-2,inf", (12, 5, 10), (12, 5, 10)),
        (6, "0,1,-1,2,-2,1/2,-1/2,inf", (24, 8, 20), (22, 8, 18)),
    ],
)
def test_no_more_additions_than_published(m, points, published, ours):
    algorithm = cook_toom(m, 3, points)
    found = tuple(simplify(matrix, "additions").counts().add for matrix in matrices(algorithm))
    assert all(a <= b for a, b in zip(found, published)) and found == ours


@pytest.mark.thorough
def test_objectives_are_best_at_what_they_are_for():
    matrix = cook_toom(6, 3, "0,1,-1,2,-2,1/2,-1/2,inf").bt
    programs = {o: simplify(matrix, o) for o in ("instructions", "depth", "registers", "error")}
    for measure, objective in (
        (lambda p: p.counts().instructions, "instructions"),
        (lambda p: p.depth(), "depth"),
        (lambda p: p.counts().registers, "registers"),
        (error_growth, "error"),
    ):
        values = {name: measure(program) for name, program in programs.items()}
        assert values[objective] <= min(values.values()) + 5e-3, (objective, values)
    assert programs["depth"].depth() == 3
    assert programs["registers"].counts().registers == 7


@pytest.mark.thorough
def test_error_limit_bounds_the_growth():
    matrix = cook_toom(7, 3, "1/4,-1/4,5/8,-5/8,5/4,-5/4,5/2,-5/2,inf").bt
    careful = error_growth(simplify(matrix, "error"))
    growth = {limit: error_growth(simplify(matrix, error_limit=limit)) for limit in (1.5, None)}
    assert growth[1.5] <= 1.5 * careful + 1e-2 < growth[None]


def test_error_growth_is_that_of_roundings():
    # v = a + b + c + d: rounded at partial sums of variance 2, 3, 4 against one of variance 4.
    chain = simplify([[1, 1, 1, 1]], "error")
    assert error_growth(chain) == pytest.approx(((2 + 2 + 4) / 4) ** 0.5)  # pairwise is better
    third = simplify([["1/3", 1]])  # the constant is rounded as well
    assert error_growth(third) > error_growth(simplify([["1/2", 1]])) == 1
    network = greedy([[F(1), F(1), F(1)]])[0]
    assert network_growth(network) == pytest.approx((5 / 3) ** 0.5)


def test_names_and_special_outputs():
    program = simplify([[0, 0], [0, 1], [0, 2], [0, 2], [-1, 1]], inputs="g", outputs="u")
    assert program.inputs == ("g0", "g1")
    assert program.outputs == ("0", "g1", "u2", "u2", "u4")
    assert program.counts().instructions == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1]], "speed"), "objective: got 'speed'; allowed: instructions"),
        (([[1, 2], [3]],), "matrix: got no or unequal rows"),
        (([],), "matrix: got no or unequal rows"),
        (([[], []],), "matrix: got no or unequal rows"),
        (([[F(10) ** 60, 1]],), "matrix: got an entry above the range"),
        (([[1, F(1, 10**60)]],), "matrix: got an entry below the range"),
    ],
)
def test_refuses_what_makes_no_sense(arguments, message):
    with pytest.raises(InvalidValue, match=message):
        simplify(*arguments)


@pytest.mark.thorough
def test_irrational_points():
    algorithm = cook_toom(4, 3, "0, sqrt(2)/2, -sqrt(2)/2, sqrt(2), -sqrt(2), inf")
    programs = [simplify(matrix) for matrix in matrices(algorithm)]
    assert [p.to_matrix() for p in programs] == list(matrices(algorithm))
    assert [p.counts().instructions for p in programs] <= [12, 8, 12]


points = st.builds(F, st.integers(-4, 4), st.sampled_from([1, 2, 3, 5]))


@pytest.mark.thorough
@pytest.mark.parametrize(("most", "examples"), [(8, 4), (12, 1)])
def test_random_points_are_computed_exactly_and_never_cost_more(most, examples):
    @settings(max_examples=examples)
    @given(st.integers(1, most - 1), st.integers(1, most - 1), st.data())
    def check(m, r, data):
        assume(m + r <= most)
        _check_random_points(m, r, data)

    check()


def _check_random_points(m, r, data):
    n = m + r - 1
    drawn = data.draw(st.lists(points, min_size=n, max_size=n, unique=True))
    given_points = [*map(str, drawn[:-1]), data.draw(st.sampled_from(["inf", str(drawn[-1])]))]
    for matrix in matrices(cook_toom(m, r, given_points)):
        program = simplify(matrix)
        assert program.to_matrix() == matrix
        assert program.counts().instructions <= naive_counts(matrix).instructions + negations(
            matrix
        )


def test_the_same_program_in_every_process():
    code = (
        "from winogen.algebra import cook_toom; from winogen.program import simplify;"
        "a = cook_toom(3, 3, '0,1,-1,1/2,-2');"
        "print(*map(simplify, a.matrices.values()), sep=chr(10))"
    )
    seen = set()
    for seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        )
        seen.add(run.stdout)
    assert len(seen) == 1
