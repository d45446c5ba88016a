"""Means, ratios, tables and the picture, from a document made by hand."""

import copy
import io
import json
import os

import pytest
from rich.console import Console

from winogen.bench import report, tables
from winogen.bench.plot import save_plot
from winogen.errors import InvalidValue


def text_of(document, width=180):
    console = Console(width=width, highlight=False, file=io.StringIO())
    console.print(tables.render(document))
    return console.file.getvalue()


def test_geometric_mean():
    assert report.geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert report.geometric_mean(iter([5.0])) == pytest.approx(5.0)
    assert report.geometric_mean([]) is None


def test_ratios(document):
    first, second = document["layers"]
    assert report.fastest_peer(first) == "swift" and report.fastest_peer(second) == "exact"
    assert report.best_ratio(first) == pytest.approx(4.0)
    assert report.best_ratio(second) == pytest.approx(1.0)
    assert report.ratio(second, "swift") is None and report.ratio(second, "gone") is None
    assert report.fastest_peer({**first, "peers": {}}) is None
    assert report.best_ratio({**first, "peers": {}}) is None


def test_summary(document):
    summary = document["summary"]
    assert summary["ratio"] == pytest.approx(2.0)
    assert (summary["worst_ratio"], summary["worst_layer"]) == (1.0, "second")
    assert summary["gflops"] == pytest.approx((200 * 100) ** 0.5)
    assert summary["roofline_share"] == pytest.approx(0.5)
    assert summary["max_rel_error"] == 2e-6 and summary["failed"] == []
    exact, swift = summary["peers"]["exact"], summary["peers"]["swift"]
    assert exact["ratio"] == pytest.approx(8**0.5) and exact["worst_ratio"] == 1.0
    assert (exact["layers"], exact["max_rel_error"]) == (2, 3e-7)
    first, second = document["layers"]
    assert exact["as_accurate"] == sum(
        layer["rel_error"] <= layer["peers"]["exact"]["rel_error"] for layer in (first, second)
    )
    second["rel_error"] = 0.0
    assert report.summarize(document["layers"])["peers"]["exact"]["as_accurate"] >= 1
    assert exact["gflops"] == pytest.approx((25 * 100) ** 0.5)
    assert swift["layers"] == 1 and swift["ratio"] == pytest.approx(4.0)


def test_a_layer_of_ours_that_failed_counts_in_no_mean(document):
    layers = copy.deepcopy(document["layers"])
    for field in ("median_s", "best_s", "gflops", "roofline_s", "rel_error", "workspace_bytes"):
        del layers[1][field]
    summary = report.summarize(layers)
    assert summary["failed"] == ["second"]
    assert summary["ratio"] == pytest.approx(4.0) and summary["gflops"] == pytest.approx(200.0)
    assert summary["peers"]["exact"]["layers"] == 1


def test_nothing_measured_at_all():
    summary = report.summarize([])
    assert summary["ratio"] is None and summary["gflops"] is None and summary["peers"] == {}


def test_the_table_says_it_all(document):
    text = text_of(document)
    assert "Z80, 2 cores" in text and "FMA peak on 1 thread: 100 GFLOP/s (90 to 110" in text
    assert "rivals: swift 1.2, exact 3; absent: gone (not installed: gone)" in text
    assert "direct 95 GFLOP/s, 95% of the FMA peak; mcmr 2.50 x direct" in text
    first = next(line for line in text.splitlines() if line.strip().startswith("first"))
    assert first.split() == [
        *("first", "mcmr", "F(4x6,3x3)", "0.01", "200", "50%", "2e-06", "50", "25", "4.00")
    ]
    second = next(line for line in text.splitlines() if line.strip().startswith("second"))
    assert second.split()[-3:] == ["failed", "100", "1.00"]
    assert "second: swift: out of luck" in text
    assert (
        "geometric mean of (fastest rival's time / ours): 2.000; worst layer second: 1.000" in text
    )
    assert "doubtful" not in text and "cores busy" not in text


def test_the_table_without_rivals(document):
    document["peers"] = {}
    for layer in document["layers"]:
        layer["peers"] = {}
    document["summary"] = report.summarize(document["layers"])
    text = text_of(document)
    assert "rivals: none" in text and "ratio" not in text.split("ratio: fastest")[0]


