"""The page of operation counts says what programs of adders cost, and no rival's cost less."""

import re
from pathlib import Path

import pytest
from laboratory.proofs import adders_report as report

from winogen.program.adders import adders

PAGE = (Path(__file__).parents[3] / "docs" / "operation-counts.md").read_text("utf-8")
PART = PAGE.partition("\n## Adders\n")[2]
FIRST, BOTH = PART.split("In two dimensions")
CLASSIC = (
    (4, 0, -5, 0, 1, 0),
    (0, -4, -4, 1, 1, 0),
    (0, 4, -4, -1, 1, 0),
    (0, -2, -1, 2, 1, 0),
    (0, 2, -1, -2, 1, 0),
    (0, 4, 0, -5, 0, 1),
)


def table(text):
    """Name -> symbol -> the cells behind them."""
    found, name = {}, ""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[1]:
            name = cells[0].strip("`") or name
            found.setdefault(name, {})[cells[1]] = cells[2:]
    return found


def cost(cell):
    return tuple(map(int, re.findall(r"\d+", cell)))


def test_the_page_has_every_small_transform_of_fractions():
    known = table(FIRST)
    assert list(known) == [name for name, _ in report.entries()]
    assert {"f4_3", "f4_3_classic", "f6_3_gaussian"} <= set(known)
    assert "f4_3_sqrt2" not in known


def test_nothing_on_the_page_takes_more_adders_bits_or_levels_than_da4ml():
    for name, rows in table(FIRST).items():
        for symbol, (by_rows, by_pairs, theirs, ours) in rows.items():
            assert all(a <= b for a, b in zip(cost(ours), cost(theirs))), (name, symbol)
            assert int(by_pairs) <= int(by_rows), (name, symbol)


def test_both_axes_together_take_a_tenth_less_than_da4ml():
    rows = [cells for rows in table(BOTH).values() for cells in rows.values()]
    found = [[cost(cell) for cell in cells] for cells in rows if cost(cells[0])]
    pairs = [((whole or nested)[0], theirs[0]) for theirs, nested, whole in found]
    assert all(ours <= theirs for ours, theirs in pairs)
    assert sum(ours for ours, _ in pairs) <= 0.9 * sum(theirs for _, theirs in pairs)
    assert all(whole[0] <= nested[0] for _, nested, whole in found if whole)


def test_least_counts_the_results_of_a_matrix_or_of_its_transpose():
    """24 of A^T of F(2, 3) along both axes are the least there is."""
    rows = ((1, 1, 1, 0), (0, 1, -1, -1))
    whole = tuple(tuple(a * b for a in p for b in q) for p in rows for q in rows)
    assert report.least(whole) == 24 == report.nested(report.ours(rows, "output", None))
    assert "minimal" in table(BOTH)["f2_3"]["A^T"][2]
    for matrix in (CLASSIC, tuple(zip(*CLASSIC)), rows):
        assert report.least(matrix) <= adders(report.ours(matrix, "output", None))


@pytest.mark.parametrize("name", ["f3_2", "f2_3", "f4_3_classic"])
def test_the_page_is_up_to_date_where_that_is_quick_to_see(name):
    made = dict(report.entries())[name]
    for (kind, matrix), cells in zip(made.matrices.items(), table(FIRST)[name].values()):
        program = report.ours(matrix, kind, cost(cells[2])[2])
        assert cells == [
            str(report.by_rows(matrix)),
            str(report.by_pairs(matrix)),
            cells[2],
            str(report.cost(program)),
        ]


def test_rows_and_pairs_of_a_known_matrix():
    assert report.by_rows(CLASSIC) == 18
    assert report.by_pairs(CLASSIC) == 12


def test_a_program_along_both_axes_runs_on_columns_and_rows():
    program = report.ours(((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, -1, 0, 1)), "input", 1)
    assert report.nested(program) == 4 * 8
    # Differences of bytes have 9 bits, their sums and differences 10.
    assert report.nested_bits(program) == 4 * 4 * 9 + 4 * 4 * 10
    assert adders(program) == 4


def test_da4ml_computes_what_it_is_asked_for():
    pytest.importorskip("da4ml")
    least = report.da4ml(CLASSIC)[0]
    assert (least.adders, least.depth) == (12, 2)
