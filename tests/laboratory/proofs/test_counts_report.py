"""The page of operation counts says what the programs cost."""

import re
import sys
from pathlib import Path

import pytest
from laboratory.proofs import counts_report as report

from winogen.algebra import cook_toom
from winogen.program import simplify
from winogen.program.analysis import naive_counts

PAGE = (Path(__file__).parents[3] / "docs" / "operation-counts.md").read_text("utf-8")


@pytest.mark.thorough
def test_naive_counts_are_those_of_row_by_row_programs():
    for m, r in ((2, 3), (4, 3), (3, 5)):
        algorithm = cook_toom(m, r)
        for matrix in algorithm.matrices.values():
            assert simplify(matrix).counts().instructions <= naive_counts(matrix).instructions
    assert naive_counts(cook_toom(2, 3).g).instructions == 6


@pytest.mark.parametrize("task", [(2, 3, None), (4, 3, None), (4, 3, "0, 1, -1, 2, -2, inf")])
def test_the_page_is_up_to_date_where_that_is_quick_to_see(task):
    rows = report.measure(*task)
    if task in report.BEST_KNOWN:
        best = " / ".join(str(rows[kind].best) for kind in rows)
        rescaled = " / ".join(str(rows[kind].rescaled) for kind in rows)
        assert f"| F({task[0]}, {task[1]}) | {task[2]} |" in PAGE
        assert f"| {best} | {rescaled} |" in PAGE
        return
    for kind, row in rows.items():
        line = (
            rf"{kind} \| {row.naive} → {row.hierarchy} → {row.best} → {row.rescaled} \| "
            rf"{row.additions}(, minimal)? \| {row.depth} \| {row.registers} \|"
        )
        assert re.search(line, PAGE), line


def test_nothing_on_the_page_is_worse_than_the_best_known():
    section = PAGE.partition("## Beside the best known")[2].partition("## Default points")[0]
    lines = [line for line in section.splitlines() if line.startswith("| F(") and "/" in line]
    lines = [line for line in lines if not line.startswith("| F(m")]
    assert len(lines) == len(report.BEST_KNOWN)
    for line in lines:
        cells = [c.strip() for c in line.strip("|").split("|")]
        known, given, rescaled = ([int(n) for n in re.findall(r"\d+", c)] for c in cells[2:5])
        assert all(a <= b for a, b in zip(given, known))
        assert rescaled[0] <= known[0] and rescaled[2] <= known[2]
        if cells[5] != "–":
            published, ours = ([int(n) for n in re.findall(r"\d+", c)] for c in cells[5:7])
            assert all(a <= b for a, b in zip(ours, published))


def test_the_smallest_transforms_are_proven_minimal():
    assert "| 4 / 3 / 4 | 4* / 3* / 4* |" in PAGE
    for gates in report.measure(2, 3).values():
        assert report.minimal(gates.question)


def test_all_that_is_waited_for_is_told(monkeypatch):
    # Processes that are spawned find the module, after what is installed.
    monkeypatch.setattr(sys, "path", [*sys.path, str(Path(__file__).parents[2])])
    monkeypatch.setattr(report, "GRID", ((2, 3), (2, 2)))
    monkeypatch.setattr(report, "BEST_KNOWN", {})
    monkeypatch.setattr(report, "_TWO_DIMENSIONAL", ())
    monkeypatch.setattr(report, "ADDERS", ("f2_2",))
    monkeypatch.setattr(report, "SQUARE", ())
    steps = []
    page = report.operation_counts_table(1, lambda *step: steps.append(step))
    assert "| F(2, 2) | input |" in page
    assert steps[:2] == [(0, 2, "F(2, 3)"), (1, 2, "F(2, 2)")]
    assert "| `f2_2` | B^T | 2 | 2 |" in page
    proofs = steps[2:-2]
    assert [done for done, _, _ in proofs] == list(range(len(proofs)))
    assert all(name.startswith("proof for ") for _, _, name in proofs)
    assert [name for _, _, name in steps[-2:]] == [
        "programs in two dimensions",
        "programs of adders",
    ]
