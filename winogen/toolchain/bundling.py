"""A folder with a model and its kernels, for machines that have no compiler.

The folder is made by a process that runs the model and packs what it loaded, and tried by one that
may not compile and begins with an empty cache. It is written as a whole or not at all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from winogen.errors import CompilerNotFound, InvalidValue, VerificationError, WinogenError
from winogen.files import check_folder, whole_folder
from winogen.toolchain import machine_file, meters, prebuilt
from winogen.toolchain.cache import cache_root
from winogen.toolchain.compiler import find_compiler
from winogen.toolchain.host import host_target
from winogen.toolchain.loader import used
from winogen.typing import FilePath

# How far outputs may be off where another kernel at hand was chosen, of their largest number.
_CLOSE = 1e-3


def new_folder(output: FilePath) -> Path:
    """Return the path of a folder to be written; raises InvalidValue and OSError."""
    path = Path(output).resolve()
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise InvalidValue(f"output: got {str(output)!r}; allowed: a new or an empty folder")
    path.parent.resolve(strict=True)
    check_folder(path)
    return path


def write(
    folder: Path, save: Callable[[Path], object], outputs: str, told: Mapping[str, Any]
) -> None:
    """Write a `new_folder` with a model and the kernels that it runs on here.

    ``save`` writes the model into a folder that it is given. ``outputs``, as "module:function",
    names who computes it: from that folder and ``told``, a dict that JSON can hold, to a list of
    arrays. What the function loads is packed. Raises WinogenError with its last words if it fails,
    VerificationError if it computes anything else without a compiler, and OSError.
    """
    with whole_folder(folder) as draft, TemporaryDirectory(dir=draft.parent) as name:
        aside = Path(name)
        save(draft)
        here = {**os.environ, "WINOGEN_COMPILE": "missing"}
        _run(draft, aside, "compiled", outputs, told, here)
        _run(draft, aside, "prebuilt", outputs, told, _elsewhere(draft, aside))
        _compare(aside)


def _elsewhere(draft: Path, aside: Path) -> dict[str, str]:
    """The environment of a machine without a compiler, where nothing was compiled or measured."""
    ours = ("WINOGEN_", "OMP_")
    kept = {n: v for n, v in os.environ.items() if n != "CC" and not n.startswith(ours)}
    folders = {"WINOGEN_PREBUILT": str(draft), "WINOGEN_CACHE": str(aside / "cache")}
    nothing = dict.fromkeys(("PATH", "HOME"), str(aside))
    return {**kept, **nothing, **folders, "WINOGEN_COMPILE": "off"}


def _run(
    draft: Path, aside: Path, what: str, outputs: str, told: Mapping[str, Any], env: dict[str, str]
) -> None:
    """Compute the outputs in a process of their own."""
    code = "import json, sys; sys.path[:] = json.loads(sys.argv[1])\n"
    code += "from winogen.toolchain.bundling import work; work(*sys.argv[2:])"
    words = (json.dumps(sys.path), str(draft), str(aside), what, outputs, json.dumps(told))
    run = subprocess.run(
        [sys.executable, "-c", code, *words],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        last = (run.stderr.strip().splitlines() or [f"status {run.returncode}"])[-1]
        where = "here" if what == "compiled" else "with the kernels of its folder alone"
        # Nobody but `_elsewhere` set that variable.
        reason = last.removeprefix("winogen.errors.").partition(", and WINOGEN_COMPILE=off")[0]
        raise WinogenError(f"model: nothing was written, because it did not run {where}: {reason}")


def work(draft: str, aside: str, what: str, outputs: str, told: str) -> None:
    """Keep what the model computes; if it was compiled, pack the libraries in use."""
    module, _, name = outputs.partition(":")
    arrays = getattr(import_module(module), name)(Path(draft), json.loads(told))
    np.savez(Path(aside, f"{what}.npz"), *arrays)
    if what == "compiled":
        _pack(Path(draft))


def _pack(folder: Path) -> None:
    items = defaultdict(list)
    for build in (*used(), meters.build_of(host_target())):
        items[build.target.name].append(build.compiled())
    try:
        compiler = find_compiler().version
    except CompilerNotFound:  # everything was at hand
        compiler = "prebuilt"
    for target, found in items.items():
        prebuilt.write(folder / f"{target}{prebuilt.SUFFIX}", found, compiler=compiler)
    record = machine_file.read(cache_root())
    if record is not None:  # plans for such a CPU are those that were made here
        machine_file.write(record, folder).chmod(0o644)


def _compare(aside: Path) -> None:
    with np.load(aside / "compiled.npz") as one, np.load(aside / "prebuilt.npz") as other:
        for name in one.files:
            expected, got = one[name].astype(np.float64), other[name]
            off = np.abs(got - expected).max(initial=0)
            if not off <= _CLOSE * np.abs(expected).max(initial=0):
                raise VerificationError(
                    f"model: output {name} is off by {off:.2g} without a compiler"
                )
