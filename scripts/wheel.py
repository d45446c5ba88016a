#!/usr/bin/env python3
"""Build sdists and wheels, winogen's with prebuilt kernels, each reproducible to the byte.

    python scripts/wheel.py [--machine aarch64] [--kernels FILE] [--output DIR]

Kernels are those of lab/winogen_lab/cover/kernels.json, compiled by gcc for their targets, never
for this machine; for aarch64 by a cross compiler. `make wheel` runs this, and then checks and
tests what it made.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "lab")]

from winogen.conv import quantized_tiles  # noqa: E402
from winogen.conv.stock import build_of, floor  # noqa: E402
from winogen.graph import runtime  # noqa: E402
from winogen.kernels.gemm import GemmSpec, tuning  # noqa: E402
from winogen.kernels.kind import Spec  # noqa: E402
from winogen.kernels.spec import KernelSpec  # noqa: E402
from winogen.onnx import library as onnx_library  # noqa: E402
from winogen.records import TARGETS, Precision, Target  # noqa: E402
from winogen.toolchain import find_compiler, meters, prebuilt  # noqa: E402
from winogen.toolchain.loader import Build  # noqa: E402
from winogen_lab.cover import listing  # noqa: E402

# Of each kind of machine: its compiler, and the oldest glibc that Python's wheels of that kind may
# ask for.
MACHINES = {"x86_64": ("gcc", "2_17"), "aarch64": ("aarch64-linux-gnu-gcc", "2_17")}
# Columns of right factors for which products have register blocks of their own.
_COLUMNS = 64, 96


def builds(kernels: Iterable[Spec], machine: str) -> dict[str, list[Build]]:
    """Return all that is compiled, by the name of the target."""
    found: dict[str, list[Build]] = defaultdict(list)
    if machine == "x86_64":
        for kernel in kernels:
            found[kernel.target.name].append(build_of(kernel))
    else:  # what x86 has of AVX2, NEON has in its place
        for kernel in kernels:
            if (neon := on_neon(kernel)) is not None:
                found["neon"].append(build_of(neon))
    for name in list(found):
        target = TARGETS[name]
        found[name] += [
            meters.build_of(target),
            runtime.build_of(target, "float32"),
            quantized_tiles.build_of(target),
            *map(build_of, products(target)),
        ]
    found["generic"] += [onnx_library.build_of(), *floor()]
    return dict(found)


def products(target: Target) -> list[GemmSpec]:
    """Return the kernels of matrix products for a target."""
    precision = Precision.of("float32")
    tunings = dict.fromkeys(tuning(target, columns) for columns in _COLUMNS)
    return [GemmSpec(precision, target, one) for one in tunings]


def compiled(found: dict[str, list[Build]], machine: str, folder: Path, jobs: int) -> None:
    """Compile everything, and write an archive for each target to an empty folder."""
    count = sum(map(len, found.values()))
    done = 0

    def item(build: Build) -> prebuilt.ArchiveItem:
        nonlocal done
        made = build.compiled(machine=machine, system="Linux")
        done += 1
        print(f"{done}/{count} {build.target.name} {build.name}", flush=True)
        return made

    with ThreadPoolExecutor(jobs) as pool:
        for name, some in found.items():
            items = list(pool.map(item, some))
            path = folder / f"{name}{prebuilt.SUFFIX}"
            prebuilt.write(path, items, find_compiler().version, machine, "Linux")
            print(f"{path.name}: {len(items)} libraries, {path.stat().st_size:,} bytes")


def package(folder: Path, tag: str, output: Path) -> None:
    """Write the sdist and the wheel, and those of the laboratory, which have no kernels."""
    date = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], check=False, cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    environment = {
        "SOURCE_DATE_EPOCH": date or "315532800",
        **os.environ,
        "WINOGEN_WHEEL_KERNELS": str(folder),
        "WINOGEN_WHEEL_TAG": tag,
    }
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(output)]
    for project in (ROOT, ROOT / "lab"):
        for kind in ("--wheel", "--sdist"):
            subprocess.run([*command, kind, str(project)], env=environment, check=True)


def on_neon(kernel: Spec) -> Spec | None:
    """Return the kernel for NEON that does what one does for AVX2; None if NEON has none."""
    target = kernel.target
    if target.name != "avx2" or not isinstance(kernel, KernelSpec) or kernel.precision.stored:
        return None
    neon = TARGETS["neon"]
    tuned = kernel.entry.tuning(neon, kernel.precision).compiled
    return replace(kernel, target=neon, tuning=tuned)


def main() -> None:
    """Build what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machine", choices=MACHINES, default="x86_64")
    parser.add_argument("--kernels", type=Path, default=listing.FILE, help="the list")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compilers at once")
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    asked = parser.parse_args()
    compiler, glibc = MACHINES[asked.machine]
    include = ROOT / "scripts" / f"glibc_{glibc}.h"
    # Stripped, and calling no function of a younger glibc than the wheel's tag says.
    os.environ["CC"] = f"{os.environ.get('CC', compiler)} -s -include {include}"
    wanted = builds(listing.read(asked.kernels), asked.machine)
    # A folder of its own, so that two builds may run at once.
    with TemporaryDirectory(prefix="winogen-wheel-") as folder:
        compiled(wanted, asked.machine, Path(folder), asked.jobs)
        asked.output.mkdir(parents=True, exist_ok=True)
        package(Path(folder), f"py3-none-manylinux_{glibc}_{asked.machine}", asked.output)


if __name__ == "__main__":
    main()
