"""adder_program_2d: fewer adders than column by column and row by row, and proven all the same."""

import random

import numpy as np
import pytest

from winogen.algebra import cook_toom
from winogen.errors import InvalidType, InvalidValue
from winogen.fixed import integral
from winogen.program import adder_program, adder_program_2d
from winogen.program.adders import adders
from winogen.program.search.adders import search, tiles
from winogen.program.search.adders.closure import Closure
from winogen.program.search.adders.forms import LinearForms
from winogen.program.search.adders.sharing import share
from winogen.program.search.adders.splitting import split
from winogen.program.widths import signed


@pytest.fixture(autouse=True, scope="module")
def short_searches():
    """Few exchanges: what is tested here is true of any number."""
    with pytest.MonkeyPatch.context() as patch:
        for name, count in (("_STARTS", 16), ("_BEST", 1), ("_REBUILDS", 8), ("_MOVES", 20)):
            patch.setattr(search, name, count)
        patch.setattr(tiles, "_MOVES", 200)
        yield


F2_3 = integral(cook_toom(2, 3)).matrices


def test_sums_and_differences_along_both_axes_share_an_adder():
    """Of F(2, 3) those in the middle of the tile do."""
    found = adder_program_2d(F2_3["input"], free_signs=True)
    assert adders(found) == 31 < 8 * adders(adder_program(F2_3["input"], free_signs=True))
    d = np.random.default_rng(0).integers(-128, 128, (4, 4))
    b = np.array(F2_3["input"])
    assert (abs(found.run(d.ravel())) == abs((b @ d @ b.T).ravel())).all()


def test_signs_are_those_of_the_matrix_unless_they_are_free(monkeypatch):
    monkeypatch.setattr(tiles, "_MOVES", 5)
    matrix = [[-1, -1], [1, -3]]
    whole = [[a * b for a in p for b in q] for p in matrix for q in matrix]
    assert adder_program_2d(matrix).verify(whole)
    assert adders(adder_program_2d(matrix, free_signs=True)) <= adders(adder_program_2d(matrix))


def test_no_exchange_is_no_worse_than_columns_then_rows(monkeypatch):
    monkeypatch.setattr(tiles, "_MOVES", 0)
    for kind, rows in F2_3.items():
        found = adder_program_2d(rows, bits=7, free_signs=True, inputs="x", outputs="y")
        nested = adders(adder_program(rows, free_signs=True)) * (len(rows) + len(rows[0]))
        assert adders(found) <= nested, kind
        assert found.inputs == tuple(f"x{k}" for k in range(len(rows[0]) ** 2))
        assert len(found.outputs) == len(rows) ** 2


@pytest.fixture(scope="module")
def closure():
    """Values of B^T of F(4, 3), with many sums each, and the rows."""
    rows = integral(cook_toom(4, 3)).bt
    forms = LinearForms(len(rows[0]), max(abs(c) for row in rows for c in row), signed(8))
    targets = {forms.value(forms.encode(row)) for row in rows} - set(forms.units)
    values = set()
    for k in range(3):
        rng = random.Random(k)
        values |= share(forms, split(forms, targets, None, rng, 0.0, 0.0), rng)
    return Closure(forms, sorted(values)), targets


def test_what_is_reached_without_a_value_is_what_has_a_level(closure):
    made, _ = closure
    for gone in (None, *made.sums):
        assert set(made.reached(gone)) == set(made.levels(() if gone is None else {gone}))
    left = sorted(made.sums)[::3]
    smaller = Closure(made.forms, sorted(made.sums))
    for value in left:
        smaller.remove(value)
    for value in reversed(left):
        for gone in (None, *smaller.sums):
            assert set(smaller.reached(gone)) == set(smaller.levels({gone} if gone else ()))
        smaller.add(value)
    assert smaller.sums == made.sums
    assert {v: r for v, r in smaller.readers.items() if r} == {
        v: r for v, r in made.readers.items() if r
    }


def test_without_a_needed_value_some_target_is_not_reached(closure):
    made, targets = closure
    needed = made.needed(targets)
    assert targets <= needed < set(made.sums)
    for value in needed - targets:
        assert not targets <= set(made.reached(value))


@pytest.mark.parametrize(
    "error, arguments, words",
    [
        (InvalidValue, {"bits": 0}, "bits: got 0; allowed: 1 or more"),
        (InvalidType, {"bits": 8.0}, "bits: got 8.0; allowed: an integer"),
        (InvalidValue, {"matrix": [[1], [1, 2]]}, "rows of one length"),
    ],
)
def test_what_is_refused(error, arguments, words):
    with pytest.raises(error, match=words):
        adder_program_2d(arguments.pop("matrix", [[1, 1]]), **arguments)
