"""Formulas of activations as C, and what is said of words that they lack."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from conv.activations import MPMATH, NUMPY

from winogen.codegen.formulas import scalar
from winogen.errors import InvalidValue
from winogen.records import ACTIVATIONS
from winogen.records.activation import FUNCTIONS, OPERATORS

ROOT = Path(__file__).parents[2]


def c_of(formula):
    return scalar(replace(ACTIVATIONS["relu"], formula=formula))


def test_a_formula_is_the_c_of_its_words():
    for name in FUNCTIONS:
        assert c_of(lambda f, y, name=name: getattr(f, name)(y)) == f"{name}(y)"
    limited = c_of(lambda f, y: f.where(y > 1e30, 1e30, y) / 2)
    assert limited == "(y > 1e+30 ? 1e+30 : y) / 2"


@pytest.mark.parametrize(
    "word, formula",
    {
        "abs": lambda f, y: y / (1 + abs(y)),
        "**": lambda f, y: y**2,
        "<=": lambda f, y: f.where(y <= 1, y, 1),
        ">=": lambda f, y: f.where(y >= 1, y, 1),
        "a condition outside of f.where": lambda f, y: max(y, 0),
        "a function of Python's math": lambda f, y: math.exp(y),
        "f.sin": lambda f, y: f.sin(y),
    }.items(),
)
def test_a_word_that_formulas_lack_is_named_with_those_they_have(word, formula):
    with pytest.raises(InvalidValue) as refusal:
        c_of(formula)
    told = str(refusal.value)
    assert told.startswith(f"formula: got {word}") and "allowed: + - * / < >, f.where(" in told
    assert all(f"f.{name}" in told for name in FUNCTIONS)


def test_all_libraries_and_the_page_have_these_words():
    for library in (NUMPY, MPMATH):
        assert isinstance(library, SimpleNamespace)
        assert set(vars(library)) == {"where", *FUNCTIONS}
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = page.partition("## Add an activation")[2].partition("\n## ")[0]
    assert all(f"`f.{name}`" in section for name in FUNCTIONS)
    assert all(f"`{sign}`" in section for sign in OPERATORS)


def test_the_page_has_the_functions_of_the_c():
    """Those that the entry of an activation may call, by name."""
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = page.partition("## Add an activation")[2].partition("\n## ")[0]
    parts = (ROOT / "csrc/parts/activation.h.j2").read_text("utf-8")
    for name in ("magnitude", "exp_of", "expm1_of", "log1p_of", "gated", "relu_of"):
        assert f"INLINE vec {name}(" in parts and f"`{name}(" in section
    vectors = (ROOT / "csrc/parts/vector.h.j2").read_text("utf-8")
    for name in ("broadcast", "choose"):
        assert f"INLINE vec {name}(" in vectors and f"`{name}(" in section