def test_the_table_of_a_layer_that_failed(document):
    layer = document["layers"][0]
    del layer["median_s"]
    layer["error"] = "Unsupported: [stride] 2"  # brackets are no markup
    document["summary"] = report.summarize(document["layers"])
    text = text_of(document)
    assert "first: winogen: Unsupported: [stride] 2" in text


def test_doubts_are_shown(document):
    document["layers"][0]["preempted"] = 0.9
    document["layers"][1]["peers"]["exact"]["cores"] = 1.9
    document["summary"] = report.summarize(document["layers"])
    text = text_of(document)
    assert "these times are doubtful" in text
    assert "exact kept 1.9 cores busy, 1 allowed" in text


def test_a_yardstick_that_failed(document):
    document["yardstick"] = {
        "layer": {"name": "56x56"},
        "direct": {"error": "BuildError: x"},
        "mcmr": {},
    }
    assert "yardstick 56x56: BuildError: x" in text_of(document)


def test_the_table_of_algorithms(document):
    rows = {
        "direct": {"algorithm": "direct", "tile": None, "median_s": 4e-5},
        "winograd1d": {"algorithm": "winograd1d", "tile": [1, 6], "median_s": 1e-5},
        "mcmr": {"error": "Unsupported"},
    }
    document["layers"][0]["algorithms"] = rows
    text = text_of(document).split("winogen's algorithms")[1]
    assert text.splitlines()[2].split() == ["layer", "direct", "winograd1d", "mcmr"]
    assert next(x for x in text.splitlines() if "first" in x).split() == [
        *("first", "50", "200", "6", "-")
    ]


def test_the_table_of_stages(document):
    stage = {"seconds": 5e-6, "share": 0.5, "rate": 80.0, "limit": 100.0, "unit": "GFLOP/s"}
    stages = dict.fromkeys(("input transform", "multiply", "output transform"), stage)
    stages["other"] = {"seconds": 0.0, "share": 0.0}
    found = {"algorithm": "mcmr", "tile": [4, 6], "seconds": 1e-5, "stages": stages}
    document["layers"][0]["profile"] = found
    document["layers"][1]["profile"] = {"error": "BuildError: no [compiler]"}
    text = text_of(document).split("stages, 1 thread")[1]
    assert "50%  80 of 100 GFLOP/s" in text and "BuildError: no [compiler]" in text


@pytest.mark.parametrize(
    "suffix, begins", [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")]
)
def test_the_picture(document, tmp_path, suffix, begins):
    path = tmp_path / "folder" / f"bench{suffix}"
    save_plot(document, path)
    assert path.read_bytes().startswith(begins)


def test_the_picture_has_a_bar_for_everybody(document, monkeypatch, tmp_path):
    from matplotlib.axes import Axes

    drawn = {}
    monkeypatch.setattr(
        Axes, "bar", lambda self, at, heights, width, label, color: drawn.update({label: heights})
    )
    save_plot(document, tmp_path / "x.png")
    assert drawn["winogen"] == pytest.approx([200.0, 100.0])
    assert drawn["swift"] == pytest.approx([50.0, 0.0])
    assert "gone" not in drawn


def test_a_file_is_one_line_per_layer(document, tmp_path):
    path = tmp_path / "bench.json"
    report.save(document, path)
    assert json.loads(path.read_text()) == document
    assert sum('"name": "first"' in line for line in path.read_text().splitlines()) == 1


@pytest.mark.parametrize("text", ["[", "[" * 100_000, "[]", '{"machine": {}, "layers": []}', "3"])
def test_other_files_are_refused(tmp_path, text):
    path = tmp_path / "bench.json"
    path.write_text(text)
    with pytest.raises(InvalidValue, match="bench.json"):
        report.load(path)


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(fifo := tmp_path / "fifo")
    for path in (fifo, "/dev/zero", tmp_path):
        with pytest.raises(InvalidValue, match="show: got .* not a regular file; allowed"):
            report.load(path)
    with pytest.raises(InvalidValue, match="show: got .*No such file.*; allowed"):
        report.load(tmp_path / "none.json")


def test_numbers_that_json_does_not_have_are_never_written(document, tmp_path):
    document["layers"][0]["rel_error"] = float("nan")
    with pytest.raises(ValueError):
        report.save(document, tmp_path / "bench.json")
