"""Run `winogen transforms check`, unless it succeeded before with exactly these files.

Deriving and proving every transform takes minutes, and follows from what is digested here: all
that the catalog may import, the templates of a header, what is compared, and the versions of what
does sums and writes text. The digests of checks that succeeded are kept in the folder of the tests'
cache (tests/kept/folders.py).
"""

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from modulefinder import ModuleFinder
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What stands before kernels in docs/architecture.md: some of it is imported by the names of others.
ROOMS = ("records", "tasks", "algebra", "program", "rounding", "fixed")
CATALOG, COMMAND = "winogen.codegen.catalog", "winogen/cli/transforms.py"
# Where names of winogen itself lead, which no folder before these may use.
LATER = ("winogen.conv", "winogen.hardware")
TEMPLATES = ("csrc/transform.h.j2", "csrc/parts/transform_function.h.j2")
PACKAGES = ("sympy", "mpmath", "numpy", "jinja2")


def files() -> Iterator[Path]:
    """Yield every file that the result follows from, in order."""
    rooms = (path for room in ROOMS for path in (ROOT / "winogen" / room).rglob("*.py"))
    singles = (ROOT / "winogen").glob("*.py")
    yield from sorted({*imported(CATALOG), ROOT / COMMAND, *rooms, *singles})
    yield from (ROOT / template for template in TEMPLATES)
    yield from sorted(path for path in (ROOT / "transforms").rglob("*") if path.is_file())


def imported(name: str) -> set[Path]:
    """Return the files of a module and of what it may import of winogen, within functions, too."""
    finder = ModuleFinder(path=[str(ROOT)], excludes=LATER)
    finder.import_hook(name)
    return {Path(module.__file__) for module in finder.modules.values() if module.__file__}


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
