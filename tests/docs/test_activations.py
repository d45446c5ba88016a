"""What the docs say of activations is what the table says.

``python -m pytest tests/docs/test_activations.py --update-golden`` writes the rows of the page;
`scripts/signatures.py` writes the docstring of `conv2d`.
"""

import re
from pathlib import Path

from winogen.records import ACTIVATIONS

ROOT = Path(__file__).parents[2]


def rows():
    """The rows of the table in docs/conv2d.md: an error, and the activations that have it."""
    alike: dict[str, list[str]] = {}
    for known in ACTIVATIONS.values():
        error = known.error.replace("|", r"\|").replace(" * ", " · ")
        alike.setdefault(error, []).extend(f"`{text}`" for text in known.spellings)
    for error, spellings in sorted(alike.items(), key=lambda row: (row[0][0].isdigit(), row[0])):
        yield f"| {error} | {', '.join(spellings)} |\n"


HEAD = re.escape("| error | `activation=` |\n|---|---|\n")


def test_the_docs_say_what_the_table_says(request):
    path, text = ROOT / "docs" / "conv2d.md", "".join(rows())
    old = path.read_text("utf-8")
    new, places = re.subn(f"(?<={HEAD}).*?(?=\n\n)", lambda _: text.rstrip(), old, flags=re.DOTALL)
    if request.config.getoption("--update-golden"):
        path.write_text(new, "utf-8")
        return
    assert places == 1 and new == old, (
        f"{path} says something else; to write it:\n"
        "python -m pytest tests/docs/test_activations.py --update-golden"
    )
