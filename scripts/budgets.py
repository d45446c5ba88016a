"""What the code weighs, beside the budgets of budgets.toml.

`python scripts/budgets.py` prints both; `--lower` makes every budget as small as it may be.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
BUDGETS = ROOT / "budgets.toml"
STEP = 100  # budgets of lines are multiples of it, so that small changes fit between two commits
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def python_files(*folders: str) -> list[Path]:
    """All files of Python in folders of the repository."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def weight(text: str) -> tuple[int, int]:
    """(lines, tokens) of code: without blank lines, comments and docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            docstrings.add((node.body[0].lineno, node.body[0].col_offset))
    lines: set[int] = set()
    tokens = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE and token.start not in docstrings:
            tokens += 1
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines), tokens


@cache
def rooms() -> dict[str, tuple[int, int]]:
    """(lines, tokens) of code: of each folder of winogen/, of files beside them, and of lab/."""
    sums: dict[str, tuple[int, int]] = {}
    for path in python_files("winogen", "lab"):
        whole, *parts = path.relative_to(ROOT).parts
        room = parts[0] if len(parts) > 1 else "beside the folders"
        room = room if whole == "winogen" else "of the laboratory"
        lines, tokens = weight(path.read_text("utf-8"))
        before = sums.get(room, (0, 0))
        sums[room] = (before[0] + lines, before[1] + tokens)
    return sums


def repeated_classes() -> int:
    """How many names of classes stand for more than one class of winogen/."""
    names = Counter(
        node.name
        for path in python_files("winogen")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    return sum(count > 1 for count in names.values())


def commands() -> Iterator[Any]:
    """Every command of the command line that is no group of others."""
    import typer.main

    from winogen.cli.app import app

    waiting = [typer.main.get_command(app)]
    while waiting:
        command = waiting.pop()
        below = getattr(command, "commands", None)
        if below is None:
            yield command
        else:
            waiting += below.values()


def physical_lines(paths: list[Path]) -> int:
    """All lines of files."""
    return sum(len(path.read_text("utf-8").splitlines()) for path in paths)


def measured() -> dict[str, dict[str, int]]:
    """What budgets.toml bounds, as it is now: the tables and keys are those of the file."""
    import winogen

    listed = list(commands())
    files = python_files("winogen")
    return {
        "code lines": {room: lines for room, (lines, _) in sorted(rooms().items())},
        "all lines": {
            "winogen": physical_lines(files),
            "lab": physical_lines(python_files("lab")),
            "csrc": physical_lines(sorted(p for p in (ROOT / "csrc").rglob("*") if p.is_file())),
            "tests": physical_lines(python_files("tests")),
        },
        "counts": {
            "public names": len(winogen.__all__),
            "commands": len(listed),
            "options": sum(p.param_type_name == "option" for c in listed for p in c.params),
            "classes whose names are used again": repeated_classes(),
            "files of more than 400 lines": sum(physical_lines([path]) > 400 for path in files),
        },
    }


def budgets() -> dict[str, dict[str, int]]:
    """What budgets.toml allows."""
    return tomllib.loads(BUDGETS.read_text("utf-8"))


def smallest(table: str, value: int) -> int:
    """The least budget that a value of a table may have."""
    return value if table == "counts" else -(-value // STEP) * STEP


def lowered() -> str:
    """The text of budgets.toml with every budget as small as it may be; none is raised."""
    now = measured()
    lines = []
    table = ""
    for line in BUDGETS.read_text("utf-8").splitlines():
        key, equals, value = line.partition(" = ")
        if line.startswith("["):
            table = line.strip('[]"')
        elif equals and not line.startswith("#") and key.strip('"') in now[table]:
            number, space, why = value.partition(" ")
            least = smallest(table, now[table][key.strip('"')])
            line = f"{key} = {min(int(number), least)}{space}{why}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print what is measured beside its budget; the status says whether everything is within."""
    if sys.argv[1:] == ["--lower"]:
        BUDGETS.write_text(lowered(), "utf-8")
    elif sys.argv[1:]:
        print(f"{sys.argv[1]}: got {' '.join(sys.argv[1:])}; allowed: --lower", file=sys.stderr)
        return 2
    now, most = measured(), budgets()
    over = False
    for table, values in now.items():
        print(f"{table:40} {'now':>8} {'budget':>8}")
        for key, value in values.items():
            budget = most[table].get(key, 0)
            over |= value > budget
            print(f"  {key:38} {value:8} {budget:8}{'  over' if value > budget else ''}")
        if table != "counts":
            print(f"  {'in all':38} {sum(values.values()):8} {sum(most[table].values()):8}")
    sums = [sum(pair) for pair in zip(*rooms().values())]
    print(f"tokens in a line of code: {sums[1] / sums[0]:.1f}")
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
