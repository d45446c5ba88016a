"""adder_program: the figures it has to reach, its limits of depth, and that it can be trusted."""

import random
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from winogen.algebra import cook_toom
from winogen.errors import InvalidType, InvalidValue
from winogen.fixed import integral
from winogen.program import Program, Statement, Term, adder_program
from winogen.program.adders import adder_bits, adder_depth, adders, of_shifts
from winogen.program.search.adders import search
from winogen.program.search.adders.closure import Closure
from winogen.program.search.adders.exchange import exchange
from winogen.program.search.adders.forms import LinearForms, signed_digits
from winogen.program.search.adders.rebuilding import rebuild
from winogen.program.search.adders.sharing import share
from winogen.program.search.adders.splitting import split
from winogen.program.search.adders.transposing import transposed
from winogen.program.widths import signed

BYTE = signed(8)
# Points: adders of B^T, G and A^T in integers, at most.
KNOWN = {
    (2, 3, "0,1,-1,inf"): (4, 3, 4),
    (4, 3, "0,1,-1,2,-2,inf"): (12, 6, 12),
}
FULL = {name: getattr(search, name) for name in ("_STARTS", "_BEST", "_REBUILDS", "_MOVES")}


@pytest.fixture(autouse=True, scope="module")
def short_searches():
    """Searches of a few starts: what is tested here is true of any."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "_STARTS", 16)
        patch.setattr(search, "_BEST", 1)
        patch.setattr(search, "_REBUILDS", 8)
        patch.setattr(search, "_MOVES", 20)
        yield


matrices = st.integers(1, 4).flatmap(
    lambda width: st.lists(
        st.lists(
            st.integers(-40, 40) | st.sampled_from([0, 1, -1]), min_size=width, max_size=width
        ),
        min_size=1,
        max_size=4,
    )
)


@settings(max_examples=12, deadline=None)
@given(matrices, st.sampled_from(["adders", "bits"]))
def test_a_program_of_any_matrix_is_equal_to_it(matrix, objective):
    program = adder_program(matrix, objective=objective)
    assert program.verify(matrix)
    assert of_shifts(program)
    digits = [sum(len(signed_digits(c)) for c in row) for row in matrix]
    negative = sum(max(row) <= 0 and any(row) for row in matrix)
    assert adders(program) <= sum(max(n - 1, 0) for n in digits) + negative


@settings(max_examples=8, deadline=None)
@given(matrices)
def test_a_depth_is_kept(matrix):
    free = adder_program(matrix)
    digits = max(sum(len(signed_digits(c)) for c in row) for row in matrix)
    least = max(digits - 1, 0).bit_length()
    assume(digits > 1)
    tight = adder_program(matrix, depth=least)
    negated = any(max(row) <= 0 and any(row) for row in matrix)
    assert adder_depth(tight) <= least + negated
    assert adders(free) <= adders(tight) + 1  # neither is proven to be the least


@pytest.mark.parametrize("m, r, points", KNOWN)
def test_known_matrices_take_few_adders(m, r, points):
    made = integral(cook_toom(m, r, points))
    found = [adders(adder_program(rows)) for rows in made.matrices.values()]
    assert all(a <= b for a, b in zip(found, KNOWN[m, r, points]))


@pytest.mark.thorough
@pytest.mark.parametrize("m, most", [(4, (24, 10, 26)), (6, (26, 9, 26))])
def test_default_points_take_few_adders(m, most, monkeypatch):
    for name, value in FULL.items():
        monkeypatch.setattr(search, name, value)
    made = integral(cook_toom(m, 3))
    found = [
        adders(adder_program(rows, bits=9, free_signs=kind != "output"))
        for kind, rows in made.matrices.items()
    ]
    assert all(a <= b for a, b in zip(found, most))


def test_the_objective_of_bits_takes_no_more_of_them():
    matrix = integral(cook_toom(3, 2, "0, 1, -2, inf")).bt
    few, narrow = (adder_program(matrix, objective=one, bits=12) for one in ("adders", "bits"))
    assert adder_bits(narrow, signed(12)) <= adder_bits(few, signed(12))
    assert narrow.verify(matrix)


def test_exchanges_and_rebuilding_save_adders():
    """Each of them, of what sharing pairs of digits alone finds for B^T of F(4, 3)."""
    rows = integral(cook_toom(4, 3)).bt
    forms = LinearForms(len(rows[0]), max(abs(c) for row in rows for c in row), BYTE)
    targets = {forms.value(forms.encode(row)) for row in rows} - set(forms.units)
    start = split(forms, targets, None, random.Random(0), 0.0, 0.0)
    values = sorted(share(forms, start, random.Random(0), noise=0.0))

    def weight(value):
        return 1

    for improved in (
        exchange(Closure(forms, values), targets, None, weight, random.Random(0), 60),
        rebuild(forms, values, targets, None, weight, random.Random(0), 30),
    ):
        assert len(improved) < len(values) - 1
        assert targets <= set(Closure(forms, improved).levels())


def test_values_of_a_matrix_are_turned_into_those_of_its_transpose():
    """Adders change by the difference of rows and columns."""
    rows = integral(cook_toom(4, 3)).g
    tall, wide = (LinearForms(width, 64, BYTE) for width in (len(rows[0]), len(rows)))
    columns = [wide.encode(column) for column in zip(*rows)]
    targets = {wide.value(column) for column in columns}
    rng = random.Random(0)
    values = share(wide, split(wide, targets, None, rng, 0.0, 0.0), rng, noise=0.0)
    turned = transposed(wide, columns, sorted(values), tall, rng)
    closure = Closure(tall, sorted(turned))
    level = closure.levels()
    assert {tall.value(tall.encode(row)) for row in rows} <= set(level)
    assert len(turned) == len(values) - len(rows) + len(columns)


def test_rows_of_opposite_points_become_halves():
    """x + y and x - y of 1, 5/4, 25/16 and 1, -5/4, 25/16 with whole numbers."""
    forms = LinearForms(3, 25, BYTE)
    p, q = (forms.value(forms.encode((16, sign * 20, 25))) for sign in (1, -1))
    rows = split(forms, {p, q}, None, random.Random(0), 1.0, 0.0)
    halves = {forms.value(forms.encode(row)) for row in ((16, 0, 25), (0, 5, 0))}
    assert {row.value for row in rows} == {p, q} | halves
    assert split(forms, {p, q}, 1, random.Random(0), 1.0, 0.0) is None


def test_the_adder_of_a_product_is_saved_by_sharing_its_digits():
    """5 d2 is an adder of its own; (d4 - d2) + 4 (d0 - d2) needs none where d4 - d2 is there."""
    matrix = [[4, 0, -5, 0, 1], [0, -4, -4, 1, 1], [0, 0, -1, 0, 1], [1, 0, -1, 0, 0]]
    assert adders(adder_program(matrix)) == 3 + 3


def test_the_same_arguments_give_the_same_program():
    code = (
        "from winogen.program import adder_program;"
        "print(adder_program([[4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0],"
        "[0, -2, -1, 2, 1, 0], [0, 2, -1, -2, 1, 0], [0, 4, 0, -5, 0, 1]], objective='bits'))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1


def test_rows_of_wires_take_no_adders():
    matrix = [[0, 0], [0, 8], [1, 0], [3, 0], [6, 0], [-1, 0]]
    program = adder_program(matrix)
    assert program.verify(matrix)
    assert adders(program) == 2  # 3 d0, and 0 - d0
    x = np.arange(-8, 8).reshape(2, 8)
    assert (program.run(x) == np.array(matrix) @ x).all()


def test_matrices_of_numpy_will_do():
    assert adder_program(np.array([[3, -1]])) == adder_program([[3, -1]])


def test_costs_count_adders_negations_and_no_shifts():
    program = Program(
        ("d0", "d1"),
        (
            Statement("t0", (Term(4, "d0"),)),
            Statement("t1", (Term(1, "t0"), Term(-1, "d0"))),
            Statement("v0", (Term(-1, "t1"),)),
            Statement("v1", (Term(-1, "t1"), Term(-2, "d1"))),
        ),
        ("v0", "v1"),
    )
    assert (adders(program), adder_depth(program)) == (4, 3)
    # 3 d0 of 10 bits, its negative of 10, and 384 + 256 in magnitude twice.
    assert adder_bits(program, BYTE) == 10 + 10 + 2 * 11
    assert not of_shifts(Program(("d0",), (Statement("v0", (Term(3, "d0"),)),), ("v0",)))


def test_forms_are_sums_shifts_and_signs_of_rows():
    forms = LinearForms(3, 100, BYTE)
    p, q = forms.encode((5, -3, 0)), forms.encode((-1, 100, 7))
    assert forms.decode(p - 4 * q) == (9, -403, -28)
    assert forms.canonical(forms.encode((8, -4, 0))) == (forms.encode((-2, 1, 0)), 2, -1)


@pytest.mark.parametrize(
    "error, arguments, words",
    [
        (InvalidValue, {"objective": "area"}, "allowed: adders, bits"),
        (InvalidValue, {"depth": 1}, "depth: got 1; allowed: 2 or more"),
        (InvalidType, {"depth": 1.5}, "allowed: an integer"),
        (InvalidValue, {"bits": 0}, "allowed: 1 or more"),
        (InvalidValue, {"matrix": [["1/2"]]}, "allowed: integers"),
        (InvalidType, {"matrix": None}, "rows of integers"),
        (InvalidValue, {"matrix": [[0.5]]}, "got 0.5; allowed: integers"),
        (InvalidValue, {"matrix": [[1], [1, 2]]}, "rows of one length"),
    ],
)
def test_what_is_refused(error, arguments, words):
    with pytest.raises(error, match=words):
        adder_program(arguments.pop("matrix", [[1, 1, 1]]), **arguments)
