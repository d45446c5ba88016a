"""scripts/: what a fresh machine lacks is said in one line; all oldest dependencies are listed."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
TOOLS = ("cat", "cmp", "cp", "dirname", "sh")
GOOD_PYTHON = "exit 0"
OLD_PYTHON = 'case "$2" in *version.split*) echo 3.8.10;; *) exit 1;; esac'
NO_VENV = 'case "$2" in *ensurepip*) exit 1;; esac'


@pytest.fixture
def machine(tmp_path):
    """``machine(cc=..., python3=...)`` runs setup.sh where only these scripts are on the path."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "setup.sh", tmp_path / "scripts")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "lab").mkdir()
    shutil.copy(ROOT / "lab" / "pyproject.toml", tmp_path / "lab")
    programs = tmp_path / "bin"
    programs.mkdir()
    for tool in TOOLS:
        (programs / tool).symlink_to(shutil.which(tool))

    def run(environment=(), **scripts):
        for name, body in scripts.items():
            path = programs / name
            path.write_text(f"#!/bin/sh\n{body}\n")
            path.chmod(0o755)
        return subprocess.run(
            ["sh", "scripts/setup.sh"],
            cwd=tmp_path,
            env={"PATH": str(programs), **dict(environment)},
            capture_output=True,
            check=False,
            text=True,
        )

    run.folder = tmp_path
    return run


def complaint(result) -> str:
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("winogen: ") and not result.stdout
    return line


def test_a_missing_compiler(machine):
    assert "install gcc >= 9 or clang >= 10" in complaint(machine(python3=GOOD_PYTHON))


def test_a_cc_that_is_no_program(machine):
    result = machine({"CC": "nocc -O2"}, cc="exit 0", python3=GOOD_PYTHON)
    assert "CC is 'nocc -O2', which is not a program" in complaint(result)


def test_a_missing_python(machine):
    line = complaint(machine(cc="exit 0"))
    assert "needs Python >= 3.10, found none; install it" in line


def test_an_old_python(machine):
    line = complaint(machine(cc="exit 0", python3=OLD_PYTHON))
    assert "needs Python >= 3.10, found 3.8.10; install it" in line


def test_a_newer_python_beside_an_old_one_is_found(machine):
    line = complaint(machine(cc="exit 0", python3=OLD_PYTHON, **{"python3.12": NO_VENV}))
    assert line.startswith("winogen: python3.12 has no venv module")


def test_a_missing_venv_module(machine):
    line = complaint(machine(cc="exit 0", python3=NO_VENV))
    assert (
        "python3 has no venv module; install it (Debian, Ubuntu: apt install python3-venv)" in line
    )


def test_an_up_to_date_venv_is_left_alone(machine):
    binaries = machine.folder / ".venv" / "bin"
    binaries.mkdir(parents=True)
    python = binaries / "python"
    python.write_text("#!/bin/sh\nexit 0\n")
    python.chmod(0o755)
    projects = [machine.folder / name for name in ("pyproject.toml", "lab/pyproject.toml")]
    texts = [path.read_bytes() for path in projects]
    (machine.folder / ".venv" / "pyproject.toml").write_bytes(b"".join(texts))
    result = machine(cc="exit 0")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    for path, text in zip(projects, texts):
        path.write_text("# changed\n")
        assert "needs Python" in complaint(machine(cc="exit 0"))
        path.write_bytes(text)


def minimum(root, *words):
    command = [sys.executable, str(root / "scripts" / "minimum.py"), *words]
    return subprocess.run(command, capture_output=True, check=False, text=True)


def test_every_dependency_is_listed_at_its_lower_bound():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    allowed = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    answer = minimum(ROOT, "test")
    assert answer.returncode == 0, answer.stderr
    oldest = [re.sub(r">=([^,;]+)(,<[^;]+)?", r"==\1", one) for one in allowed]
    assert answer.stdout.splitlines() == oldest


@pytest.mark.parametrize(
    "text, message",
    [
        ('dependencies = [\n    "numpy",\n]', "numpy: got no plain lower bound"),
        ('dependencies = ["numpy>1.2,>=1"]', "allowed: name>=version"),
        ('dependencies = ["numpy>=1"]', "extra: got search; allowed: dependencies"),
    ],
)
def test_a_dependency_without_a_lower_bound_is_an_error(tmp_path, text, message):
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "minimum.py", tmp_path / "scripts")
    (tmp_path / "pyproject.toml").write_text(f"[project]\n{text}\n")
    answer = minimum(tmp_path, *(["search"] if "search" in message else []))
    assert answer.returncode == 1 and message in answer.stderr
