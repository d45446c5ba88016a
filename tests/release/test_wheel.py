"""A wheel with a few prebuilt kernels is built, checked, installed and used, as `make wheel` does
with all of them.
"""

import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from winogen.records import TARGETS
from winogen.toolchain import meters
from winogen_lab.cover import listing

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.xdist_group("wheel"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="wheels are built on x86-64"),
    pytest.mark.skipif(not shutil.which("readelf"), reason="there is no readelf"),
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, ("build", "hatchling"))),
        reason="build and hatchling are not installed",
    ),
]


def run(*words, **variables):
    command = [sys.executable, *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": "", **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """Return a list of few kernels; all else is computed by kernels for any CPU."""
    path = tmp_path_factory.mktemp("kernels") / "kernels.json"
    direct = {"kind": "convolution", "target": "avx2", "variant": "direct"}
    gradient = {"kind": "gradient", "layout": "NCHW", "tiles": ["f4_3", "f4_3"]}
    few = [{**direct, "layout": layout} for layout in ("NCHW", "NHWC")]
    few += [{**gradient, "target": target} for target in ("avx2", "sse2")]
    listing.write(map(listing.from_dict, few), path)
    return path


@pytest.fixture(scope="module")
def build(request, kernels, tmp_path_factory):
    """Return a function that builds both files; compiled is what no earlier run has compiled."""
    cache = request.config.cache.mkdir("wheels")

    def build(*words):
        output = tmp_path_factory.mktemp("dist")
        words = ("--kernels", kernels, "--output", output, *words)
        run(SCRIPTS / "wheel.py", *words, WINOGEN_CACHE=str(cache))
        (wheel,), (sdist,) = output.glob("winogen-*.whl"), output.glob("winogen-*.tar.gz")
        assert len([*output.iterdir()]) == 4  # and those of the laboratory
        return wheel, sdist

    return build


@pytest.fixture(scope="module")
def twice(build):
    return build(), build()


def test_the_same_source_gives_the_same_bytes(twice):
    for one, two in zip(*twice):
        assert one.name == two.name
        assert one.read_bytes() == two.read_bytes()


def test_a_library_compiled_twice_has_the_same_bytes(tmp_path, monkeypatch):
    made = []
    for name in ("one", "two"):
        monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path / name))
        made.append(meters.build_of(TARGETS["sse2"]).compiled())
    assert made[0] == made[1]


def test_the_wheel_keeps_to_its_tag(twice):
    wheel, _ = twice[0]
    assert wheel.name.endswith("-py3-none-manylinux_2_17_x86_64.whl")
    said = run(SCRIPTS / "check_wheel.py", wheel)
    assert "avx2.kernels" in said and "generic.kernels" in said


def test_the_wheel_is_used_without_a_compiler(twice):
    said = run(SCRIPTS / "test_wheel.py", twice[0][0])
    assert "avx2: " in said and "s to the first result" in said


def test_the_figures_of_a_start_are_printed(twice):
    said = run(SCRIPTS / "start_figures.py", twice[0][0], "--times", 1)
    assert [line.split("  ")[0] for line in said.splitlines()[1:]] == [
        "import beyond numpy's",
        "first result, 56x56x64-64",
        "VGG-16's 13 layers",
        "unpacking a kernel: median, worst",
    ]


def test_the_kernels_of_a_wheel_are_timed_beside_those_compiled_here(twice, tmp_path):
    layers = tmp_path / "layers.json"
    one = {"name": "one", "input": [1, 8, 9, 9], "weight": [8, 8, 1, 1]}
    layers.write_text(json.dumps([one, {**one, "name": "two", "weight": [8, 8, 3, 3]}]))
    said = run(SCRIPTS / "wheel_speed.py", twice[0][0], "--layers", layers, WINOGEN_ISA="avx2")
    # The wheel of few kernels has one register block, of which the compiler knows better ones.
    assert re.search(r"one +\d\.\d+  \['avx2 direct.*\] for \['avx2 ", said), said
    assert "all: 2 layers" in said


def test_a_library_that_asks_for_a_younger_system_is_found(twice, tmp_path):
    wheel, _ = twice[0]
    younger = tmp_path / wheel.name.replace("2_17", "2_5")
    shutil.copy(wheel, younger)
    done = subprocess.run(
        [sys.executable, SCRIPTS / "check_wheel.py", younger], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "a library asks for GLIBC_2.14" in done.stderr


@pytest.mark.skipif(not shutil.which("aarch64-linux-gnu-gcc"), reason="no compiler for aarch64")
def test_a_wheel_for_aarch64_is_compiled_here(build):
    wheel, _ = build("--machine", "aarch64")
    assert wheel.name.endswith("-py3-none-manylinux_2_17_aarch64.whl")
    assert "neon.kernels" in run(SCRIPTS / "check_wheel.py", wheel)
    said = run(SCRIPTS / "test_wheel.py", wheel)
    assert "qemu-aarch64" in said or not shutil.which("qemu-aarch64-static")
