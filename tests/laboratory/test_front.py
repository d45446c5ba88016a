"""Error against products: what is on the front, exact counts, tables and the picture."""

import json

import pytest
from typer.testing import CliRunner

from winogen.algebra import join, winograd
from winogen.cli.app import app
from winogen_lab.fronts import front
from winogen_lab.fronts.front import MARKED, fronts, render, ways_of


@pytest.fixture(scope="module")
def document():
    return fronts([3], most=8, trials=4)


def test_the_front_falls_from_direct_to_few_products(document):
    ways = ways_of(document["kernels"][0])
    best = sorted((way for way in ways if way.best), key=lambda way: way.per_output)
    errors = [way.predicted for way in best]
    assert errors == sorted(errors, reverse=True) and len(best) > 4
    assert {way.kind for way in ways} == set(front.KINDS)
    for way in ways:
        beaten = any(
            other.per_output < way.per_output and other.predicted < way.predicted for other in ways
        )
        assert not (way.best and beaten), way


def test_counts_are_exact(document):
    """Those of the literature, and what joining saves of each algorithm."""
    ways = {way.mark: way for way in ways_of(document["kernels"][0]) if way.mark}
    counts = {mark: (way.products, way.nested) for mark, way in ways.items()}
    assert counts == {
        "one x^2+1": (118, 121),
        "two such moduli": (132, 144),
        "SFC-6": (88, 100),
        "SFC-7": (132, 144),
        "Fourier, 16 points": (382, 529),
    }
    for one in MARKED[:3]:
        f = winograd(one.m, one.r, one.moduli)
        assert join(f, f).products == ways[one.name].products
    joined = [way for way in ways.values() if way.kind == "moduli, joined"]
    assert all(way.products < way.nested for way in joined)
    whole = next(way for way in ways_of(document["kernels"][0]) if way.kind == "FFT")
    # 32 x 32 real numbers: 510 complex numbers and 4 real ones.
    assert (whole.m, whole.products) == (30, 4 * 510 + 4)


def test_predictions_are_near_what_is_measured(document):
    """By random tiles; numpy's transforms have errors of 0.4 to 1.5 times the predicted."""
    measured = [way for way in ways_of(document["kernels"][0]) if way.measured is not None]
    assert {way.kind for way in measured} >= {"direct", "points", "Fourier tiles", "FFT"}
    for way in measured:
        low, high = (0.35, 1.6) if way.kind == "FFT" else (0.7, 1.4)
        assert low < way.measured / way.predicted < high, way


def test_the_table_and_the_picture(tmp_path):
    file, picture = tmp_path / "front.json", tmp_path / "front.png"
    words = ["--kernels", "3", "--most", "6", "--trials", "0", "--results", file, "--plot", picture]
    result = CliRunner().invoke(app, ["lab", "front", *map(str, words)])
    assert result.exit_code == 0, result.output
    document = json.loads(file.read_text("utf-8"))
    assert result.stdout.startswith(render(document).splitlines()[0])
    assert "382    529" in result.stdout and "SFC-6" in result.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    printed = CliRunner().invoke(app, ["lab", "front", *words[:6], "--json"]).stdout
    assert json.loads(printed) == document


def test_kernels_that_are_refused():
    result = CliRunner().invoke(app, ["lab", "front", "--kernels", "12"])
    assert result.exit_code == 2 and "kernels: got 12; allowed: from 2 to 9" in result.output


def test_growth_of_memory_over_the_tile(tmp_path):
    """Filters of F(4x4, 3x3) are four times as many, products 2.25; 36/25 and 9 of F(2x2, 5x5)."""
    picture = tmp_path / "growth.svg"
    words = ["lab", "growth", "--most", "4", "--plot", str(picture)]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.output
    rows = {line[:13].strip(): line[13:].split() for line in found.stdout.splitlines()[1:]}
    assert rows["F(4x4, 3x3)"] == ["4", "2.25"]
    assert rows["F(2x2, 5x5)"] == ["1.44", "9"] and rows["F(1x1, 3x3)"] == ["1", "9"]
    drawn = picture.read_text()
    assert "filters, two axes" in drawn and "5×5" in drawn
    refused = CliRunner().invoke(app, ["lab", "growth", "--kernels", "16"])
    assert refused.exit_code == 2 and "kernels: got 16" in refused.stderr
