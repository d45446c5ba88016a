"""winogen's wheel has no laboratory and works without; the laboratory's wheel adds its commands."""

import importlib.util
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
import tomllib

import winogen
import winogen_lab

ROOT = Path(__file__).resolve().parents[2]

needs_build = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("build", "hatchling"))),
    reason="build and hatchling are not installed",
)


def wheel_of(project, folder):
    """Build a wheel without prebuilt kernels."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder]
    subprocess.run([*command, project], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Both wheels."""
    return [wheel_of(one, tmp_path_factory.mktemp("dist")) for one in (ROOT, ROOT / "lab")]


@pytest.fixture
def environment(wheels, tmp_path):
    """``run, add_laboratory``: an environment with winogen's wheel and the packages from here."""
    venv.create(tmp_path / "venv", with_pip=False)
    (packages,) = (tmp_path / "venv" / "lib").glob("*/site-packages")
    for folder in (Path(path) for path in sys.path if path.endswith("site-packages")):
        for path in folder.iterdir():
            is_ours = "winogen" in path.name or path.suffix == ".pth"
            if not is_ours and not (packages / path.name).exists():
                (packages / path.name).symlink_to(path)

    def add(wheel):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)

    def run(*words, status=0):
        done = subprocess.run(
            [tmp_path / "venv" / "bin" / "python", "-m", "winogen", *map(str, words)],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": "", "COLUMNS": "100"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    add(wheels[0])
    return run, lambda: add(wheels[1])


@needs_build
def test_neither_wheel_has_files_of_the_other(wheels):
    names = [zipfile.ZipFile(one).namelist() for one in wheels]
    ours, laboratory = ({name.split("/")[0] for name in some} for some in names)
    assert ours == {"winogen", f"winogen-{winogen.__version__}.dist-info"}
    version = winogen_lab.__version__
    assert laboratory == {"winogen_lab", f"winogen_lab-{version}.dist-info"}
    for data in ("cover/kernels.json", "loops/loops.c.j2", "nets/tiny/digits.npz"):
        assert f"winogen_lab/{data}" in names[1]


def test_the_laboratory_asks_for_the_winogen_beside_it():
    project = tomllib.loads((ROOT / "lab" / "pyproject.toml").read_text("utf-8"))["project"]
    assert f"winogen=={winogen.__version__}" in project["dependencies"]
    assert winogen_lab.__version__ == winogen.__version__


@pytest.mark.thorough
@needs_build
def test_winogen_works_without_the_laboratory_and_gets_its_commands_with_it(environment, tmp_path):
    run, add_laboratory = environment
    assert "bench " not in run("--help")
    assert "pip install ./lab" in run("bench", "--threads", 2, status=2)
    assert "index.html" in run("report", "--layers", "none", "--trials", 5, "-o", "accuracy")
    add_laboratory()
    assert "bench " in run("--help") and "--peers" in run("bench", "--help")
    assert "search-loops" in run("lab", "--help")
    (tmp_path / "one.json").write_text(
        '[{"name": "one", "input": [1, 8, 9, 9], "weight": [8, 8, 3, 3]}]'
    )
    assert "winogen" in run("bench", "--layers", "one.json", "--peers", "none", "--repeat", 2)
    words = ("--input", "1,8,9,9", "--weight", "8,8,3,3")
    assert "for " in run("lab", "loops", *words)
    assert "loops" in run("plan", *words, "--algorithm", "loops")
