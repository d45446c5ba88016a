"""A model with its kernels in a folder, for machines that have no compiler.

The folder is made by a process that runs the model and packs what it loaded, and tried by one that
may not compile and begins with an empty cache.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from winogen.errors import CompilerNotFound, InvalidValue, VerificationError, WinogenError
from winogen.onnx.library import planner
from winogen.onnx.loading import load, naming_damage, session_of
from winogen.onnx.model import Model
from winogen.onnx.operators import OWN_DOMAIN
from winogen.onnx.probes import feed_of, usual_sizes
from winogen.onnx.rewrite import rewrite, save
from winogen.toolchain import find_compiler, host_target, meters, prebuilt
from winogen.toolchain.loader import used
from winogen.typing import FilePath

if TYPE_CHECKING:
    from onnx import ModelProto

MODEL = "model.onnx"
# How far outputs may be off where another kernel at hand was chosen, of their largest number.
_CLOSE = 1e-3


@naming_damage
def bundle(
    model_or_path: ModelProto | FilePath,
    output: FilePath,
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    tolerance: float | None = None,
    threads: int | None = None,
) -> Path:
    """Write a folder with a model and its kernels, which runs without a compiler; return its path.

    The model is optimized as `optimize` does it, unless it was before. Its kernels are those that
    this machine takes for the sizes of ``input_shapes``, on ``threads`` threads (None for
    onnxruntime's default). Where the environment variable WINOGEN_PREBUILT names the folder,
    sessions of its ``model.onnx`` find them, on CPUs with the same instruction set; other sizes run
    by whatever kernels are at hand.

    ``output``: a folder that does not exist or is empty; it is written as a whole or not at all.
    Raises InvalidValue, InvalidType, MissingPackage, BuildError, OSError, and VerificationError if
    the model computes anything else without a compiler.
    """
    folder = _new_folder(output)
    proto = load(model_or_path)
    shapes = {name: tuple(shape) for name, shape in (input_shapes or {}).items()}
    usual_sizes(Model(proto, shapes))  # refuses before any work
    if not any(node.domain == OWN_DOMAIN for node in proto.graph.node):
        rewritten = rewrite(proto, tolerance=tolerance, threads=threads, input_shapes=shapes)
        if rewritten.is_original:
            raise InvalidValue(f"model: {rewritten}; allowed: one that winogen makes faster")
        proto = rewritten.model
    with TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as name:
        draft, aside = Path(name, folder.name), Path(name, "aside")
        draft.mkdir(mode=0o755)
        aside.mkdir()
        save(proto, draft / MODEL)
        told = {"threads": threads or 0, "input_shapes": shapes}
        _run(draft, aside, "compiled", told, {"WINOGEN_COMPILE": "missing"})
        # As on a machine without a compiler, where nothing was ever compiled or measured.
        alone = {"WINOGEN_COMPILE": "off", "WINOGEN_CACHE": str(aside), "WINOGEN_WISDOM": "0"}
        _run(draft, aside, "prebuilt", told, {**alone, "WINOGEN_PREBUILT": str(draft)})
        _compare(aside)
        if folder.is_dir():
            folder.rmdir()
        os.rename(draft, folder)
    return folder


def _new_folder(output: Any) -> Path:
    path = Path(output).resolve()
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise InvalidValue(f"output: got {str(output)!r}; allowed: a new or an empty folder")
    path.parent.resolve(strict=True)
    return path


def _run(draft: Path, aside: Path, what: str, told: Mapping[str, Any], more: dict) -> None:
    """Run the model in a process of its own; raises WinogenError with its last words."""
    code = "import json, sys; sys.path[:] = json.loads(sys.argv[1])\n"
    code += "from winogen.onnx.bundling import work; work(*sys.argv[2:])"
    words = (json.dumps(sys.path), str(draft), str(aside), what, json.dumps(told))
    run = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        last = (run.stderr.strip().splitlines() or [f"status {run.returncode}"])[-1]
        raise WinogenError(f"the {what} model did not run: {last}")


def work(draft: str, aside: str, what: str, told: str) -> None:
    """Keep what the model computes; if it was compiled, pack the libraries in use."""
    settings = json.loads(told)
    proto = load(Path(draft, MODEL))
    model = Model(proto, settings["input_shapes"])
    feed = feed_of(model, usual_sizes(model), 0)
    asked = planner()
    outputs = session_of(proto, threads=settings["threads"], library=asked.path).run(None, feed)
    if asked.failure is not None:
        raise asked.failure
    np.savez(Path(aside, f"{what}.npz"), *outputs)
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


def _compare(aside: Path) -> None:
    with np.load(aside / "compiled.npz") as one, np.load(aside / "prebuilt.npz") as other:
        for name in one.files:
            expected, got = one[name], other[name]
            off = np.abs(got.astype(np.float64) - expected).max(initial=0)
            if not off <= _CLOSE * np.abs(expected.astype(np.float64)).max(initial=0):
                raise VerificationError(
                    f"model: output {name} is off by {off:.2g} without a compiler"
                )
    shutil.rmtree(aside)
