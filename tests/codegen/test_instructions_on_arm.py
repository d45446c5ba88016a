"""The script that counts what generated layers execute on an emulated 64-bit ARM."""

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("counting", SCRIPTS / "instructions_on_arm.py")
    found = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    spec.loader.exec_module(found)
    sys.path[:] = before
    return found


def test_the_fewest_are_products_and_additions(script):
    assert script.fewest(4, 8, 8, None) == 4 * 4 * 64 * 9 / 4
    # F(2, 3) takes four additions of four numbers, and four of them again on the way out.
    assert script.fewest(5, 8, 4, 2) == 9 * (16 * 32 + 8 * 4 * 8 + 6 * 4 * 4) / 4
    # A product of float16 is half of an instruction.
    assert script.fewest(5, 8, 4, 2) - script.fewest(5, 8, 4, 2, "float16") == 9 * 16 * 32 / 8


@pytest.mark.thorough
def test_tiles_take_fewer_instructions_and_more_than_the_fewest(script):
    tools = ("aarch64-linux-gnu-gcc", "cc", "qemu-aarch64")
    if not all(shutil.which(tool) for tool in tools):
        pytest.skip(f"needs {' and '.join(tools)}")
    direct, tiles = (
        script.by_winogen(16, 32, 32, "NHWC", **script.WAYS[way])
        for way in ("direct", "F(4x4, 3x3)")
    )
    halves = script.by_winogen(16, 32, 32, "NHWC", **script.WAYS["F(4x4, 3x3), float16"])
    assert script.fewest(16, 32, 32, 4) < tiles < direct / 2
    assert script.fewest(16, 32, 32, 4, "float16") < halves < direct / 2
    assert script.fewest(16, 32, 32, None) < direct


@pytest.mark.thorough
def test_functions_are_told_apart(script, capsys):
    tools = ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-nm", "cc", "qemu-aarch64")
    if not all(shutil.which(tool) for tool in tools):
        pytest.skip(f"needs {' and '.join(tools)}")
    script.main(["--size", "16", "--channels", "32", "--filters", "32", "--functions", "4"])
    _, *rows, total = (line.split() for line in capsys.readouterr().out.splitlines() if line)
    rows = [row for row in rows if row[0][0].isalpha()]
    assert rows[0][0].startswith("gemm_2_")
    assert {"transform_input"} < {row[0].partition(".")[0] for row in rows}
    everything = script.by_winogen(16, 32, 32, "NHWC", **script.WAYS["F(4x4, 3x3)"])
    assert total[0] == "all" and float(total[1]) == pytest.approx(everything / 1e6, abs=0.006)
