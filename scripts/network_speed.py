"""Networks as C beside the same models in onnxruntime, by winogen.onnx and by emx-onnx-cgen.

    python scripts/network_speed.py model.onnx [...] --emx path/to/emx-onnx-cgen

All on one thread, in turns, compiled by the same compiler with the same flags. Needs the extra
`onnx`, and a compiler; emx-onnx-cgen is left out where `--emx` does not say where it is.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

import winogen.onnx
from winogen.network import generate
from winogen.tasks.turns import clock_of, in_turns
from winogen.toolchain import find_compiler, host_target

ROUNDS = 15


def library(folder: Path, sources: list[str], flags: list[str]) -> ctypes.CDLL:
    """Compile files to one library and load it."""
    command = [*find_compiler().command, "-O3", "-std=gnu11", *flags, "-shared", "-fPIC"]
    subprocess.run([*command, *sources, "-lm", "-o", "net.so"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "net.so"))


def by_network(model: str, folder: Path, arrays: list[np.ndarray]) -> Callable[[], None]:
    """Return a call of the model as `winogen generate` writes it."""
    files = generate(model, weights="object", name="net")
    files.write(folder)
    print(f"  {files}".replace("\n", "\n  "))
    sources = [n for n in files.contents if n.endswith((".c", ".S")) and "_test" not in n]
    run = library(folder, sources, list(host_target().flags)).net_run
    arena = np.zeros(files.arena_bytes + 128, np.uint8)
    start = arena.ctypes.data + -arena.ctypes.data % 64
    pointers = [ctypes.c_void_p(one.ctypes.data) for one in arrays]

    def call(kept: np.ndarray = arena) -> None:
        run(*pointers, ctypes.c_void_p(start))

    return call


def by_emx(emx: str, model: str, folder: Path, arrays: list[np.ndarray]) -> Callable[[], None]:
    """Return a call of the model as emx-onnx-cgen writes it."""
    large = ["--large-weight-threshold", str(1 << 40)]  # no file that is read when it begins
    command = [emx, "compile", "--model-name", "net", *large, model, "net.c"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    run = library(folder, ["net.c"], list(host_target().flags)).net
    pointers = [ctypes.c_void_p(one.ctypes.data) for one in arrays]
    return lambda: run(*pointers)


def by_session(model: onnx.ModelProto, x: np.ndarray) -> Callable[[], list[np.ndarray]]:
    """Return a call of the model in onnxruntime, on one thread."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.register_custom_ops_library(winogen.onnx.get_library_path())
    session = ort.InferenceSession(model.SerializeToString(), options)
    name = session.get_inputs()[0].name
    return lambda: session.run(None, {name: x})


def measure(path: str, emx: str | None) -> None:
    """Print the times of one model of one input."""
    model = onnx.load(path)
    print(path)
    shape = [d.dim_value or 1 for d in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    with tempfile.TemporaryDirectory() as place:
        original = by_session(model, x)
        wanted = original()
        outputs = [np.full_like(y, np.nan) for y in wanted]
        folders = [Path(place, name) for name in ("network", "emx")]
        for folder in folders:
            folder.mkdir()
        where = str(Path(path).resolve())
        ways: dict[str, Callable[[], object]] = {
            "network": by_network(where, folders[0], [x, *outputs])
        }
        ways["onnxruntime"] = original
        ways["winogen.onnx"] = by_session(winogen.onnx.optimize(model, threads=1), x)
        if emx:
            ways["emx-onnx-cgen"] = by_emx(emx, where, folders[1], [x, *outputs])
        for name in ("network", "emx-onnx-cgen"):
            if name in ways:
                ways[name]()
                off = max(
                    float(np.abs(y - z).max() / np.abs(z).max()) for y, z in zip(outputs, wanted)
                )
                print(f"  {name} is off by {off:.1e} from onnxruntime")
        times = in_turns(list(ways.values()), clock_of(1), (ROUNDS, ROUNDS))
    ours = times[0]
    for name, some in zip(ways, times):
        ratio = statistics.median(other / own for other, own in zip(some, ours))
        print(
            f"  {name:<14} {1e3 * statistics.median(some):9.2f} ms  {ratio:6.2f} of the network's"
        )


def main() -> None:
    """Print the times of all models."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--emx", help="the command emx-onnx-cgen")
    options = parser.parse_args()
    for model in options.models:
        measure(model, options.emx)


if __name__ == "__main__":
    main()
