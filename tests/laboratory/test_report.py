"""Means, ratios, tables and the picture, from a document made by hand."""

import copy
import io
import json
import os

import pytest
from rich.console import Console

from winogen.errors import InvalidValue
from winogen_lab.bench import report, tables
from winogen_lab.bench.plot import save_plot


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
    document["layers"][1]["disturbed"] = ["others took 45 % of the CPUs"]
    document["summary"] = report.summarize(document["layers"])
    text = text_of(document)
    assert "these times are doubtful" in text
    assert "second: others took 45 % of the CPUs: its times are doubtful" in text
    assert "exact kept 1.9 cores busy, 1 allowed" in text


def test_a_yardstick_that_failed(document):
    document["yardstick"] = {
        "layer": {"name": "56x56"},
        "direct": {"error": "BuildError: x"},
        "mcmr": {},
    }
    assert "yardstick 56x56: BuildError: x" in text_of(document)


FLOATS = {"filter_dtype": "float32", "product_dtype": "float32"}
BESIDE = {
    "first": {
        "tolerance=1e-3": {
            "algorithm": "mcmr", "tile": [4, 4], "median_s": 2e-5, "rel_error": 3e-4,
            "predicted_s": 1e-5, "predicted_error": 6e-4, "packed_weight_bytes": 50,
            "filter_dtype": "int16", "product_dtype": "int16",
        },
        "algorithm=direct": {
            "algorithm": "direct", "tile": None, "median_s": 4e-5, "rel_error": 1e-7,
            "predicted_s": 4e-5, "predicted_error": 1e-7, "packed_weight_bytes": 1234, **FLOATS,
        },
        "isa=[z80]": {"error": "died of SIGILL"},
    },
    "second": {
        "tolerance=1e-3": {
            "algorithm": "direct", "tile": None, "median_s": 1e-5, "rel_error": 4e-4,
            "predicted_s": 1e-5, "predicted_error": 2e-4, "packed_weight_bytes": 200,
            "filter_dtype": "float16", "product_dtype": "float32",
        },
        "algorithm=direct": {"error": "Unsupported: no"},
        "isa=[z80]": {"error": "died of SIGILL"},
    },
}  # fmt: skip


@pytest.fixture
def with_others(document):
    """The document with more of ours, and predictions of the main one on its first layer."""
    for layer in document["layers"]:
        layer["beside"] = copy.deepcopy(BESIDE[layer["name"]])
    document["layers"][0] |= {"predicted_s": 2e-5, "predicted_error": 1e-6, **FLOATS}
    document["summary"] = report.summarize(document["layers"])
    return document


def test_ours_are_summed_up(with_others):
    summary = with_others["summary"]
    assert summary["error_over_predicted"]["mean"] == pytest.approx(2.0)  # of one layer
    assert summary["time_over_predicted"]["worst_layer"] == "first"
    near = summary["beside"]["tolerance=1e-3"]
    assert near["layers"] == 2 and near["ratio"] == pytest.approx(1.0)  # of 2 and 1/2
    assert (near["worst_ratio"], near["worst_layer"]) == (pytest.approx(0.5), "second")
    assert near["best_ratio"] == pytest.approx(2.0) and near["max_rel_error"] == 4e-4
    assert near["packed_ratio"] == pytest.approx(1.0)
    errors = near["error_over_predicted"]
    assert (errors["least"], errors["most"]) == (pytest.approx(0.5), pytest.approx(2.0))
    assert near["time_over_predicted"]["most"] == pytest.approx(2.0)
    direct = summary["beside"]["algorithm=direct"]
    assert direct["layers"] == 1 and direct["packed_ratio"] == pytest.approx(12.34)
    assert summary["beside"]["isa=[z80]"]["ratio"] is None


def test_the_table_of_ours(with_others):
    text = text_of(with_others)
    main = next(x for x in text.splitlines() if x.strip().startswith("first"))
    assert "0.02 x0.50" in main and "1e-06 x2.00" in main
    lines = [line.split() for line in text.split("winogen beside itself")[1].splitlines()]
    at = next(i for i, words in enumerate(lines) if words[:1] == ["first"])
    near, direct, failed = lines[at + 1 : at + 4]
    assert near == [
        *("tolerance=1e-3", "mcmr", "F(4x4,3x3),", "int16", "0.02", "0.01", "x2.00", "100"),
        *("2.00", "3e-04", "6e-04", "x0.50", "50"),
    ]
    assert direct == [
        *("algorithm=direct", "direct", "0.04", "0.04", "x1.00", "50", "4.00", "1e-07", "1e-07"),
        *("x1.00", "1,234"),
    ]
    assert failed == ["isa=[z80]", "failed"]
    assert ["algorithm=direct", "-"] in lines
    assert "first: isa=[z80]: died of SIGILL" in text and "Unsupported: no" not in text
    over_all = text.split("winogen over all layers")[1]
    assert "1.00; 0.50 (second) to 2.00" in over_all
    assert "1.00; 0.50 to 2.00, worst first" in over_all


def test_speeds_of_integers_are_over_the_peak_of_their_instructions(document):
    document["settings"]["dtype"] = "int8"
    document["layers"][0]["instructions"] = "sdot"
    row = {"algorithm": "direct", "tile": None, "median_s": 1e-5, "rel_error": 0.0}
    document["layers"][0]["beside"] = {"isa=z80": {**row, "fma_peak_gflops": 50.0}, "same": row}
    document["summary"] = report.summarize(document["layers"])
    assert document["summary"]["beside"]["isa=z80"]["peak_ratio"] == pytest.approx(4.0)
    text = text_of(document).split("winogen beside itself")[1].split("winogen over all")[0]
    rows = {words[0]: words for words in map(str.split, text.splitlines()) if words}
    assert rows["first"][-5:-3] == ["200", "2.00"]
    assert rows["isa=z80"][3:5] == ["200", "4.00"] and rows["same"][3:5] == ["200", "2.00"]
    assert "sdot" in rows["first"]


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
