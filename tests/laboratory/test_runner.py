"""A whole run on tiny layers with rivals that need no installation."""

import io
import json
import re
from importlib.util import find_spec

import numpy as np
import pytest
from rich.console import Console

from winogen.kernels.dots import dots_of
from winogen.toolchain import host_target
from winogen.tuning.layers import BenchLayer
from winogen_lab.bench import report, runner, tables
from winogen_lab.bench.own import Own
from winogen_lab.bench.runner import Settings, run
from winogen_lab.peers import Peer

from .conftest import FAKES

# One run with all of them takes half a minute: one process has all these tests.
pytestmark = [pytest.mark.thorough, pytest.mark.xdist_group("runner")]

LAYERS = [
    {"name": "tiny", "net": "Net", "input": [1, 16, 9, 11], "weight": [16, 16, 3, 3], "padding": 1},
    {"name": "strided", "input": [2, 4, 9, 9], "weight": [4, 4, 3, 3], "stride": 5},
]
NAMES = ("rivals", "failing", "dying", "not_finite", "dying_later", "absent")


@pytest.fixture(scope="module")
def found():
    """Two layers, six rivals, two of our algorithms, profiles; and what was said on the way."""
    patch = pytest.MonkeyPatch()
    patch.setenv("PYTHONPATH", str(FAKES))
    layers, said = [BenchLayer.from_dict(fields) for fields in LAYERS], []
    patch.setattr(runner, "YARDSTICK", layers[0])
    needs = dict.fromkeys(NAMES, ("numpy",)) | {"absent": ("numpy", "no_such_module")}
    rivals = tuple(Peer(name, f"fake_{name}:ways", needs[name], "numpy") for name in NAMES)
    beside = tuple(Own().but(name, algorithm=name) for name in ("direct", "mcmr"))
    settings = Settings(peers=rivals, beside=beside, rounds=2, min_time=0.01, profile=True)
    yield run(layers, settings, said.append), said
    patch.undo()


@pytest.fixture
def document(found):
    return found[0]


def test_the_document_has_the_agreed_fields(document):
    machine = document["machine"]
    assert machine["threads"] == 1 and machine["fma_peak_gflops"] > 0
    assert machine["write_gbytes_per_s"].keys() == machine["read_gbytes_per_s"].keys()
    low, high = machine["fma_peak_gflops_range"]
    assert low <= machine["fma_peak_gflops"] <= high
    for layer, fields in zip(document["layers"], LAYERS):
        assert fields.items() <= layer.items()
        for field in ("algorithm", "tile", "median_s", "gflops", "rel_error", "workspace_bytes"):
            assert field in layer
        assert layer["gflops"] == pytest.approx(layer["gflop"] / layer["median_s"])
        assert 0 < layer["best_s"] <= layer["median_s"] and layer["rel_error"] < 1e-4
        assert layer["roofline_s"] == layer["roofline"]["seconds"] > 0
        assert [move["what"] for move in layer["roofline"]["moves"]] == ["U", "input", "output"]
    assert document["layers"][0]["gflop"] == 2 * 9 * 11 * 16 * 16 * 9 / 1e9
    assert document["layers"][1]["gflop"] == 2 * 2 * 4 * 4 * 2 * 2 * 9 / 1e9


def test_rivals_that_work_have_times_and_errors(document):
    for layer in document["layers"]:
        row = layer["peers"]["rivals"]
        assert row["way"] == "exact" and row["kind"] == "numpy"  # not the slow way
        assert 0 < row["median_s"] < 0.05 and row["rel_error"] < 1e-5


def test_rivals_that_fail_have_messages(document):
    for layer in document["layers"]:
        rows = layer["peers"]
        assert rows["failing"] == {"error": "RuntimeError: no such primitive"}
        assert rows["dying"] == {"error": "died of SIGSEGV: about to fall"}
        assert rows["not_finite"] == {"error": "the result is not finite"}
        assert rows["dying_later"] == {"error": "died with status 3"}


def test_absent_rivals_are_listed_and_not_measured(document):
    assert document["peers"]["absent"] == {"absent": "not installed: no_such_module"}
    assert set(document["peers"]["rivals"]) == {"version"}
    assert all("absent" not in layer["peers"] for layer in document["layers"])


def test_ours_are_compared(document):
    tiny, strided = (layer["beside"] for layer in document["layers"])
    assert tiny["direct"]["algorithm"] == "direct" and tiny["direct"]["median_s"] > 0
    assert tiny["mcmr"]["tile"] is not None and tiny["mcmr"]["rel_error"] < 1e-5
    assert strided["direct"]["median_s"] > 0
    assert strided["mcmr"]["error"].startswith("Unsupported: algorithm")


def test_the_yardstick(document):
    found = document["yardstick"]
    assert found["direct_gflops"] == pytest.approx(
        document["layers"][0]["gflop"] / found["direct"]["median_s"]
    )
    ratio = found["direct"]["median_s"] / found["mcmr"]["median_s"]
    assert found["mcmr_over_direct"] == pytest.approx(ratio)
    share = found["direct_gflops"] / found["fma_peak_gflops"]
    assert found["direct_share_of_peak"] == pytest.approx(share)


def test_profiles(document):
    for layer in document["layers"]:
        stages = layer["profile"]["stages"]
        assert list(stages) == ["input transform", "multiply", "output transform", "other"]
        assert sum(stage["share"] for stage in stages.values()) == pytest.approx(1, abs=0.02)
        assert stages["multiply"]["rate"] > 0 and stages["multiply"]["limit"] > 0


