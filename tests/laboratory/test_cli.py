"""`winogen bench` as it is typed."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from winogen.cli.app import app
from winogen.conv import Conv2d
from winogen.tuning.layers import BenchLayer
from winogen_lab.bench import report, runner
from winogen_lab.bench.kinds import KINDS
from winogen_lab.cli.bench import Dtype

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


@pytest.mark.thorough
def test_a_run_without_rivals(tiny_file, tmp_path):
    json_file, picture = tmp_path / "out" / "bench.json", tmp_path / "bench.png"
    result = winogen_bench(
        *("--layers", tiny_file, "--only", "tin", "--peers", "none", "--batch", 2),
        *("--algorithm", "mcmr", "--tile", "2,4", "--layout", "NHWC", "--repeat", 1),
        *("--min-time", 0, "--algorithms", "direct", "--results", json_file, "--plot", picture),
    )
    assert result.exit_code == 0, result.output
    assert "winogen mcmr NHWC, float32, 1 thread" in result.output
    assert "mcmr F(2x4,3x3)" in result.output and "rivals: none" in result.output
    document = report.load(json_file)
    (layer,) = document["layers"]
    assert layer["input"] == [2, 8, 7, 6] and layer["tile"] == [2, 4]
    assert layer["peers"] == {} and list(layer["beside"]) == ["algorithm=direct"]
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
            *("--min-time", 0, "--algorithm", "mcmr", "--tolerance", tolerance, "--results", path),
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
        (("--tile", "4,0"), "tile: got 0; allowed: None, a positive int"),
        (("--tile", "4,4,4"), "tile: got (4, 4, 4)"),
        (("--tile", "four"), "tile: got 'four'"),
        (("--tile", "4", "--algorithm", "direct"), "tile: got '4'; allowed: none with direct"),
        (("--tolerance", "-1"), "tolerance: got -1.0; allowed: None or a positive"),
        (("--filter-dtype", "float12"), "filter_dtype: got 'float12'; allowed: \"float16\""),
        (
            ("--dtype", "float64", "--filter-dtype", "float16"),
            'filter_dtype: got "float16" with float64 arrays; allowed: None',
        ),
        (
            ("--filter-dtype", "float16", "--product-dtype", "int16"),
            'filter_dtype: got "float16" and product_dtype "int16"; allowed: one of them',
        ),
        (("--border", "none"), "border: got 'none'; allowed: "),
        (
            ("--dtype", "int8", "--filter-dtype", "float16"),
            "got 'float16' with int8; allowed: none",
        ),
        (
            ("--dtype", "int8", "--algorithm", "direct", "--tolerance", "0.1"),
            "tolerance: got 0.1 with algorithm 'direct'; allowed: None",
        ),
        (("--dtype", "int8", "--algorithm", "winograd1d"), "algorithm: got 'winograd1d'; allowed:"),
        (("--dtype", "int8", "--profile"), "profile: got it with int8; allowed: float32"),
        (("--nets", "--dtype", "int8"), "dtype: got int8 with --nets; allowed: float32"),
        (("--nets", "--algorithm", "mcmr"), "algorithm: got mcmr with --nets; allowed: none"),
        (("--nets", "--profile"), "profile: got True with --nets; allowed: none"),
        (("--nets", "--tolerance", "0"), "tolerance: got 0.0; allowed: None or a positive"),
        (("--beside", "direct"), "beside: got 'direct'; allowed: option=value, several with"),
        (("--beside", "tile="), "beside: got 'tile='; allowed: option=value, several with"),
        (("--beside", "speed=3"), "beside speed=3, option: got 'speed'; allowed: layout, "),
        (("--beside", "algorithm=ntt"), "beside algorithm=ntt, algorithm: got 'ntt'; allowed: "),
        (("--beside", "tile=4x"), "beside tile=4x, tile: got '4x'; allowed: "),
        (("--beside", "tile=0"), "beside tile=0, tile: got 0; allowed: None, a positive int"),
        (("--beside", "tolerance=x"), "beside tolerance=x, tolerance: got 'x'; allowed: a number"),
        (("--beside", "dtype=int4"), "beside dtype=int4, dtype: got 'int4'; allowed: "),
        (("--beside", "dtype=float64,filter_dtype=float16"), "with float64 arrays; allowed: None"),
        (
            ("--dtype", "int8", "--beside", "filter_dtype=float16"),
            "got 'float16' with int8; allowed",
        ),
        (("--plot", "bench.docx"), "plot: got 'bench.docx'; allowed: a name with .png"),
        (("--show", "no-such-file"), "No such file"),
        (("--results", "/dev/null/x.json"), "results: got '/dev/null/x.json'"),
    ],
)
def test_mistakes_are_told_before_any_work(words, message, monkeypatch):
    monkeypatch.setattr(runner, "run", lambda *arguments: pytest.fail("measured"))
    result = winogen_bench(*words)
    assert result.exit_code == 2 and "Traceback" not in result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("winogen: ") and message in line


def test_the_type_of_arrays_has_the_names_that_are_measured():
    assert [dtype.value for dtype in Dtype] == list({"float32": 0, **KINDS})


@pytest.mark.thorough
def test_others_take_turns_with_the_main_one(tiny_file, tmp_path):
    json_file = tmp_path / "bench.json"
    result = winogen_bench(
        *("--layers", tiny_file, "--only", "tin", "--peers", "none", "--repeat", 1),
        *("--min-time", 0, "--algorithm", "mcmr", "--tile", 4, "--filter-dtype", "float16"),
        *("--beside", "filter_dtype=none", "--beside", "algorithm=direct,dtype=float64"),
        *("--beside", f"python={sys.executable}", "--results", json_file),
    )
    assert result.exit_code == 0, result.output
    assert "float32, 1 thread, filter_dtype float16" in result.output
    document = report.load(json_file)
    (layer,) = document["layers"]
    plain, direct, other = layer["beside"].values()
    assert layer["filter_dtype"] == "float16" and plain["filter_dtype"] == "float32"
    assert 2 * layer["packed_weight_bytes"] == plain["packed_weight_bytes"]
    assert layer["tile"] == plain["tile"] == [4, 4]
    assert 0.2 < layer["rel_error"] / layer["predicted_error"] < 5
    assert plain["rel_error"] < 1e-5 < layer["rel_error"]
    assert direct["algorithm"] == "direct" and direct["rel_error"] < 1e-12
    assert other["rel_error"] == layer["rel_error"]  # the same kernel, by another process
    about = document["beside"][f"python={sys.executable}"]
    assert about["filter_dtype"] == "float16"
    assert Path(about["winogen"]).name == "winogen"
    assert layer["beside"].keys() == document["summary"]["beside"].keys()


@pytest.mark.parametrize(
    "place, reason",
    [
        ("python=/no/such/python", "cannot start /no/such/python: No such file"),
        ("isa=pdp11", "WINOGEN_ISA: got 'pdp11'"),
        ("cc=no-such-cc", "CC: got 'no-such-cc'"),
    ],
)
def test_places_that_are_none_are_told_before_any_measurement(
    tiny_file, monkeypatch, place, reason
):
    monkeypatch.setattr(runner._Bench, "yardstick", lambda self: pytest.fail("measured"))
    result = winogen_bench("--layers", tiny_file, "--peers", "none", "--beside", place)
    assert result.exit_code == 2
    assert f"beside: got '{place}'" in result.stderr and reason in result.stderr


@pytest.mark.parametrize("words", [("--threads", 0), ("--repeat", 0), ("--batch", -1)])
def test_counts_begin_at_one(words):
    assert winogen_bench(*words).exit_code == 2


@pytest.mark.parametrize("seconds", ["inf", "nan", "-1", "61"])
def test_a_turn_ends(monkeypatch, seconds):
    monkeypatch.setattr(runner, "run", lambda *arguments: pytest.fail("measured"))
    result = winogen_bench("--peers", "none", "--min-time", seconds)
    assert result.exit_code == 2
    assert f"min-time: got {float(seconds):g}; allowed: a number of seconds" in result.stderr
