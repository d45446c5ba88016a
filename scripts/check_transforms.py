"""Run `winogen transforms check`, unless it succeeded before with exactly these files.

Deriving and proving every transform takes minutes, and follows from what is digested here: all
that may take part, and the versions of what does sums and writes text. The digests of checks that
succeeded are kept in the folder of the tests' cache (tests/kept/folders.py).
"""

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What stands before codegen in docs/architecture.md, templates, and what is compared.
ROOMS = ("records", "tasks", "algebra", "program", "rounding", "fixed", "kernels", "codegen")
FOLDERS = (*(f"winogen/{room}" for room in ROOMS), "csrc", "transforms")
PACKAGES = ("sympy", "mpmath", "numpy", "jinja2")


def files() -> Iterator[Path]:
    """Yield every file that the result follows from, in order."""
    yield from sorted(ROOT.glob("winogen/*.py"))
    yield ROOT / "winogen" / "cli" / "transforms.py"
    for folder in FOLDERS:
        yield from sorted(
            path
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        )


def digest() -> str:
    """Return the digest of these files, and of what runs them."""
    versions = [sys.version, *(f"{package} {version(package)}" for package in PACKAGES)]
    sha = hashlib.sha256("\n".join(versions).encode())
    for path in files():
        data = hashlib.sha256(path.read_bytes()).hexdigest()
        sha.update(f"{path.relative_to(ROOT).as_posix()} {data}\n".encode())
    return sha.hexdigest()


def main() -> int:
    """Return the exit status of the check."""
    sys.path.insert(0, str(ROOT / "tests"))
    from kept.folders import kept

    before = digest()
    succeeded = kept("transforms") / before
    if succeeded.exists():
        print("every header is as generated, as these very files were checked before")
        return 0
    command = [sys.executable, "-m", "winogen", "transforms", "check"]
    status = subprocess.run(command, check=False, cwd=ROOT).returncode
    if status == 0 and digest() == before:
        succeeded.touch()
    return status


if __name__ == "__main__":
    sys.exit(main())