def test_it_says_what_is_going_on(found):
    _, said = found
    assert said[0] == "measuring the machine"
    assert "2/2 strided: preparing rivals" in said and "1/2 tiny: running" in said


def test_the_document_survives_a_file(document, tmp_path):
    path = tmp_path / "bench.json"
    report.save(document, path)
    assert report.load(path) == json.loads(json.dumps(document))


def test_a_layer_that_winogen_cannot_do_is_reported(monkeypatch):
    strided = BenchLayer.from_dict(LAYERS[1])
    monkeypatch.setattr(runner, "YARDSTICK", strided)
    main = Own().but("winogen", algorithm="winograd2d")
    found = run([strided], Settings(main, rounds=1, min_time=0.0))
    (layer,) = found["layers"]
    assert layer["error"].startswith("Unsupported: algorithm") and "median_s" not in layer
    assert found["summary"]["failed"] == ["strided"] and found["summary"]["gflops"] is None
    assert "mcmr_over_direct" not in found["yardstick"]
    assert found["yardstick"]["mcmr"]["error"].startswith("Unsupported")


def test_layers_of_8_bits(monkeypatch):
    layers = [BenchLayer.from_dict(fields) for fields in LAYERS]
    monkeypatch.setattr(runner, "YARDSTICK", layers[0])
    main, isa = Own(dtype="int8"), host_target().name
    document = run(layers, Settings(main, (main.but("again", isa=isa),), rounds=1, min_time=0.001))
    assert document["settings"]["dtype"] == "int8"
    assert document["beside"]["again"]["isa"] == isa
    for one, layer in zip(layers, document["layers"]):
        assert layer["rel_error"] == 0 and layer["median_s"] > 0
        assert layer["predicted_s"] > 0 and layer["fma_peak_gflops"] > 0
        roof = layer["roofline"]
        peaks = [dot.rate * layer["fma_peak_gflops"] * 1e9 for dot in dots_of(host_target())]
        times = [pytest.approx(2 * layer["multiplications"] / peak) for peak in peaks]
        assert roof["arithmetic_s"] in times  # of the instruction that it runs by
        size = np.prod(one.output)
        assert [move["bytes"] for move in roof["moves"] if move["writes"]] == [size]
        assert layer["algorithm"] in ("direct", "im2col") and layer["instructions"]
        assert layer["inexact"] == 0 and layer["packed_weight_bytes"] > 0
        assert layer["beside"]["again"]["fma_peak_gflops"] > 0
    summary = document["summary"]
    assert summary["roofline_share"] > 0 and summary["peak_ratio"] > 0
    assert summary["time_over_predicted"]["mean"] > 0
    assert document["yardstick"]["mcmr"]["tile"]  # is of float32
    console = Console(width=190, highlight=False, file=io.StringIO())
    console.print(tables.render(document))
    text = console.file.getvalue()
    assert "winogen NCHW, int8, 1 thread" in text
    columns = r"^ *layer +algorithm +instructions +ms +predicted +winogen +roof +peak +error"
    assert re.search(columns, text, re.MULTILINE)
    assert layer["instructions"] in text


@pytest.mark.thorough
def test_others_beside_layers_of_8_bits(monkeypatch):
    layers = [BenchLayer.from_dict(fields) for fields in LAYERS]
    monkeypatch.setattr(runner, "YARDSTICK", layers[0])
    main = Own(dtype="int8")
    others = (
        main.but("NHWC", layout="NHWC"),
        main.but("floats", dtype="float32"),
        main.but("tiles", algorithm="mcmr", tile=2),
    )
    document = run(layers, Settings(main, others, rounds=1, min_time=0.001))
    for layer in document["layers"]:
        rows = layer["beside"]
        assert rows["NHWC"]["rel_error"] == 0 and rows["NHWC"]["packed_weight_bytes"] > 0
        assert "fma_peak_gflops" not in rows["NHWC"]
        assert 0 < rows["floats"]["rel_error"] < 1e-5 and "inexact" not in rows["floats"]
    tiles, strided = (layer["beside"]["tiles"] for layer in document["layers"])
    assert tiles["tile"] == [2, 2] and tiles["rel_error"] < 0.01 and tiles["inexact"] < 0.05
    assert strided["error"].startswith("Unsupported")


@pytest.mark.thorough
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_arrays_of_other_types(monkeypatch, layout):
    tiny = BenchLayer.from_dict(LAYERS[0])
    monkeypatch.setattr(runner, "YARDSTICK", tiny)
    main = Own(dtype="float16", options={"layout": layout, "algorithm": "direct"})
    others = tuple(main.but(dtype, dtype=dtype) for dtype in ("bfloat16", "float64"))
    if find_spec("ml_dtypes") is None:
        others = others[1:]
    document = run([tiny], Settings(main, others, rounds=1, min_time=0.001))
    assert document["settings"]["dtype"] == "float16"
    (layer,) = document["layers"]
    rows = {"float16": layer, **layer["beside"]}
    limits = {"float16": 2**-11, "bfloat16": 2**-8, "float64": 1e-14}
    for dtype, row in rows.items():
        assert row["rel_error"] < limits[dtype], row
        assert 0.1 < row["rel_error"] / row["predicted_error"] < 10 or dtype == "float64"
    assert layer["rel_error"] > 1e-5
    halves, floats = (layer["roofline"]["moves"][i]["bytes"] for i in (1, 0))
    assert halves == 2 * 16 * 9 * 11 and floats >= 4 * 16 * 16 * 9
