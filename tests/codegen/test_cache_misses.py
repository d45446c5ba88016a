"""The scripts that count cache misses and instructions of generated layers."""

import importlib.util
import shutil
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


def imported(name):
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture(scope="module")
def script():
    return imported("cache_misses")


def test_the_end_of_its_file_is_read(script):
    text = "desc: D1 cache: 32768 B, 64 B, 2-way\nevents: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw\n"
    found = script.summary(text + "fn=main\n12 1 0 0\nsummary: 90 2 1 40 8 4 10 2 1\n")
    assert found == {"instructions": 90, "references": 50, "D1": 10, "LL": 5}


@pytest.mark.thorough
def test_narrow_filters_miss_less(script):
    """Filters of 590 kB do not fit into the first cache, but into the second."""
    if shutil.which("valgrind") is None:
        pytest.skip("needs valgrind")
    lines = 128 * 128 * 9 * 4 // 64
    wide, narrow = (
        script.counted(4, 128, 128, "generic", algorithm="direct", **numbers)
        for numbers in ({}, {"filter_dtype": "flyte16"})
    )
    assert lines <= wide["D1"] < wide["references"]
    assert lines / 2 <= narrow["D1"] < wide["D1"]  # widened filters take some room themselves
    assert max(wide["LL"], narrow["LL"]) < lines / 100  # all of it fits there


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
