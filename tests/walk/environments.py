"""Fresh environments that hold only what a page says, and commands that run in them as a user does.

A walk leaves the clone: winogen is installed from a copy of its files, commands run in an empty
folder, with an empty home, and as a user without rights where the tests may become one.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from kept.compilers import folder_of_compilers

ROOT = Path(__file__).parents[2]
# Signs of an error that nobody wrote for a user.
RAW = ("Traceback (most recent call last)", "Segmentation fault", "core dumped")
NOBODY = "nobody"

# In the background of a shell Ctrl-C is ignored, which commands would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclass(frozen=True)
class Ended:
    """How a command ended: its status, None if it was interrupted, and all that it said."""

    status: int | None
    said: str


@dataclass(frozen=True)
class Environment:
    """A virtual environment with winogen, and who uses it."""

    python: Path
    user: str | None = None

    def variables(self, home: Path, **more: str) -> dict[str, str]:
        """Return what the environment of a new login would be; nothing of the tests' own."""
        own = "WINOGEN_ISA", "OPENBLAS_NUM_THREADS"  # and what walks side by side need
        names = [name for name in os.environ if name.startswith("PIP_") or name in own]
        kept = {name: os.environ[name] for name in names}
        folders = [str(self.python.parent), "/usr/local/bin", "/usr/bin", "/bin"]
        if not self.user:  # the compilers that remember what they made
            folders.insert(1, str(folder_of_compilers()))
        path = os.pathsep.join(folders)
        return {**kept, "HOME": str(home), "PATH": path, "LANG": "C.UTF-8", **more}

    def run(self, script: str, folder: Path, limit: float | None = None, **variables: str) -> Ended:
        """Run shell commands in a folder, with a new home beside it.

        After ``limit`` seconds they are interrupted, as by Ctrl-C. The test fails where anything
        raw was printed, or a process is left.
        """
        home = folder.with_name(f"{folder.name}.home")
        home.mkdir(exist_ok=True)
        if self.user:
            shutil.chown(home, self.user)
            shutil.chown(folder, self.user)
        with tempfile.TemporaryFile("w+", errors="replace") as said:
            process = subprocess.Popen(
                ["sh", "-e", "-c", script],
                cwd=folder, env=self.variables(home, **variables), user=self.user,
                stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
            status: int | None
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGINT)
                try:
                    process.wait(60)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    said.write(f"\nno end within a minute of Ctrl-C: {script}\n{RAW[0]}")
                status = None
            said.seek(0)
            text = said.read()
        raw = [sign for sign in RAW if sign in text]
        assert not raw, f"{script}\n{text}"
        return Ended(status, text)

    def succeeds(self, script: str, folder: Path, **variables: str) -> str:
        """Run commands that must succeed; return what they say."""
        ended = self.run(script, folder, **variables)
        assert ended.status == 0, f"{script}\n{ended.said}"
        return ended.said


def other_user() -> str | None:
    """Return the name of a user without rights, where the tests may run programs as one."""
    try:
        pwd.getpwnam(NOBODY)
    except KeyError:
        return None
    return NOBODY if os.geteuid() == 0 else None


def copied(folder: Path) -> Path:
    """Copy the files of the clone that git knows, as they are now."""
    names = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=True
    ).stdout.decode()
    for name in filter(None, names.split("\0")):
        path = ROOT / name
        if path.is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, folder / name)
    return folder


def constraints(folder: Path) -> Path:
    """Write which torch pip may take: the one that is here, as others may have 5 GB of CUDA."""
    path = folder / "constraints.txt"
    try:
        path.write_text(f"torch=={importlib.metadata.version('torch').partition('+')[0]}\n")
    except importlib.metadata.PackageNotFoundError:
        path.write_text("")
    return path


def installed(extras: str, cache: Path, source: Path, lab: bool = False) -> Environment:
    """Return an environment with `pip install '.[extras]'` of a copy of the clone, in ``cache``.

    ``lab``: with `./lab`, too. The packages of others stay there; winogen is installed anew.
    """
    projects = [ROOT / "pyproject.toml", *([ROOT / "lab" / "pyproject.toml"] if lab else [])]
    words = [extras, sys.version, *(path.read_text("utf-8") for path in projects)]
    digest = hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]
    cache.mkdir(parents=True, exist_ok=True)
    name = "-".join([*filter(None, extras.split(",")), *(["lab"] if lab else [])]) or "plain"
    folder = cache / f"environment-{name}-{digest}"
    beside = [source / "lab"] if lab else []
    python = folder / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    more = {**os.environ, "PIP_CONSTRAINT": str(constraints(cache)), "PYTHONPATH": ""}
    with FileLock(f"{folder}.lock"):
        if not (folder / "complete").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
            what = f"{source}[{extras}]" if extras else source
            subprocess.run([*pip, what, *beside], check=True, env=more)
            (folder / "complete").touch()
        done = folder / "source"
        if not done.exists() or done.read_text() != str(source):
            again = ["--no-deps", "--force-reinstall", source, *beside]
            subprocess.run([*pip, *again], check=True, env=more)
            done.write_text(str(source))
    return Environment(python)
