#!/usr/bin/env python3
"""Check a wheel with prebuilt kernels: its size, files, metadata, grammar and shared libraries.

    python scripts/check_wheel.py dist/winogen-*.whl

Prints what it found, and ends with 1 if anything is wrong. Needs readelf; auditwheel and twine,
where they are installed, have their say as well.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from winogen.toolchain.prebuilt import SUFFIX, Archive  # noqa: E402

MOST_BYTES = 12_000_000
OLDEST_PYTHON = 3, 10
# What every system has that the tag stands for (PEP 600), of what C needs.
_SYSTEM = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2"}
_SYSTEM |= {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def problems(wheel: Path) -> Iterator[str]:
    """Yield what is wrong with a wheel."""
    tag = re.search(r"manylinux_(\d+)_(\d+)_(\w+)\.whl$", wheel.name)
    if tag is None:
        yield f"{wheel.name} is not for a kind of machine"
        return
    glibc = int(tag[1]), int(tag[2])
    size = wheel.stat().st_size
    print(f"{wheel.name}: {size:,} bytes")
    if size > MOST_BYTES:
        yield f"{size:,} bytes, more than {MOST_BYTES:,}"
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        names = archive.namelist()
        yield from _files(names)
        yield from _metadata(archive, names)
        for name in names:
            if name.endswith(".py"):
                try:
                    ast.parse(archive.read(name), name, feature_version=OLDEST_PYTHON)
                except SyntaxError as problem:
                    yield f"{name} is not for Python 3.10: {problem}"
        unpacked = Path(folder)
        for name in names:
            if name.endswith(SUFFIX):
                archive.extract(name, unpacked)
        yield from _libraries(unpacked, glibc, tag[3])
        yield from _audited(wheel, unpacked)


def _files(names: list[str]) -> Iterator[str]:
    for name in names:
        top = name.split("/")[0]
        if top != "winogen" and not top.endswith(".dist-info"):
            yield f"{name} does not belong into a wheel"
        if name.endswith((".pyc", ".so", ".o")) or "/tests/" in name:
            yield f"{name} does not belong into a wheel"
    wanted = ("winogen/py.typed", "winogen/csrc/kernels/mcmr.c.j2", "winogen/transforms/index.json")
    for name in wanted:
        if name not in names:
            yield f"{name} is missing"
    if not any(name.endswith(SUFFIX) for name in names):
        yield "there are no prebuilt kernels"


def _metadata(archive: zipfile.ZipFile, names: list[str]) -> Iterator[str]:
    (name,) = (one for one in names if one.endswith(".dist-info/METADATA"))
    data = message_from_bytes(archive.read(name))
    license_ = name.replace("METADATA", "licenses/LICENSE")
    if license_ not in names or data["License-Expression"] != "MIT":
        yield "the licence is missing"
    elif archive.read(license_) != (ROOT / "LICENSE").read_bytes():
        yield "the licence is another one"
    if not data["Classifier"]:
        yield "there are no classifiers"


def _libraries(folder: Path, glibc: tuple[int, int], machine: str) -> Iterator[str]:
    """What is wrong with the libraries in all archives; each is left as a file."""
    for path in sorted(folder.rglob(f"*{SUFFIX}")):
        archive, bytes_ = Archive(path, trusted=True), 0
        for key in archive.entries:
            library = path.with_name(f"{path.stem}-{key}.so")
            library.write_bytes(archive.library(key))
            bytes_ += library.stat().st_size
        print(
            f"  {path.name:<20} {len(archive.entries):>4} libraries {path.stat().st_size:>10,} "
            f"bytes, unpacked {bytes_:>11,}; {archive.compiler}"
        )
        if archive.machine != machine:
            yield f"{path.name} is for {archive.machine}"
        path.unlink()
    libraries = sorted(map(str, folder.rglob("*.so")))
    newest = (0, 0)
    for at in range(0, len(libraries), 100):
        command = ["readelf", "--wide", "--dynamic", "--version-info", *libraries[at : at + 100]]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for name in set(re.findall(r"\(NEEDED\).*\[(.*?)\]", text)) - _SYSTEM:
            yield f"a library needs {name}"
        if re.search(r"\((RPATH|RUNPATH)\)", text):
            yield "a library names folders of the machine that it was built on"
        for one in set(re.findall(r"Name: ([\w.]+)  Flags", text)):
            version = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", one)
            if version is None:
                yield f"a library asks for {one}"
                continue
            asked = int(version[1]), int(version[2])
            newest = max(newest, asked)
            if asked > glibc:
                yield f"a library asks for {one}"
    print(f"  newest version of glibc that a library asks for: {newest[0]}.{newest[1]}")


def _audited(wheel: Path, folder: Path) -> Iterator[str]:
    """What auditwheel says of the same wheel with its libraries in the open; twine's opinion."""
    if importlib.util.find_spec("auditwheel"):
        copy = folder / wheel.name
        with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(copy, "w") as opened:
            for name in whole.namelist():
                if not name.endswith((SUFFIX, "RECORD")):
                    opened.writestr(name, whole.read(name))
            for library in sorted(folder.rglob("*.so")):
                opened.write(library, f"winogen/prebuilt/{library.name}")
            record = next(name for name in whole.namelist() if name.endswith("RECORD"))
            opened.writestr(record, "".join(f"{name},,\n" for name in opened.namelist()))
        command = [sys.executable, "-m", "auditwheel", "show", str(copy)]
        report = subprocess.run(command, check=False, capture_output=True, text=True)
        text = " ".join((report.stdout + report.stderr).split())
        print(f"  auditwheel: {text}")
        tag = wheel.stem.rsplit("-", 1)[1]
        if report.returncode or f'"{tag}"' not in text:
            yield "auditwheel finds another tag"
    if importlib.util.find_spec("twine"):
        command = [sys.executable, "-m", "twine", "check", "--strict", str(wheel)]
        report = subprocess.run(command, check=False, capture_output=True, text=True)
        if report.returncode:
            yield f"twine: {report.stdout}{report.stderr}"


def main() -> None:
    """Check the wheels of the command line."""
    found = [f"{Path(one).name}: {text}" for one in sys.argv[1:] for text in problems(Path(one))]
    for text in found:
        print(text, file=sys.stderr)
    raise SystemExit(bool(found) or len(sys.argv) < 2)


if __name__ == "__main__":
    main()
