"""Figures for analysts: operations, condition numbers, LaTeX."""

from fractions import Fraction

import numpy as np
import pytest
import sympy

import winogen
from winogen.algebra import Algebraic, BilinearAlgorithm, cook_toom, nest, winograd
from winogen.algebra.figures import condition
from winogen.errors import InvalidValue
from winogen.program.summation import summation

ALGORITHMS = {
    "square": cook_toom(4, 3),
    "more products than inputs": winograd(2, 3, "x, x-1, x^2+1"),
    "linear": cook_toom(2, 3).transpose(),
    "irrational": cook_toom(2, 4, "0, 1, sqrt(2), -sqrt(2), inf"),
    "one output": cook_toom(1, 3),
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_condition_numbers_are_those_of_the_pseudo_inverse(name):
    f = ALGORITHMS[name]
    for kind, found in f.condition.items():
        rows = np.array([[float(c) for c in row] for row in f.matrices[kind]])
        inverse = np.linalg.pinv(rows)
        for value, order in ((found.spectral, 2), (float(found.infinity), np.inf)):
            wanted = np.linalg.norm(rows, order) * np.linalg.norm(inverse, order)
            assert value == pytest.approx(wanted, rel=1e-9), (kind, order)
        assert isinstance(found.infinity, Fraction | Algebraic)


def test_condition_numbers_print_as_floats():
    f = cook_toom(6, 3, "1/4, -1/4, 5/7, -5/7, 7/5, -7/5, 4, -4")
    assert repr(f.condition["input"]) == "Condition(spectral=73.9965, infinity=132.032)"
    assert len(str(f.condition)) < 200 and isinstance(f.condition["input"].infinity, Fraction)


def test_condition_numbers_by_hand():
    """B^T of F(2, 3) is [1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 -1 0 1], with rows of 2 at most, and its
    inverse [1 1/2 1/2 0; 0 1/2 -1/2 0; 0 1/2 1/2 0; 0 1/2 -1/2 1]."""
    assert cook_toom(2, 3).condition["input"].infinity == 2 * 2
    assert isinstance(ALGORITHMS["irrational"].condition["input"].infinity, Algebraic)
    with pytest.raises(InvalidValue, match="matrix: got one of too small a rank"):
        condition(((Fraction(1), Fraction(2)), (Fraction(2), Fraction(4))))


@pytest.mark.parametrize("name", ["square", "more products than inputs", "linear"])
def test_operations_of_matrices_and_programs(name):
    f = ALGORITHMS[name]
    programs = winogen.programs(f)
    assert f.operations.keys() == f.matrices.keys() == programs.keys()
    for kind, (added, scaled, *plain) in f.operations.items():
        assert programs[kind].verify(f.matrices[kind])
        counts = programs[kind].counts()
        assert (counts.add, counts.mul) == (added, scaled)
        rows = summation(f.matrices[kind], "naive").counts()
        # A row of one negative entry is a sign here, and an instruction of the program.
        negations = sum(
            sorted(row)[0] == -1 and sum(map(abs, row)) == 1 for row in f.matrices[kind]
        )
        assert [rows.add - negations, rows.mul] == plain


def test_operations_are_counted_once(monkeypatch):
    f = cook_toom(2, 3)
    assert f.operations["input"] == (4, 0, 4, 0)
    monkeypatch.setattr("winogen.programs", None)
    assert f.operations["output"] == (4, 0, 4, 0)
    assert BilinearAlgorithm.from_dict(f.to_dict()) == f


def test_latex_is_read_back():
    f = ALGORITHMS["irrational"]
    lines = f.latex().splitlines()
    assert lines[0] == "% F(2, 4): 0, 1, sqrt(2), -sqrt(2), inf"
    assert equation(f.latex()) == [
        f"{name}={sympy.latex(matrix, mat_str='bmatrix', mat_delim='')}".replace(" ", "")
        for name, matrix in (("A^T", f.AT), ("G", f.G), ("B^T", f.BT))
    ]


def equation(text: str) -> list[str]:
    """The equations of a text, without white space."""
    lines = "".join(line for line in text.splitlines() if not line.startswith("%"))
    return [
        f"{part}\\end{{bmatrix}}".replace(" ", "") for part in lines.split("\\end{bmatrix}")[:-1]
    ]


@pytest.mark.parametrize("m", [2, 6, 13])
def test_latex_fits_a_page(m):
    f = cook_toom(m, 3)
    text = f.latex()
    assert max(map(len, text.splitlines())) <= 100
    whole = [sympy.latex(matrix, mat_str="bmatrix", mat_delim="") for matrix in (f.AT, f.G, f.BT)]
    assert [part.split("=")[1] for part in equation(text)] == [t.replace(" ", "") for t in whole]


def test_notebooks_show_matrices():
    f = cook_toom(2, 3)
    shown = f._repr_latex_()
    assert shown.startswith(
        "$\\displaystyle \\begin{aligned} A^T &= \\begin{bmatrix} 1 & 1 & 1 & 0"
    )
    assert shown.count("bmatrix") == 6 and "\n" not in shown and shown.endswith("{aligned}$")
    assert nest(f, cook_toom(4, 3))._repr_latex_().count("bmatrix") == 12
    assert cook_toom(20, 3)._repr_latex_() is None  # wider than a page: its repr is shown
