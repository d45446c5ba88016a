"""Data goes one way: folders import only from those before them in docs/architecture.md."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from winogen.environment import VARIABLES

ROOT = Path(__file__).parents[2]
PICTURE = (ROOT / "docs" / "architecture.md").read_text("utf-8").partition("```text")[2]
ORDER = [*re.findall(r"│  (\w+)  ", PICTURE), "cli"]


def imported(path: Path) -> set[str]:
    """The folders of winogen that a file imports from, wherever in the file it does so."""
    package = path.relative_to(ROOT).parts[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *filter(None, [node.module])))
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        parts = [name.split(".") for name in names]
        found |= {p[1] for p in parts if p[0] == "winogen" and len(p) > 1 and p[1] in ORDER}
    return found


def test_the_picture_has_every_folder():
    folders = {path.parent.name for path in (ROOT / "winogen").glob("*/__init__.py")}
    assert sorted(folders) == sorted(ORDER)


def test_only_commands_know_the_laboratory():
    """... and they import it when they run, not when the command line starts."""
    for path in (ROOT / "winogen").rglob("*.py"):
        if path.relative_to(ROOT).parts[1] not in ("lab", "cli"):
            assert "lab" not in imported(path), path
    code = (
        "import sys, winogen.cli.app; print(*(m for m in sys.modules if m.startswith(sys.argv[1])))"
    )
    command = [sys.executable, "-c", code, "winogen.lab"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "\n"


@pytest.mark.parametrize("folder", ORDER)
def test_imports_go_one_way(folder):
    allowed = {*ORDER[: ORDER.index(folder) + 1]}
    for path in (ROOT / "winogen" / folder).rglob("*.py"):
        assert imported(path) <= allowed, path.relative_to(ROOT)


def test_the_page_of_files_is_what_the_script_writes(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    files_page = importlib.import_module("files_page")
    assert files_page.PAGE.read_text("utf-8") == files_page.page(), "run scripts/files_page.py"


def test_variables_of_the_environment_are_read_in_one_place_and_told_on_one_page():
    reads = re.compile(r"""(?:environ\.get\(|getenv\(|environ\[|get\()\s*"WINOGEN_\w+"(?!\] = )""")
    for path in (ROOT / "winogen").rglob("*.py"):
        assert not reads.search(path.read_text("utf-8")), path.relative_to(ROOT)
    page = (ROOT / "docs" / "conv2d.md").read_text("utf-8").partition("## Environment")[2]
    assert re.findall(r"(?m)^\| `(WINOGEN_\w+)`", page) == list(VARIABLES)
