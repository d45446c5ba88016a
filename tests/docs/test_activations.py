"""What the docs say of activations is what the table says.

``python -m pytest tests/docs/test_activations.py --update-golden`` writes the rows of the page;
`scripts/signatures.py` writes the docstring of `conv2d`.
"""

import re
from fractions import Fraction
from pathlib import Path

import pytest

from winogen.records import ACTIVATIONS

ROOT = Path(__file__).parents[2]


def asked(known, join, code):
    """How a user asks for it, and by default with which numbers."""
    numbers = (Fraction(value).limit_denominator(100) for value in known.defaults)
    defaults = ", ".join(f"{name} {value}" for name, value in zip(known.parameters, numbers))
    words = join.join(f"{code}{text}{code}" for text in known.spellings)
    return words + f" ({defaults} by default)" * bool(defaults)


def rows():
    """The rows of the table in docs/conv2d.md."""
    for known in ACTIVATIONS.values():
        means, error = (
            text.replace("|", r"\|").replace(" * ", " · ").replace(">=", "≥")
            for text in (known.means, known.error)
        )
        yield f"| {asked(known, ', ', '`')} | {means} | {error} |\n"


# The file, what stands before the text, what comes behind it, and the text.
PLACES = {
    "page": ("docs/conv2d.md", "| of a sum y | error |\n|---|---|---|\n", "\n", rows()),
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
