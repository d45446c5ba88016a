"""Compilers that remember what they made, first on the path of all tests; `compile` is one."""

import hashlib
import os
import re
import sys
from contextlib import suppress
from pathlib import Path

from kept.folders import kept

NAMES = re.compile(r"(cc|gcc|clang)(-[0-9]+)?|[a-z0-9_]+(-[a-z0-9_]+)+-gcc")
# Bytes that may be kept; all that the suite compiles takes less than a third.
LIMIT = 3 << 30

PROGRAM = """#!{python} -IS
import sys
sys.path.insert(0, {code!r})
from compile_{digest} import main
main({real!r}, {store!r})
"""


def _digest() -> str:
    """Return what tells these programs from those of other clones with the same cache."""
    text = (Path(__file__).parent / "compile.py").read_text("utf-8") + PROGRAM
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def folder_of_compilers() -> Path:
    """Return the folder that comes first on the path of tests."""
    return kept(f"compilers-{_digest()}")


def install() -> None:
    """Put the folder of the compilers first on the path of this process and of those it starts."""
    folder = folder_of_compilers()
    others = [one for one in os.environ["PATH"].split(os.pathsep) if one and Path(one) != folder]
    _fill(folder, others)
    os.environ["PATH"] = os.pathsep.join((str(folder), *others))


def without(path: str) -> str:
    """Return a PATH without that folder, for tests of compilers themselves."""
    folder = str(folder_of_compilers())
    return os.pathsep.join(one for one in path.split(os.pathsep) if one != folder)


def _fill(folder: Path, others: list[str]) -> None:
    text, digest = (Path(__file__).parent / "compile.py").read_text("utf-8"), _digest()
    code = kept("compilers.code")
    _write(code / f"compile_{digest}.py", text, 0o600)
    # By their whole paths: what stands first on another path may call these here.
    real: dict[str, str] = {}
    for other in filter(os.path.isdir, others):
        for name in filter(NAMES.fullmatch, os.listdir(other)):
            path = os.path.join(other, name)
            if os.access(path, os.X_OK):
                real.setdefault(name, path)
    python = os.path.realpath(sys.executable)
    where = {"store": str(kept("compiled")), "code": str(code), "python": python}
    for name, path in real.items():
        _write(folder / name, PROGRAM.format(real=path, digest=digest, **where), 0o700)
    for gone in {path.name for path in folder.iterdir()} - set(real):
        with suppress(OSError):  # another process may have removed it, or is writing it
            if NAMES.fullmatch(gone):
                (folder / gone).unlink()


def _write(path: Path, text: str, mode: int) -> None:
    with suppress(OSError):
        if path.read_text("utf-8") == text:
            return
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text, "utf-8")
    draft.chmod(mode)
    draft.replace(path)


def prune(limit: int = LIMIT) -> None:
    """Remove what was not used for longest until ``limit`` bytes are left."""
    files = []
    for path in kept("compiled").glob("*/*"):
        with suppress(OSError):
            status = path.stat()
            files.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= limit:
            return
        with suppress(OSError):
            path.unlink()
        total -= size
