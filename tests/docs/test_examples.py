"""The programs in examples/ run as their first lines say, and print what they should."""

import ast
import importlib.util
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
BESIDE = r"winogen +\d\.\d+ s\ntorch +\d.*times as fast\nlargest difference [0-9]e-0[5-9]\n"
# What each prints, whatever the machine.
PRINTS = {
    "accuracy_of_my_layer.py": r"direct +\d\.\de-0[67].*F\(4x4, 3x3\) by points.*what is chosen",
    "audio_as_c.py": r"y: off by .*: right\nC \d+\.\d\d ms .*\nsame bits: True\n$",
    "audio_in_pieces.py": r"^winogen \d+\.\d\d ms for 10 ms.*\nsame bits: True\n$",
    "decode_latents.py": rf"{BESIDE}a picture of 128 x 128, ",
    "esrgan_in_tiles.py": rf"{BESIDE}large.png 2048 x 96\n",
    "filter_photograph.py": r"two passes .* \de-0[67]\nblurred.png .*\nedges.png ",
    "header_in_an_engine.c": r"\nequal to the definition, but for rounding\n$",
    "layer_for_a_device.py": r"workspace \d+ of 49152 bytes\ncorner 32, edge 48, inside 72\n$",
    "network_for_a_device.py": r"^arena [\d,]+ bytes.*\ny: off by .* allowed: right\n",
    "points_and_error.py": r"9/16 +0 +-5/2 .*default +22 .*with x\^2 \+ 1: 7 products",
    "segment_photograph.py": rf"{BESIDE}mask.png 512 x 128\n",
    "threads_and_processes.py": r"^threads: +True\nprocesses: +True\nsame bits: +True\n$",
    "train_low_rank.py": r"^original: 99.*\nranks  4,16, 1.21 and 6.67 .*: 9.*, after .* 9[89]",
    "upscale.py": r"winogen +\d+\.\d\d s\n.*large.png 1024 x 1200\n",
    "upscaler_in_a_browser.py": r"^arena [\d,]+ bytes.*: right on .*\nupscaler/index.html\n$",
    "volume_in_patches.py": rf"^8 patches.*{BESIDE}40 voxels a side",
    "what_a_plan_says.py": r"^conv2d float32 NCHW.*within 100 kB .*\n\nworkspace_limit: got 1000; ",
}
NEEDS = {
    "audio_as_c.py": ("torch", "onnx.helper", "onnxruntime"),
    "decode_latents.py": ("torch",),
    "esrgan_in_tiles.py": ("torch",),
    "network_for_a_device.py": ("onnx.helper", "onnxruntime"),
    "segment_photograph.py": ("torch",),
    "train_low_rank.py": ("torch",),
    "upscaler_in_a_browser.py": ("onnx.helper", "onnxruntime"),
    "volume_in_patches.py": ("torch",),
}
# What of the system they need.
FILES = {"upscaler_in_a_browser.py": ("/usr/bin/wasm-ld-16", "/usr/lib/wasm32-wasi/libc.a")}
SLOW = {
    "audio_as_c.py",
    "accuracy_of_my_layer.py",
    "decode_latents.py",
    "esrgan_in_tiles.py",
    "points_and_error.py",
    "segment_photograph.py",
    "threads_and_processes.py",
    "train_low_rank.py",
    "upscaler_in_a_browser.py",
    "volume_in_patches.py",
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
    if missing := [path for path in FILES.get(name, ()) if not Path(path).exists()]:
        pytest.skip(f"needs {' and '.join(missing)}")
    command = re.search(r"^Run: (.+)$", head(name), re.MULTILINE)
    assert command, f"{name}: no line that begins with Run:"
    assert f"examples/{name}" in command[1]
    printed = shell(command[1])
    assert re.search(PRINTS[name], printed, re.DOTALL), printed


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_is_short_and_in_the_index(name):
    assert len((ROOT / "examples" / name).read_text("utf-8").splitlines()) <= 100
    assert f"({name})" in (ROOT / "examples" / "README.md").read_text("utf-8")


def run_without(packages: tuple[str, ...], folder: Path, *words: str):
    """Run a program of examples/ as if packages were not installed."""
    blocked = f"import sys, runpy; sys.modules.update(dict.fromkeys({packages!r}))"
    run = "runpy.run_path(sys.argv[0], run_name='__main__')"
    arguments = [str(ROOT / "examples" / words[0]), *words[1:]]
    return subprocess.run(
        [sys.executable, "-c", f"{blocked}; sys.argv = {arguments!r}; {run}"],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip


def beyond_plain(name: str) -> set[str]:
    """The packages that a program imports as it begins, without those of a plain installation."""
    modules = set()
    tree = ast.parse((ROOT / "examples" / name).read_text("utf-8"))
    for part in tree.body:
        for statement in (part, *getattr(part, "body", ())):
            if isinstance(statement, ast.Import):
                modules |= {alias.name for alias in statement.names}
            elif isinstance(statement, ast.ImportFrom):
                modules.add(statement.module)
    packages = {module.partition(".")[0] for module in modules}
    return packages - {"numpy", "winogen"} - sys.stdlib_module_names


def lacks(package: str) -> bool:
    """Whether a package is not installed."""
    return importlib.util.find_spec(package) is None


@pytest.mark.parametrize("name", sorted(name for name in NEEDS | {"filter_photograph.py": ()}))
def test_what_it_needs_is_said_before_and_when_it_lacks(name, tmp_path):
    """A package beyond a plain installation is named, with what brings it."""
    for package in beyond_plain(name):
        assert re.search(rf"Needs [^:]*\b{package}\b.*pip install", head(name)), package
        done = run_without((package,), tmp_path, name)
        assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
        # Who lacks others, too, is told of the first.
        lacking = "|".join({package, *filter(lacks, beyond_plain(name))})
        cure = rf"({lacking}): cannot be imported; install it by pip install ('\.\[|\./lab)"
        assert re.search(cure, done.stderr), done.stderr


def test_no_other_needs_more_than_a_plain_installation():
    """What some import if they can, they do without."""
    names = {name for name in EXAMPLES if name.endswith(".py") and beyond_plain(name)}
    assert names == {*NEEDS, "audio_in_pieces.py", "filter_photograph.py", "upscale.py"}


def test_audio_runs_without_torch(tmp_path):
    done = run_without(("torch",), tmp_path, "audio_in_pieces.py", "0.5")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("same bits: True\n") and "torch" not in done.stdout


def test_a_picture_is_enlarged_without_packages_for_pictures(tmp_path):
    packages = "matplotlib", "PIL", "torch"
    done = run_without(packages, tmp_path, "upscale.py", "--net", "tiny", "-o", "large.png")
    assert done.returncode == 0, done.stderr
    assert "large.png 1024 x 1200" in done.stdout
    image = pytest.importorskip("PIL.Image").open(tmp_path / "large.png")
    assert image.size == (1024, 1200) and image.getpixel((512, 600)) != image.getpixel((5, 5))
