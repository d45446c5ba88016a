"""The programs in examples/ run as their first lines say, and print what they should."""

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from winogen.errors import BuildError
from winogen.toolchain import find_compiler

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(
    path.name for path in (ROOT / "examples").iterdir() if path.suffix in (".py", ".c", ".sh")
)
# What each prints, whatever the machine.
PRINTS = {
    "accuracy_of_my_layer.py": r"direct +\d\.\de-0[67].*F\(4x4, 3x3\) by points.*what is chosen",
    "filter_photograph.py": r"two passes .* \de-0[67]\nblurred.png .*\nedges.png ",
    "header_in_an_engine.c": r"\nequal to the definition, but for rounding\n$",
    "layer_for_a_device.py": r"workspace \d+ of 49152 bytes\ncorner 32, edge 48, inside 72\n$",
    "network_for_a_device.py": r"^arena [\d,]+ bytes.*\ny: off by .* allowed: right\n",
    "points_and_error.py": r"9/16 +0 +-5/2 .*default +22 .*with x\^2 \+ 1: 7 products",
    "threads_and_processes.py": r"^threads: +True\nprocesses: +True\nsame bits: +True\n$",
    "train_low_rank.py": r"^original: 99.*\nranks  4,16, 1.21 and 6.67 .*: 9.*, after .* 9[89]",
    "upscale.py": r"winogen +\d+\.\d\d s\n.*large.png 1024 x 1200\n",
    "what_a_plan_says.py": r"^conv2d float32 NCHW.*within 100 kB .*\n\nworkspace_limit: got 1000; ",
}
NEEDS = {
    "network_for_a_device.py": ("onnx.helper", "onnxruntime"),
    "train_low_rank.py": ("torch",),
}
SLOW = {
    "accuracy_of_my_layer.py",
    "points_and_error.py",
    "threads_and_processes.py",
    "train_low_rank.py",
    "what_a_plan_says.py",
}


def head(name: str) -> str:
    """The comment that a program begins with."""
    text = (ROOT / "examples" / name).read_text("utf-8")
    if name.endswith(".py"):
        return ast.get_docstring(ast.parse(text)) or ""
    return re.sub(r"^ \* ?", "", text.partition("*/")[0].removeprefix("/* "), flags=re.MULTILINE)


@pytest.fixture
def shell(tmp_path):
    """Run a command where a reader would: beside examples/ and transforms/, with a strict cc."""
    try:
        compiler = find_compiler()
    except BuildError:
        pytest.skip("no C compiler")
    for name in ("examples", "transforms"):
        (tmp_path / name).symlink_to(ROOT / name)
    tools = {
        "python": [sys.executable],
        "cc": [*compiler.command, "-Wall", "-Wextra", "-Werror"],
    }
    (tmp_path / "bin").mkdir()
    for name, words in tools.items():
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    path = os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]])

    def run(command: str) -> str:
        done = subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    return run


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.thorough if name in SLOW else ())
    for name in EXAMPLES
])  # fmt: skip
def test_it_runs_as_it_says_and_prints_what_it_should(name, shell):
    for module in NEEDS.get(name, ()):
        pytest.importorskip(module)
    command = re.search(r"^Run: (.+)$", head(name), re.MULTILINE)
    assert command, f"{name}: no line that begins with Run:"
    assert f"examples/{name}" in command[1]
    printed = shell(command[1])
    assert re.search(PRINTS[name], printed, re.DOTALL), printed


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_is_short_and_in_the_index(name):
    assert len((ROOT / "examples" / name).read_text("utf-8").splitlines()) <= 100
    assert f"({name})" in (ROOT / "examples" / "README.md").read_text("utf-8")


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name.endswith(".py")])
def test_what_it_imports_is_there_or_said(name):
    """A package beyond a plain installation is named, with the extra that brings it."""
    tree = ast.parse((ROOT / "examples" / name).read_text("utf-8"))
    for statement in tree.body:
        modules = [alias.name for alias in getattr(statement, "names", ())]
        if isinstance(statement, ast.ImportFrom):
            modules = [statement.module]
        elif not isinstance(statement, ast.Import):
            continue
        for module in {one.partition(".")[0] for one in modules} - {"numpy", "winogen"}:
            if module not in sys.stdlib_module_names:
                assert re.search(rf"Needs [^:]*\b{module}\b.*pip install", head(name)), module


def test_a_picture_is_enlarged_without_packages_for_pictures(tmp_path):
    blocked = "import sys, runpy; sys.modules.update(dict.fromkeys(('matplotlib', 'PIL', 'torch')))"
    run = "runpy.run_path(sys.argv[0], run_name='__main__')"
    example = str(ROOT / "examples" / "upscale.py")
    code = f"{blocked}; sys.argv = [{example!r}, '--net', 'tiny', '-o', 'large.png']; {run}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "large.png 1024 x 1200" in done.stdout
    image = pytest.importorskip("PIL.Image").open(tmp_path / "large.png")
    assert image.size == (1024, 1200) and image.getpixel((512, 600)) != image.getpixel((5, 5))
