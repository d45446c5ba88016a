"""A wheel with a few prebuilt kernels is built, checked, installed and used, as `make wheel` does
with all of them.
"""

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from winogen.lab.cover import listing

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
    """Return a list of two kernels."""
    path = tmp_path_factory.mktemp("kernels") / "kernels.json"
    entries = map(listing.to_dict, listing.read())
    direct = {"kind": "convolution", "target": "avx2", "variant": "direct"}
    few = [entry for entry in entries if {**entry, "layout": ""} == {**direct, "layout": ""}]
    assert [entry["layout"] for entry in few] == ["NCHW", "NHWC"]
    listing.write(map(listing.from_dict, few), path)
    return path


def built(kernels, folder, *words, **variables):
    output = folder / "dist"
    run(SCRIPTS / "wheel.py", "--kernels", kernels, "--output", output, *words, **variables)
    (wheel,), (sdist,) = output.glob("*.whl"), output.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def twice(kernels, tmp_path_factory):
    """Build both files in two caches: nothing is compiled once for both."""
    folders = [tmp_path_factory.mktemp(name) for name in ("one", "two")]
    return [built(kernels, one, WINOGEN_CACHE=str(one / "cache")) for one in folders]


def test_the_same_source_gives_the_same_bytes(twice):
    for one, two in zip(*twice):
        assert one.name == two.name
        assert one.read_bytes() == two.read_bytes()


def test_the_wheel_keeps_to_its_tag(twice):
    wheel, _ = twice[0]
    assert wheel.name.endswith("-py3-none-manylinux_2_17_x86_64.whl")
    said = run(SCRIPTS / "check_wheel.py", wheel)
    assert "avx2.kernels" in said and "generic.kernels" in said


def test_the_wheel_is_used_without_a_compiler(twice):
    said = run(SCRIPTS / "test_wheel.py", *twice[0])
    assert "avx2: " in said and "s to the first result" in said


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
def test_a_wheel_for_aarch64_is_compiled_here(kernels, tmp_path):
    wheel, _ = built(kernels, tmp_path, "--machine", "aarch64")
    assert wheel.name.endswith("-py3-none-manylinux_2_17_aarch64.whl")
    assert "neon.kernels" in run(SCRIPTS / "check_wheel.py", wheel)
    said = run(SCRIPTS / "test_wheel.py", wheel)
    assert "qemu-aarch64" in said or not shutil.which("qemu-aarch64-static")
