"""The page of the sources: rows have places that exist, or a sentence; Maji's Tables 4.3, 4.4."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "sources.md").read_text("utf-8")
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| s")
]


def kind(cell: str) -> str:
    return cell[0] if cell[0] in "✔–" else "a sentence"


def places(cell: str) -> list[str]:
    """What a row names: pages by links; commands, files and modules in backquotes."""
    links = re.findall(r"\]\(([\w-]+\.md)\)", cell)
    named = re.findall(r"`((?:winogen|tests|scripts)[ ./_][^`]*)`", cell)
    return [*(f"docs/{link}" for link in links), *named]


def exists(place: str) -> bool:
    if "/" in place:
        return (ROOT / place).is_file()
    if place.startswith("winogen "):
        return place in commands()
    module, _, name = place.rpartition(".")
    try:
        importlib.import_module(place)
    except ModuleNotFoundError:
        return hasattr(importlib.import_module(module), name)
    return True


def commands() -> set[str]:
    """All commands, those of the laboratory included."""
    from winogen.cli.app import app
    from winogen_lab.cli.app import laboratory

    here = {f"winogen {one.name or one.callback.__name__}" for one in app.registered_commands}
    there = {one.name or one.callback.__name__ for one in laboratory.registered_commands}
    return here | {"winogen bench"} | {f"winogen lab {name.replace('_', '-')}" for name in there}


def test_the_counts_are_those_of_the_rows():
    kinds = [kind(row[2]) for row in ROWS]
    counts = [kinds.count(one) for one in ("✔", "–", "a sentence")]
    assert "Rows: {} ✔, {} –, {} a sentence.".format(*counts) in PAGE


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}: {row[1]}"[:60])
def test_each_row_has_a_place_or_a_sentence(row):
    assert len(row) == 3 and all(row)
    if kind(row[2]) == "✔":
        assert places(row[2]), f"{row}: ✔ without a place"
    elif kind(row[2]) == "a sentence":
        assert re.fullmatch(r".{25,}\.", row[2]), f"{row}: no sentence"
    for place in places(row[2]):
        assert exists(place), f"{row}: {place} is not there"


# Maji's Tables 4.3 and 4.4: products per output of F(m x m, r x r), as printed.
PRINTED = {
    3: (9, 4, 2.78, 2.25, 1.96, 1.78, 1.65, 1.56),
    5: (25, 9, 5.44, 4, 3.24, 2.78, 2.47, 2.25),
}


@pytest.mark.parametrize("r", PRINTED)
def test_products_per_output(r):
    from winogen.algebra import cook_toom

    for m, printed in enumerate(PRINTED[r], 1):
        assert (cook_toom(m, r).products / m) ** 2 == pytest.approx(printed, abs=0.006)
