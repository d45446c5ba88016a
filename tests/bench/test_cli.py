"""`winogen bench` as it is typed."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from winogen.bench import BenchLayer, report, runner
from winogen.cli.app import app
from winogen.conv import Conv2d

TINY = {"name": "tiny", "input": [1, 8, 7, 6], "weight": [8, 8, 3, 3], "padding": 1}


def winogen_bench(*words):
    return CliRunner().invoke(app, ["bench", *map(str, words)])


@pytest.fixture
def tiny_file(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "YARDSTICK", BenchLayer.from_dict(TINY))
    path = tmp_path / "mine.json"
    path.write_text(json.dumps([TINY, {**TINY, "name": "other"}]))
    return path


def test_help_has_an_example():
    result = winogen_bench("--help")
    assert result.exit_code == 0 and "Example: winogen bench" in result.output


def test_a_run_without_rivals(tiny_file, tmp_path):
    json_file, picture = tmp_path / "out" / "bench.json", tmp_path / "bench.png"
    result = winogen_bench(
        *("--layers", tiny_file, "--only", "tin", "--peers", "none", "--batch", 2),
        *("--algorithm", "mcmr", "--tile", "2,4", "--layout", "NHWC", "--repeat", 1),
        *("--min-time", 0, "--algorithms", "direct", "--json", json_file, "--plot", picture),
    )
    assert result.exit_code == 0, result.output
    assert "winogen mcmr NHWC, float32, 1 thread" in result.output
    assert "mcmr F(2x4,3x3)" in result.output and "rivals: none" in result.output
    document = report.load(json_file)
    (layer,) = document["layers"]
    assert layer["input"] == [2, 8, 7, 6] and layer["tile"] == [2, 4]
    assert layer["peers"] == {} and list(layer["algorithms"]) == ["direct"]
    assert document["settings"]["layout"] == "NHWC" and document["settings"]["tile"] == [2, 4]
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.thorough
def test_a_tolerance_chooses_our_tile(tiny_file, tmp_path):
    layer = BenchLayer.from_dict({**TINY, "name": "map", "input": [1, 8, 56, 56]})
    tiny_file.write_text(json.dumps([layer.to_dict()]))
    tiles = []
    for tolerance in ("2.4e-7", "1e-5"):
        path = tmp_path / f"{tolerance}.json"
        result = winogen_bench(
            *("--layers", tiny_file, "--peers", "none", "--repeat", 1),
            *("--min-time", 0, "--algorithm", "mcmr", "--tolerance", tolerance, "--json", path),
        )
        assert result.exit_code == 0, result.output
        assert f"1 thread, tolerance {float(tolerance):.2g}" in result.output
        document = report.load(path)
        tiles.append(tuple(document["layers"][0]["tile"]))
        options = dict(algorithm="mcmr", tolerance=float(tolerance), threads=1)
        conv = Conv2d(np.ones(layer.weight, np.float32), padding=1, **options)
        assert document["settings"]["tolerance"] == float(tolerance)
        assert tiles[-1] == conv.plan(layer.input).tile
    assert tiles[0] < tiles[1]


def test_showing_what_was_measured_before(document, tmp_path):
    path, picture = tmp_path / "bench.json", tmp_path / "bench.svg"
    report.save(document, path)
    result = winogen_bench("--show", path, "--plot", picture)
    assert result.exit_code == 0 and "worst layer second: 1.000" in result.output
    assert picture.exists()


@pytest.mark.parametrize(
    "words, message",
    [
        (("--layers", "vgg17"), "layers: got 'vgg17'"),
        (("--only", "nothing"), "only: got 'nothing'"),
        (("--peers", "caffe"), "peers: got 'caffe'; allowed: none, or torch"),
        (("--algorithm", "fft"), "algorithm: got 'fft'; allowed: auto, direct"),
        (("--algorithms", "mcmr,fft"), "algorithms: got 'fft'; allowed: all, direct"),
        (("--tile", "4,0"), "tile: got '4,0'; allowed: a positive int"),
        (("--tile", "4,4,4"), "tile: got '4,4,4'"),
        (("--tile", "four"), "tile: got 'four'"),
        (("--tile", "4", "--algorithm", "direct"), "tile: got '4'; allowed: none with direct"),
        (("--tolerance", "-1"), "tolerance: got -1.0; allowed: a positive number"),
        (("--plot", "bench.docx"), "plot: got 'bench.docx'; allowed: a name with .png"),
        (("--show", "no-such-file"), "No such file"),
        (("--json", "/dev/null/x.json"), "json: got '/dev/null/x.json'"),
    ],
)
def test_mistakes_are_told_before_any_work(words, message, monkeypatch):
    from winogen import bench

    monkeypatch.setattr(bench, "run", lambda *arguments: pytest.fail("measured"))
    result = winogen_bench(*words)
    assert result.exit_code == 2 and "Traceback" not in result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("winogen: ") and message in line


@pytest.mark.parametrize("words", [("--threads", 0), ("--repeat", 0), ("--batch", -1)])
def test_counts_begin_at_one(words):
    assert winogen_bench(*words).exit_code == 2


@pytest.mark.parametrize("seconds", ["inf", "nan", "-1", "61"])
def test_a_turn_ends(monkeypatch, seconds):
    from winogen import bench

    monkeypatch.setattr(bench, "run", lambda *arguments: pytest.fail("measured"))
    result = winogen_bench("--peers", "none", "--min-time", seconds)
    assert result.exit_code == 2
    assert f"min-time: got {float(seconds):g}; allowed: a number of seconds" in result.stderr
