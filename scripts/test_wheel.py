#!/usr/bin/env python3
"""Install a wheel and an sdist as their users would, without a compiler, and use them.

    python scripts/test_wheel.py dist/winogen-….whl [dist/winogen-….tar.gz]

Each Python from 3.10 on that is on the path gets a new environment with the newest dependencies,
one of them another with the oldest. There scripts/try_wheel.py runs with no program on the path, an
empty home folder and the package not writable, by another user where this one is root; by all
instruction sets and by lesser ones. An aarch64 wheel runs under qemu-aarch64, where that is
installed, as far as plain C can tell. What the sdist installs runs with a compiler, and passes the
shortest of the tests that the sdist has.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Instruction sets that WINOGEN_ISA chooses; "" for what the CPU has.
SETS = "", "avx2", "sse2"
_NEWEST = 15  # minor version of Python up to which one is looked for
_NOBODY = 65534
# Of the sdist: algebra and its C, what is refused, and kernels with all of their rest to compute.
_TESTS = "tests/algebra", "tests/conv/test_arguments.py", "tests/conv/test_direct.py"


def pythons() -> list[str]:
    """Return the Pythons on the path, from 3.10 on, each version once."""
    found = (shutil.which(f"python3.{minor}") for minor in range(10, _NEWEST + 1))
    usable = "import sys, venv, ensurepip"
    return [
        one
        for one in found
        if one
        and not subprocess.run([one, "-c", usable], check=False, capture_output=True).returncode
    ]


def environment(python: str, folder: Path, *requirements: str) -> Path:
    """Return the Python of a new environment with these requirements."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    made = folder / "bin" / "python"
    install = [str(made), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, *requirements], check=True)
    return made


def run(python: Path, isa: str = "", **variables: str) -> str:
    """Run try_wheel.py where nothing is found; return what it prints last."""
    with tempfile.TemporaryDirectory() as folder:
        home, empty = Path(folder) / "home", Path(folder) / "bin"
        home.mkdir()
        empty.mkdir()
        # A copy, since others need not be allowed to read where this is.
        program = shutil.copy(ROOT / "scripts" / "try_wheel.py", folder)
        command = [str(python), str(program)]
        if os.geteuid() == 0:  # who may write everything
            Path(folder).chmod(0o755)
            os.chown(home, _NOBODY, _NOBODY)
            user = f"--reuid={_NOBODY}", f"--regid={_NOBODY}"
            command = [str(shutil.which("setpriv")), *user, "--clear-groups", "--", *command]
        said = {"WINOGEN_ISA": isa} if isa else {}
        variables = {"HOME": str(home), "PATH": str(empty), **said, **variables}
        done = subprocess.run(
            command, check=False, cwd=home, env=variables, capture_output=True, text=True
        )
    if done.returncode:
        raise SystemExit(f"{command} with {variables}\n{done.stdout}{done.stderr}")
    return (done.stdout.splitlines() or [""])[-1]


def tested(python: Path, sdist: str, folder: Path) -> str:
    """Run tests of an sdist by what was installed from it; return what pytest says last."""
    with tarfile.open(sdist) as archive:
        (top,) = {name.split("/")[0] for name in archive.getnames()}
        archive.extractall(folder)
    # Not `python -m pytest`, which would take the package from the folder.
    command = [str(python.with_name("pytest")), "-q", "-p", "no:cacheprovider", *_TESTS]
    done = subprocess.run(command, check=False, cwd=folder / top, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{command}\n{done.stdout}{done.stderr}")
    return done.stdout.splitlines()[-1]


def read_only(python: Path) -> None:
    """Take from everybody the right to write to an environment."""
    subprocess.run(["chmod", "-R", "a+rX,a-w", str(python.parents[1])], check=True)


def oldest() -> list[str]:
    """Return the oldest dependencies that are allowed, as requirements."""
    command = [sys.executable, str(ROOT / "scripts" / "minimum.py")]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")


def main() -> None:
    """Test the files of the command line."""
    wheel, *sdists = (str(Path(one).resolve()) for one in sys.argv[1:])
    if platform.machine() not in wheel:
        command = [sys.executable, str(ROOT / "scripts" / "emulate_wheel.py"), wheel]
        raise SystemExit(subprocess.run(command, check=False).returncode)
    found = pythons()
    versions = [Path(one).name.removeprefix("python") for one in found]
    rest = [f"3.{m}" for m in range(10, _NEWEST) if f"3.{m}" not in versions]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        for version, python in zip(versions, found):
            made = environment(python, Path(folder) / version, wheel)
            read_only(made)
            for isa in SETS:
                print(
                    f"Python {version}, {isa or 'all instructions'}: {run(made, isa)}", flush=True
                )
            print(f"Python {version}, no home: {run(made, HOME='/nowhere')}", flush=True)
        for version, python in zip(versions, found):
            if version in ("3.10", "3.11"):  # the oldest numpy was built for no later one
                made = environment(python, Path(folder) / "oldest", *filter(None, oldest()), wheel)
                print(f"Python {version}, oldest dependencies: {run(made)}", flush=True)
                break
        for sdist in sdists:
            needs = "pytest", "pytest-xdist", "hypothesis"
            made = environment(found[0], Path(folder) / "sdist", sdist, *needs)
            # It has no kernels: here they are compiled.
            path = os.environ.get("PATH", os.defpath)
            print(f"sdist, with a compiler: {run(made, PATH=path)}", flush=True)
            print(f"sdist, its own tests: {tested(made, sdist, Path(folder))}", flush=True)
    print(f"Python {', '.join(rest)}: not on the path, not tested; all files are of 3.10's grammar")


if __name__ == "__main__":
    main()
