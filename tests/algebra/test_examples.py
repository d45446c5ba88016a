"""Every example in the algebra's docstrings and on the theory page runs."""

import doctest
import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

import winogen.algebra

THEORY = Path(__file__).parents[2] / "docs" / "theory.md"


@pytest.mark.parametrize("name", [m.name for m in iter_modules(winogen.algebra.__path__)])
def test_docstrings(name):
    module = import_module(f"winogen.algebra.{name}")
    assert doctest.testmod(module).failed == 0


def test_theory_page():
    """All python blocks of the page, in order, in one namespace."""
    text = THEORY.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 8
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "theory.md", str(THEORY), 0)
    assert doctest.DocTestRunner().run(test).failed == 0
