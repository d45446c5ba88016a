"""Data goes one way: folders know only those before them in docs/architecture.md."""

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


def known(path: Path) -> set[str]:
    """The folders of winogen that a file imports from, wherever it does, or names modules of."""
    package = path.relative_to(ROOT).parts[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *filter(None, [node.module])))
            names = [f"{module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and names_a_module(node.value):
            names = [node.value]
        else:
            continue
        parts = [name.split(".") for name in names]
        found |= {p[1] for p in parts if p[0] == "winogen" and len(p) > 1 and p[1] in ORDER}
    return found


def names_a_module(value: object) -> bool:
    """Whether a string in the code is the name of one of our modules."""
    if not isinstance(value, str) or not re.fullmatch(r"winogen(\.\w+)+", value):
        return False
    path = ROOT.joinpath(*value.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def test_the_picture_has_every_folder():
    folders = {path.parent.name for path in (ROOT / "winogen").glob("*/__init__.py")}
    assert sorted(folders) == sorted(ORDER)


def test_winogen_does_not_know_the_laboratory():
    """Neither by an import nor by a string: what the laboratory adds, its entry points say."""
    for folder in ("winogen", "csrc"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                said = re.search(rb"winogen[._/]lab\b|lab[./]winogen_lab", path.read_bytes())
                assert not said, path.relative_to(ROOT)


@pytest.mark.parametrize("module", ["winogen.cli.app", "winogen.conv"])
def test_the_laboratory_is_imported_when_it_is_named(module):
    """... nor looked for: a command of winogen's own starts as fast as without it."""
    code = """if True:
        import importlib, sys
        from winogen import plugins
        importlib.import_module(sys.argv[1])
        print(*(name for name in sys.modules if name.startswith("winogen_lab")), end="")
        print(plugins.offered.cache_info().currsize)
        """
    command = [sys.executable, "-c", code, module]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "0\n"


@pytest.mark.parametrize("folder", ORDER)
def test_imports_go_one_way(folder):
    allowed = {*ORDER[: ORDER.index(folder) + 1]}
    for path in (ROOT / "winogen" / folder).rglob("*.py"):
        assert known(path) <= allowed, path.relative_to(ROOT)


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
