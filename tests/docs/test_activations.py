"""What the docs say of activations is what the table says.

``python -m pytest tests/docs/test_activations.py --update-golden`` writes the rows of the page;
`scripts/signatures.py` writes the docstring of `conv2d`.
"""

import re
from pathlib import Path

import pytest

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


# The file, what stands before the text, what comes behind it, and the text.
PLACES = {
    "page": ("docs/conv2d.md", "| error | `activation=` |\n|---|---|\n", "\n", rows()),
}


@pytest.mark.parametrize("place", PLACES)
def test_the_docs_say_what_the_table_says(place, request):
    file, before, behind, texts = PLACES[place]
    path, text = ROOT / file, "".join(texts)
    old = path.read_text("utf-8")
    pattern = f"(?<={re.escape(before)}).*?(?=^{re.escape(behind)})"
    new, places = re.subn(pattern, lambda _: text, old, count=1, flags=re.DOTALL | re.MULTILINE)
    if request.config.getoption("--update-golden"):
        path.write_text(new, "utf-8")
        return
    assert places == 1 and new == old, (
        f"{file} says something else; to write it:\n"
        "python -m pytest tests/docs/test_activations.py --update-golden"
    )
