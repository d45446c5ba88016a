"""Folders whose functions are annotated completely stay so; mypy checks what they say."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "winogen"
COMPLETE = ("numerics", "tuning", "lab")


def gaps(path: Path) -> list[str]:
    """The functions of a file that lack the type of an argument or of the result."""
    lacking = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        arguments = node.args
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        named += filter(None, (arguments.vararg, arguments.kwarg))
        untyped = [one.arg for one in named if one.annotation is None]
        typed_somewhere = len(untyped) < len(named)
        untyped = [name for name in untyped if name not in ("self", "cls")]
        # As in PEP 484, `__init__` with an annotated argument needs no result.
        result = node.returns or (node.name == "__init__" and typed_somewhere)
        if untyped or not result:
            lacking.append(f"{path.name}:{node.lineno} {node.name}")
    return lacking


@pytest.mark.parametrize("folder", COMPLETE)
def test_every_function_is_annotated(folder):
    files = sorted((PACKAGE / folder).rglob("*.py"))
    assert files and not [gap for path in files for gap in gaps(path)]


def test_a_gap_is_seen(tmp_path):
    (tmp_path / "a.py").write_text("def f(x, y: int) -> int: ...\ndef g(x: int): ...\n")
    assert gaps(tmp_path / "a.py") == ["a.py:1 f", "a.py:2 g"]
