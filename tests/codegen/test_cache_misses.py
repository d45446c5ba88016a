"""The scripts that count cache misses and instructions of generated layers."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

from winogen.tuning.layers import BenchLayer
from winogen_lab.bench.cachegrind import summary

SCRIPTS = Path(__file__).parents[2] / "scripts"


def imported(name):
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture(scope="module")
def script():
    return imported("cache_misses")


def test_the_end_of_its_file_is_read():
    text = "desc: D1 cache: 32768 B, 64 B, 2-way\nevents: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw\n"
    found = summary(text + "fn=main\n12 1 0 0\nsummary: 90 2 1 40 8 4 10 2 1\n")
    assert found == {"instructions": 90, "references": 50, "D1": 10, "LL": 5}


@pytest.mark.thorough
def test_narrow_filters_miss_less(script):
    """Filters of 590 kB do not fit into the first cache, but into the second."""
    if shutil.which("valgrind") is None:
        pytest.skip("needs valgrind")
    lines = 128 * 128 * 9 * 4 // 64
    layer = BenchLayer.from_dict(
        {"name": "small", "input": [1, 128, 4, 4], "weight": [128, 128, 3, 3], "padding": 1}
    )
    wide, narrow = (
        script.counted(layer, "generic", algorithm="direct", **numbers)
        for numbers in ({}, {"filter_dtype": "flyte16"})
    )
    assert lines <= wide["D1"] < wide["references"]
    assert lines / 2 <= narrow["D1"] < wide["D1"]  # widened filters take some room themselves
    assert max(wide["LL"], narrow["LL"]) < lines / 100  # all of it fits there


@pytest.mark.thorough
def test_layers_of_one_tap_and_of_strides(script, capsys, tmp_path):
    if shutil.which("valgrind") is None:
        pytest.skip("needs valgrind")
    path = tmp_path / "layers.json"
    one = {"name": "one", "input": [1, 64, 8, 8], "weight": [32, 64, 1, 1]}
    path.write_text(json.dumps([one, {**one, "name": "apart", "stride": 2}]))
    script.main(["--layers", str(path), "--ways", "direct,im2col", "--isa", "generic"])
    shown = capsys.readouterr().out
    rates = shown.split("D1, misses in % of references")[1].splitlines()
    assert [row.split()[0] for row in rates[2:4]] == ["one", "apart"]
    assert rates[1].split() == ["layer", "im2col", "direct"]
    assert all(0 < float(rate) < 20 for row in rates[2:4] for rate in row.split()[1:])


@pytest.mark.thorough
@pytest.mark.parametrize("layout", ("NCHW", "NHWC"))
def test_tiles_at_the_border_cost_little(script, layout, monkeypatch):
    """Of 16 tiles 12 are at the border."""
    if shutil.which("valgrind") is None or shutil.which("size") is None:
        pytest.skip("needs valgrind and size")
    monkeypatch.syspath_prepend(SCRIPTS)
    border = imported("border_instructions")
    (padded, code), (inside, same) = (
        border.instructions(16, 16, padding, "generic", layout, "mcmr") for padding in (1, 0)
    )
    assert code == same > 10_000
    products = 16 * 36 * 16 * 16 / 4  # in vectors
    assert products < padded < 20 * products
    assert abs(padded / inside - 1) < 0.05
