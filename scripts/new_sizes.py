"""Calls of an optimized ONNX model at a size not seen, beside a session of the original.

    python scripts/new_sizes.py
    python scripts/new_sizes.py mobilenet-v2 --kernels

Each model has open sizes and a session in a new process, whose cache folder is empty: kernels are
compiled while it answers. The first call is at the net's own size, the next ones at another; all
alternate with the original's, which had its first call at a size before. Processor time of one
thread. ``--kernels``: with the kernels of an earlier process, as from its second start on.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

_ARGUMENT = "--one"
_PATIENCE = 600.0  # seconds for which a plan is waited for
_CALLS = 15
_USUAL = ("unet", "mobilenet-v2")


def write(name: str, folder: Path) -> None:
    """Write a net of `winogen bench` as ONNX with open sizes, and what becomes of it."""
    import torch

    import winogen.onnx
    from winogen.testing import every_layer
    from winogen_lab.nets import NETS

    torch.manual_seed(0)
    net, axes = NETS[name], {0: "n", 2: "h", 3: "w"}
    path = folder / "original.onnx"
    with warnings.catch_warnings(), every_layer():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net.module(), (torch.randn(net.input),), str(path), input_names=["x"],
            opset_version=17, dynamic_axes={"x": axes}, dynamo=False,
        )  # fmt: skip
        winogen.onnx.optimize(path, folder / "faster.onnx")


def measured(name: str, folder: Path) -> dict[str, float]:
    """Return what a process measures whose session is new."""
    import numpy as np
    import onnxruntime

    import winogen.onnx
    from winogen.onnx.library import planner
    from winogen_lab.nets import NETS

    def session(file: str, **library: str) -> Callable[[Any], float]:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        if library:
            options.register_custom_ops_library(library["library"])
        made = onnxruntime.InferenceSession(str(folder / file), options)

        def seconds(x: Any) -> float:
            begin = time.thread_time()
            made.run(None, {"x": x})
            return time.thread_time() - begin

        return seconds

    theirs = session("original.onnx")
    ours = session("faster.onnx", library=winogen.onnx.get_library_path())
    batch, channels, high, wide = NETS[name].input
    random, plans = np.random.default_rng(0), planner()
    turns = 0

    def pair(x: Any) -> tuple[float, float]:
        """The seconds of both, who take turns at being first."""
        nonlocal turns
        turns += 1
        if turns % 2:
            return theirs(x), ours(x)
        mine = ours(x)
        return theirs(x), mine

    found: dict[str, float] = {}
    for what, size in (("start", (high, wide)), ("new", (high, wide + 64))):
        x = random.standard_normal((batch, channels, *size), np.float32)
        before = plans.plans
        found[f"{what}_original"], found[what] = pair(x)
        pairs = []
        begin = time.monotonic()
        while plans.plans == before and time.monotonic() - begin < _PATIENCE:
            pairs.append(pair(x))
        found[f"{what}_plan"] = time.monotonic() - begin
        # The last one may be by the plan already; onnxruntime is slow at the second call, too.
        found[f"{what}_until"] = _ratio(pairs[1:-1] or pairs)
        found[f"{what}_later"] = _ratio([pair(x) for _ in range(_CALLS)])
        found[f"{what}_ms"] = 1e3 * statistics.median(theirs(x) for _ in range(3))
    return found


def _ratio(pairs: list[tuple[float, float]]) -> float:
    return statistics.median(ours / theirs for theirs, ours in pairs)


def _in_a_process(task: list[Any], cache: str) -> Any:
    done = subprocess.run(
        [sys.executable, __file__, _ARGUMENT, json.dumps(task)],
        env=os.environ | {"WINOGEN_CACHE": cache},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Print two lines for each net."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("nets", nargs="*", help="of `winogen bench --nets`")
    parser.add_argument("--kernels", action="store_true", help="of an earlier process are there")
    given = parser.parse_args()
    print("net           call at       the original  first call  until a plan  plan after  by it")
    for name in given.nets or _USUAL:
        with TemporaryDirectory() as folder:
            _in_a_process(["write", name, folder], str(Path(folder, "making")))
            for _ in range(2 if given.kernels else 1):
                found = _in_a_process(["measured", name, folder], str(Path(folder, "cache")))
        for what, where in (("start", "its size"), ("new", "another")):
            print(
                f"{name:13} {where:9} {found[f'{what}_ms']:12.1f} ms  "
                f"{found[what] / found[f'{what}_original']:8.2f} x  "
                f"{found[f'{what}_until']:10.2f} x  {found[f'{what}_plan']:8.1f} s  "
                f"{found[f'{what}_later']:.2f} x",
                flush=True,
            )


if __name__ == "__main__":
    if _ARGUMENT in sys.argv:
        task, net, where = json.loads(sys.argv[sys.argv.index(_ARGUMENT) + 1])
        print(json.dumps({"write": write, "measured": measured}[task](net, Path(where))))
    else:
        main()
