"""The parts of a report: what is worth having, files that come all or none, labels, numbers."""

import csv
import io
import json
import re
from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from winogen.errors import InvalidValue
from winogen.lab.reports import charts, files
from winogen.lab.reports.labels import label
from winogen.lab.reports.page import error_text, number_text, points_text, python_text
from winogen.lab.reports.pareto import front, staircase

PAIRS = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6).map(float)), max_size=12)


@given(PAIRS)
def test_the_front_beats_all_others(pairs):
    best = [pair for pair, optimal in zip(pairs, front(pairs)) if optimal]
    for pair, optimal in zip(pairs, front(pairs)):
        beaten = any(a <= pair[0] and b <= pair[1] and (a, b) != pair for a, b in best)
        assert optimal is not beaten


@given(PAIRS)
def test_a_staircase_goes_down(pairs):
    steps = staircase(pairs)
    assert steps == sorted(steps) and len({cost for cost, _ in steps}) == len(steps)
    assert all(left[1] > right[1] for left, right in pairwise(steps))


def test_noise_beats_nobody():
    assert front([(2, 1.00), (2, 1.01)], [0.01, 0.01]) == [True, True]
    assert front([(2, 1.00), (2, 1.03)], [0.01, 0.01]) == [True, False]
    assert front([(1, 1.00), (2, 1.00)], [0.01, 0.01]) == [True, False]


# ---- files ---------------------------------------------------------------------------------------


def test_a_report_replaces_the_one_before(tmp_path):
    place = tmp_path / "new" / "report"
    for text in ("first", "second"):
        with files.folder(place) as partial:
            (partial / "a.txt").write_text(text)
            assert not (place / "b.txt").exists()
        assert [path.name for path in place.iterdir()] == ["a.txt"]
        assert (place / "a.txt").read_text() == text


def test_a_report_that_fails_leaves_what_was_there(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "a.txt").write_text("kept")
    for place in ("old", "new/deep"):
        with pytest.raises(ZeroDivisionError), files.folder(tmp_path / place) as partial:
            (partial / "a.txt").write_text("half")
            raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert [path.read_text() for path in (tmp_path / "old").iterdir()] == ["kept"]


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/self/nothing/here"])
def test_a_place_that_cannot_be_written_to(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InvalidValue, match="output: got .* allowed: a folder"), files.folder(place):
        pytest.fail("went on")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=4), VALUES, max_size=4))
def test_json_keeps_everything(document):
    assert json.loads(files.json_text(document)) == document


def test_json_has_a_line_per_row():
    text = files.json_text({"a": {"rows": [{"x": 1}, {"x": [2, {"y": 3}]}]}})
    assert '{"x": 1},\n{"x": [2, {"y": 3}]}\n]' in text


def test_csv_is_flat_and_aligned():
    rows = [
        {"a": 1, "e": {"x": 0.5, "y": None}, "tile": [2, 3]},
        {"a": "b,c", "late": True, "points": [["0", "1"], None]},
    ]
    first, second = csv.DictReader(io.StringIO(files.csv_text(rows)))
    assert first == {"a": "1", "e.x": "0.5", "e.y": "", "tile": "2 3", "late": "", "points": ""}
    assert second["a"] == "b,c" and second["late"] == "True" and second["points"] == "0,1 -"


# ---- pictures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_labels_keep_clear_of_each_other_and_of_points(seed):
    rng = np.random.default_rng(seed)
    spots = rng.uniform(0, 1, (14, 2)) ** 2  # crowded in a corner
    figure = Figure(figsize=(5, 4), dpi=72, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.plot(*spots.T, "o", markersize=4)
    left_out = label(axes, [(x, y, f"F({k},3) name") for k, (x, y) in enumerate(spots)])
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(text) for text in axes.texts]  # without lines to points
    assert len(boxes) + len(left_out) == len(spots) and len(boxes) >= 8
    for k, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:k])
        assert axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1 + 1
        assert not any(box.contains(*spot) for spot in axes.transData.transform(spots))


def test_text_on_a_phone_is_at_least_twelve_pixels_high():
    points, pixels = 72 * charts._SIZES["narrow"][0], 390 - 2 * 16  # the page's margins
    assert charts._FONT["narrow"] * pixels / points >= 12


def test_rows_are_named_where_there_is_room():
    names = ["direct", "a name that takes half of a phone"]
    for kind in ("wide", "narrow"):
        figure = Figure(figsize=charts._SIZES[kind], dpi=72, layout="constrained")
        FigureCanvasAgg(figure)
        sheet = charts.Sheet(kind, figure)
        (axes,) = sheet.axes()
        sheet.name_rows(axes, names)
        figure.draw_without_rendering()
        beside = [label.get_text() for label in axes.get_yticklabels()]
        above = [text.get_text() for text in axes.texts]
        assert (above if kind == "narrow" else beside) == names
        assert axes.bbox.width > 0.6 * figure.bbox.width


def test_a_picture_takes_the_colours_of_the_page():
    def paint(sheet):
        (axes,) = sheet.axes()
        axes.plot([1, 2], [1e-7, 3e-7], "o-", markerfacecolor=charts.PAPER, label="a")
        axes.set_yscale("log")
        charts.few_ticks(axes.yaxis)
        sheet.legend()

    drawn = charts.draw(paint, "name")
    assert drawn == charts.draw(paint, "name")  # to the byte
    assert set(drawn) == {"wide", "narrow"}
    for kind, svg in drawn.items():
        assert svg.startswith("<svg ") and svg.endswith("</svg>")
        assert "currentColor" in svg and "var(--grid)" in svg and "var(--paper)" in svg
        assert not re.search("#0[123]0[123]0[123]", svg)
        ids = re.findall(r'\bid="([^"]+)"', svg)
        assert ids and all(name.startswith(f"name-{kind}-") for name in ids)
        for reference in re.findall(r'href="#([^"]+)"', svg) + re.findall(r"url\(#([^)]+)\)", svg):
            assert reference in ids
        assert not re.search(r"<svg [^>]*\b(width|height)=", svg)


@pytest.mark.parametrize("kind", charts._SIZES)
@pytest.mark.parametrize("labels", [["F(4,3) gaussian"] * 13, ["a", "moduli of degree 2, beaten"]])
def test_a_legend_is_no_wider_than_its_sheet(kind, labels):
    with matplotlib.rc_context(charts._style(kind)):
        figure = Figure(figsize=charts._SIZES[kind], dpi=72, layout="constrained")
        FigureCanvasAgg(figure)
        sheet = charts.Sheet(kind, figure)
        (axes,) = sheet.axes()
        for text in labels:
            axes.plot([1, 2], label=text)
        sheet.legend(columns=9)
        figure.draw_without_rendering()
        box = figure.legends[0].get_window_extent()
        assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1


def test_points_or_moduli_of_each_axis():
    assert points_text([None, ["0", "inf"]], [["x", "x^2 + 1"], None]) == "x, x^2 + 1; 0, ∞"
    assert points_text([["0", "-1"]] * 2, [None, None]) == "0, −1"


@pytest.mark.parametrize("value, text", [(2e-7, "2e-7"), (0.5, "0.5"), (1e-2, "0.01"), (20, "20")])
def test_ticks(value, text):
    assert charts._tick(value) == text


def test_numbers_on_the_page():
    assert [error_text(x) for x in (9.999e-8, 1e-5, 0.25)] == ["1.00e-7", "1.00e-5", "0.25"]
    assert [number_text(x) for x in (1234567, 0.123456)] == ["1,234,567", "0.1235"]
    assert python_text([[1, 2], [0, 0]]) == "((1, 2), 0)"
