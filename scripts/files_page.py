"""docs/files.md: every file of Python with the first line of its docstring."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "files.md"
HEAD = """# Files

*For people who change winogen: what each file is, in the order of the [data](architecture.md).*

`python scripts/files_page.py` writes this page from the first lines of docstrings.
"""


def first_line(path: Path) -> str:
    """The first paragraph of a module's docstring, as one line of a table."""
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    line = " ".join(text.partition("\n\n")[0].split()).replace("``", "`")
    return re.sub(r"(?<!\\)\|", r"\\|", line)


def rooms() -> list[str]:
    """The folders of winogen in the order of the picture in docs/architecture.md."""
    picture = (ROOT / "docs" / "architecture.md").read_text("utf-8").partition("```text")[2]
    named = [*re.findall(r"│  (\w+)  ", picture), "cli"]
    return [name for name in named if (ROOT / "winogen" / name).is_dir()]


def table(files: list[Path], folder: Path) -> str:
    """A row for each file, by its path in the folder."""
    rows = [f"| `{path.relative_to(folder)}` | {first_line(path)} |" for path in files]
    return "\n".join(["| file | what it is |", "|---|---|", *rows])


def page() -> str:
    """The text of docs/files.md."""
    package = ROOT / "winogen"
    parts = [HEAD]
    for name in rooms():
        folder = package / name
        files = sorted(path for path in folder.rglob("*.py") if path != folder / "__init__.py")
        about = re.sub(rf"^`?{name}`?: ", "", first_line(folder / "__init__.py"))
        about = about[:1].upper() + about[1:]
        parts.append(f"## {name}\n\n{about}\n\n{table(files, folder)}\n")
    laboratory = ROOT / "lab" / "winogen_lab"
    files = sorted(path for path in laboratory.rglob("*.py") if path.name != "__init__.py")
    about = first_line(laboratory / "__init__.py")
    parts.append(f"## The laboratory, lab/winogen_lab\n\n{about}\n\n{table(files, laboratory)}\n")
    parts.append(f"## Beside the folders\n\n{table(sorted(package.glob('*.py')), package)}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit("files_page.py: takes no arguments")
    PAGE.write_text(page(), "utf-8")
