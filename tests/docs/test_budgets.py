"""budgets.toml bounds how large the code may become, and falls with it."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TEXT = '''"""A module."""

# A comment.
import os


def where(name: str) -> str:
    """Return where it is.

    On several lines.
    """
    return """not a
docstring""" + name  # but code
'''


@pytest.fixture
def budgets(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("budgets")


def test_nothing_is_larger_than_its_budget_and_no_budget_much_larger(budgets):
    now, most = budgets.measured(), budgets.budgets()
    assert {table: [*values] for table, values in now.items()} == {
        table: [*values] for table, values in most.items()
    }, "a room came or went: budgets.toml has a line for each"
    for table, values in now.items():
        room = 5 if table == "counts" else 3 * budgets.STEP
        for key, value in values.items():
            budget = most[table][key]
            assert value <= budget, f"{key}: delete something, or raise its budget and say why"
            assert budget - value <= room, f"{key}: run python scripts/budgets.py --lower"


def test_code_is_what_is_no_comment_and_no_docstring(budgets):
    lines, tokens = budgets.weight(TEXT)
    assert lines == 4  # import, def, and two of return
    assert tokens == len("import os def where ( name : str ) -> str : return TEXT + name".split())


def test_lowering_raises_nothing_and_keeps_reasons(budgets, monkeypatch, tmp_path):
    path = tmp_path / "budgets.toml"
    path.write_text(
        '# a = 1\n["code lines"]\nfoo = 900  # for a reason\nbar = 100\n[counts]\nx = 3\n'
    )
    monkeypatch.setattr(budgets, "BUDGETS", path)
    now = {"code lines": {"foo": 410, "bar": 120}, "counts": {"x": 2}}
    monkeypatch.setattr(budgets, "measured", lambda: now)
    assert budgets.lowered() == (
        '# a = 1\n["code lines"]\nfoo = 500  # for a reason\nbar = 100\n[counts]\nx = 2\n'
    )
