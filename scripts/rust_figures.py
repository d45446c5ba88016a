"""Times of generated crates of Rust beside tract, in turns, on one thread.

python scripts/rust_figures.py [--rounds 41] [--small]

It needs cargo, and tract with what writes models for it: `pip install tract onnx`. Layers are 3x3,
of float32. In every round each way takes a turn, in an order that is drawn anew: a call that is not
timed, and one that is. Medians of the rounds count. Errors are max |y - y64| / max |y64| on normal
data, y64 being direct convolution in float64.
"""

from __future__ import annotations

import argparse
import platform
import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from winogen import conv2d
from winogen.conv.standalone import standalone
from winogen.toolchain import host_target

LAYERS = ((56, 128), (28, 256))
SMALL = ((14, 16), (7, 32))
_PROGRAM = Path(__file__).with_name("rust_turns.rs")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--small", action="store_true", help="layers that take no time")
    asked = parser.parse_args()
    print(machine())
    print("layer             way             ms   times ours     error")
    for side, channels in SMALL if asked.small else LAYERS:
        layer(side, channels, asked.rounds)


def machine() -> str:
    """Return the CPU, and whose versions run on it."""
    import tract

    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    named = [line.split(": ")[1] for line in lines if "model name" in line]
    cargo = subprocess.run(["cargo", "--version"], capture_output=True, text=True, check=True)
    cpu = named[0] if named else platform.machine()
    return f"{cpu}, {host_target().name}; tract {tract.version()}; {cargo.stdout.strip()}"


class Crate:
    """A generated crate, built, whose program runs it when it is asked."""

    def __init__(self, folder: Path, x: Any, w: Any):
        self._folder = folder
        files = standalone(x.shape, w.shape, padding=1, name="timed", host="rust",
                           isa=host_target().name)  # fmt: skip
        for file, text in files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text)
        (folder / "examples").mkdir()
        shutil.copy(_PROGRAM, folder / "examples/turns.rs")
        for name, array in (("input", x), ("weight", w)):
            array.tofile(folder / f"{name}.bin")
        build = ["cargo", "build", "--quiet", "--offline", "--release", "--example", "turns"]
        subprocess.run(build, cwd=folder, check=True)
        self._program = subprocess.Popen(
            [folder / "target/release/examples/turns"],
            cwd=folder,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __call__(self) -> float:
        """Return the seconds of a call."""
        assert self._program.stdin is not None and self._program.stdout is not None
        print(file=self._program.stdin, flush=True)
        return float(self._program.stdout.readline())

    def output(self) -> np.ndarray:
        """Return its output; the program ends."""
        self._program.communicate()
        return np.fromfile(self._folder / "output.bin", np.float32)


class Tract:
    """The same layer as a model of ONNX that tract runs."""

    def __init__(self, folder: Path, x: Any, w: Any):
        import onnx
        import tract
        from onnx import TensorProto, helper, numpy_helper

        shapes = {"x": x.shape, "y": (1, len(w), *x.shape[2:])}
        known = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                 for name, shape in shapes.items()}  # fmt: skip
        node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1], kernel_shape=[3, 3])
        made = helper.make_graph([node], "layer", [known["x"]], [known["y"]],
                                 [numpy_helper.from_array(w, "w")])  # fmt: skip
        opset = [helper.make_opsetid("", 13)]
        path = folder / "layer.onnx"
        onnx.save(helper.make_model(made, opset_imports=opset, ir_version=8), path)
        self._model = tract.onnx().load(str(path)).into_model().into_runnable()
        self._input = tract.Tensor.from_numpy(x)
        self._result: Any = None

    def __call__(self) -> float:
        """Return the seconds of a call."""
        self._model.run([self._input])
        begun = perf_counter()
        self._result = self._model.run([self._input])
        return perf_counter() - begun

    def output(self) -> np.ndarray:
        """Return its output."""
        (one,) = self._result
        return np.array(one.to_numpy()).ravel()


def layer(side: int, channels: int, rounds: int) -> None:
    """Print the rows of a layer."""
    draw = np.random.default_rng(1)
    x = draw.standard_normal((1, channels, side, side), np.float32)
    w = draw.standard_normal((channels, channels, 3, 3), np.float32) / np.float32(3 * channels**0.5)
    exact = conv2d(x.astype(float), w.astype(float), padding=1, algorithm="direct").ravel()
    with tempfile.TemporaryDirectory() as folder:
        ways = {"winogen": Crate(Path(folder), x, w), "tract": Tract(Path(folder), x, w)}
        times = in_turns(dict(ways), rounds)
        for name, way in ways.items():
            error = abs(way.output() - exact).max() / abs(exact).max()
            ratio = times[name] / times["winogen"]
            what = f"{side}²x{channels:<4}-> {channels:<7}{name:<10}"
            print(f"{what}{1e3 * times[name]:9.2f}   {ratio:8.1f}     {error:.1e}")


def in_turns(ways: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Return the median seconds of each way."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for seed in range(rounds):
        for name in random.Random(seed).sample(list(ways), len(ways)):
            taken[name].append(ways[name]())
    return {name: median(times) for name, times in taken.items()}


if __name__ == "__main__":
    main()
