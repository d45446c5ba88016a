"""What `winogen doctor` tries in a process of its own, which may end by a signal.

Each result is a line of JSON, printed as soon as it is known: {"topic": …, "text": …, "state": …}.
The packages that bring OpenMP are imported after winogen has computed, and then the mapped files
tell whether there is more than one runtime.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from winogen import environment

_SECONDS = 300  # a compiler may be slow, and so may be importing torch
# Packages that bring a runtime with them, or threads of their own.
_PACKAGES = ("torch", "onnxruntime")


def outcomes() -> tuple[list[dict[str, str]], str]:
    """Run `main` in a new process; return its lines, and how the process failed, "" if not."""
    code = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    code += "from winogen.cli.probe import main; main()"
    command = [sys.executable, "-c", code, json.dumps(sys.path)]
    failed = ""
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        printed = run.stdout
        if run.returncode:
            last = (run.stderr.strip().splitlines() or [""])[-1]
            failed = f"ended with status {run.returncode} {last}".strip()
    except subprocess.TimeoutExpired as timeout:
        printed = timeout.stdout if isinstance(timeout.stdout, str) else ""
        failed = f"did not end within {_SECONDS} s"
    except OSError as problem:
        return [], f"did not start ({problem})"
    lines = [line for line in printed.splitlines() if line.startswith('{"topic"')]
    return [json.loads(line) for line in lines], failed


def main() -> None:
    """Print what becomes of a layer, of the record of the machine, and of imported packages."""
    os.environ["WINOGEN_WISDOM"] = "0"
    measures = environment.value("WINOGEN_CALIBRATE")
    os.environ["WINOGEN_CALIBRATE"] = "0"  # so that the layer leaves no record
    _print("a layer", _layer, "wrong")
    if measures != "0":
        _print("machine", _look, "lacks")
    for package in _PACKAGES:
        _print(package, partial(_imported, package), "lacks")
    _print("OpenMP", _runtimes, "lacks")


def _print(topic: str, find: Callable[[], Any], state: str) -> None:
    """Print what was found; what is raised has this state."""
    try:
        text = find()
        found = {"text": text, "state": "ok"} if isinstance(text, str) else text
    except Exception as problem:
        found = {"text": f"{type(problem).__name__}: {problem}", "state": state}
    if found:
        print(json.dumps({"topic": topic, **found}), flush=True)


def _layer() -> dict[str, str]:
    """A small layer of integers, whose sums are exact by any algorithm of direct convolution."""
    import numpy as np

    from winogen.conv import Conv2d
    from winogen.toolchain import on_compile

    numbers = np.arange(8 * 8 * 3 * 3, dtype=np.float32)
    weight = (numbers % 5 - 2).reshape(8, 8, 3, 3)
    image = (numbers % 7 - 3)[:200].reshape(1, 8, 5, 5)
    events: list[Any] = []
    begin = time.perf_counter()
    with on_compile(events.append):
        result = Conv2d(weight, algorithm="direct", threads=2)(image)
    seconds = time.perf_counter() - begin
    expected = sum(
        np.einsum("mc,nchw->nmhw", weight[:, :, i, j], image[:, :, i : i + 3, j : j + 3])
        for i in range(3)
        for j in range(3)
    )
    if not np.array_equal(result, expected):
        return {"text": "computed, and wrong", "state": "wrong"}
    compiled = any(event.stage == "finish" for event in events)
    way = "after compiling it" if compiled else "by a kernel that was there"
    return {"text": f"computed right in {seconds:.2f} s, {way}", "state": "ok"}


def _look() -> dict[str, str] | None:
    """Whether the record of the machine agrees with a measurement of some milliseconds."""
    from winogen.toolchain import cache_dir, machine

    changes = machine.changes(cache_dir())
    if changes is None:
        return None
    if not changes:
        return {"text": "a look just now agrees", "state": "ok"}
    text = ", ".join(f"{name} {change:.2g} times the record" for name, change in changes.items())
    return {"text": f"a look just now found {text}", "state": "lacks"}


def _imported(package: str) -> dict[str, str] | None:
    from importlib.util import find_spec

    if find_spec(package) is None:
        return None
    import_module(package)  # whose version is among the extras
    return {"text": "imported", "state": "ok"}


def _runtimes() -> dict[str, str]:
    """The OpenMP libraries of this process, and whose threads kernels run on."""
    from winogen.toolchain import threads

    first, *others = (*map(_short, threads.runtimes()), "")
    if not first:
        return {"text": "none: kernels run on threads of winogen's own", "state": "ok"}
    text = f"kernels run on the threads of {first}"
    also = ", ".join(filter(None, others))
    return {"text": f"{text}; also {also}" if also else text, "state": "lacks" if also else "ok"}


def _short(path: str) -> str:
    """A path from the folder of packages on, where it is in one."""
    return re.split(r"/(?:site|dist)-packages/", path)[-1]
