"""The parts of a report: what is worth having, files that come all or none, labels, numbers."""

import csv
import io
import json
from base64 import b64decode
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winogen import charts
from winogen.errors import InvalidValue
from winogen.reports import files
from winogen.reports.page import Section
from winogen.tasks.pareto import front, staircase

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


def test_a_picture_is_the_same_to_the_byte():
    def paint(axes):
        axes.plot([1, 2], [1e-7, 3e-7], "o-", label="named")
        axes.set_yscale("log")
        charts.few_ticks(axes.yaxis)

    first, second = (Section("", (), paint).picture for _ in range(2))
    text = b64decode(first).decode()
    assert first == second and "</svg>" in text and "<!-- named -->" in text


def test_bars_for_every_name_and_place(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(charts, "save", lambda figure, path: drawn.append(figure))
    series = {"theirs": [1.0, 2.0], "winogen": [3.0, 0.0]}
    charts.save_bars(tmp_path / "x.png", "title", "unit", ["a", "b"], series, (2.5, "line"))
    (axes,) = drawn[0].axes
    assert [bar.get_height() for bar in axes.patches] == [1.0, 2.0, 3.0, 0.0]
    assert [text.get_text() for text in drawn[0].legends[0].get_texts()] == [
        *("line", "theirs", "winogen"),
    ]
