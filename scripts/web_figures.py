"""Times of a net of 3x3 layers in node, by winogen's module and by onnxruntime-web, in turns.

    mkdir rival && npm install --prefix rival onnxruntime-web
    python scripts/web_figures.py rival --threads 1 2

The net has layers of 3x3 with ReLU on a picture of 128 x 128, as small upscalers have them. Each
has a process of its own; every round gives each of them a call, in an order that is drawn anew,
and medians count. Errors are
max |y - y64| / max |y64| on normal data, y64 being direct convolution in float64. Node takes
relaxed SIMD from version 21 on, and with --experimental-wasm-relaxed-simd before, which it gets.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import subprocess
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

from winogen import conv2d
from winogen.network import generate

SIDE = 128
WIDTHS = (3, 32, 32, 32, 32, 3)
# One of the two, which calls its net for each line that it reads and prints the milliseconds.
RUN = """
import { readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [rival, name, threads] = [process.argv[2], process.argv[3], Number(process.argv[4])];
const bytes = readFileSync("x.bin");
const x = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
let call, kind = "";
if (name === "winogen") {
    const { load } = await import(pathToFileURL("web/net.js"));
    const net = await load({ threads });
    call = async () => net.run(x);
    kind = `${net.relaxed ? "relaxed SIMD" : "SIMD"}, on ${net.threads}`;
} else {
    const ort = await import(pathToFileURL(`${rival}/ort.node.min.mjs`));
    ort.env.wasm.numThreads = threads;
    const session = await ort.InferenceSession.create(readFileSync("net.onnx"));
    const feeds = { x: new ort.Tensor("float32", x, [1, WIDTH, SIDE, SIDE]) };
    call = async () => (await session.run(feeds)).y.data;
}
for (let i = 0; i < 5; i++) await call();    // engines compile what is called often
writeFileSync(`${name}.bin`, new Uint8Array(Float32Array.from(await call()).buffer));
console.log(kind);
for await (const line of createInterface({ input: process.stdin })) {
    const begin = performance.now();
    await call();
    console.log(performance.now() - begin);
}
process.exit(0);
"""
WAYS = "winogen", "onnxruntime-web"
QUIET = 0.03  # seconds in which threads that wait for more end their spinning


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("rival", type=Path, help="folder that npm installed onnxruntime-web in")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=21)
    asked = parser.parse_args()
    rival = (asked.rival / "node_modules" / "onnxruntime-web").resolve()
    if not rival.is_dir():
        parser.error(f"rival: got {asked.rival}; allowed: where npm installed onnxruntime-web")
    version = json.loads((rival / "package.json").read_text())["version"]
    node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    print(f"{platform.processor() or platform.machine()}; node {node.strip()}, rival {version}")
    print("threads  way                  ms   error")
    with TemporaryDirectory() as name:
        folder = Path(name)
        exact = written(folder)
        text = RUN.replace("WIDTH", str(WIDTHS[0])).replace("SIDE", str(SIDE))
        (folder / "run.mjs").write_text(text)
        for threads in asked.threads:
            with ExitStack() as stack:
                nets = [
                    stack.enter_context(Net(way, rival / "dist", threads, folder)) for way in WAYS
                ]
                for _ in range(asked.rounds):
                    for net in random.sample(nets, len(nets)):
                        time.sleep(QUIET)
                        net.call()
            usual = {}
            for net in nets:
                usual[net.way] = median(net.times)
                made = np.fromfile(folder / f"{net.way}.bin", "f4").reshape(exact.shape)
                error = np.abs(made - exact).max() / np.abs(exact).max()
                print(f"{threads:<8} {net.way:<16} {usual[net.way]:6.2f}   {error:.0e}")
            gain = usual["onnxruntime-web"] / usual["winogen"]
            print(f"         {gain:.2f} times as fast, {nets[0].kind}")


class Net:
    """A process that has loaded the net by one of the ways, and runs it when it is called."""

    def __init__(self, way: str, rival: Path, threads: int, folder: Path) -> None:
        self.way = way
        self.times: list[float] = []  # ms
        words = ["node", *relaxed(), "run.mjs", str(rival), way, str(threads)]
        self._process = subprocess.Popen(
            words, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.kind = self._said()

    def __enter__(self) -> Net:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def call(self) -> None:
        """Run the net once."""
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.times.append(float(self._said()))

    def _said(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.way}: the process ended")
        return line.strip()


def relaxed() -> list[str]:
    """Return the option by which node has relaxed SIMD, which it has without from 21 on."""
    flag = "--experimental-wasm-relaxed-simd"
    done = subprocess.run(["node", flag, "--eval", "0"], capture_output=True, check=False)
    return [] if done.returncode else [flag]


def written(folder: Path) -> np.ndarray:
    """Write the model, the module and an input; return the exact output."""
    import onnx
    from onnx import helper, numpy_helper

    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, WIDTHS[0], SIDE, SIDE), dtype=np.float32)
    nodes, weights, y, last = [], [], x.astype(np.float64), "x"
    for number, (channels, filters) in enumerate(pairwise(WIDTHS)):
        weight = rng.standard_normal((filters, channels, 3, 3)) / (9 * channels) ** 0.5
        weights.append(numpy_helper.from_array(weight.astype(np.float32), f"w{number}"))
        ends = number == len(WIDTHS) - 2
        named = ["y"] if ends else [f"c{number}"]
        nodes.append(helper.make_node("Conv", [last, f"w{number}"], named, pads=[1, 1, 1, 1]))
        exact = weight.astype(np.float32).astype(np.float64)
        y = conv2d(y, exact, padding=1, algorithm="direct")
        if not ends:
            nodes.append(helper.make_node("Relu", named, [f"r{number}"]))
            y, last = np.maximum(y, 0), f"r{number}"
    ends = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", x.shape), ("y", y.shape))
    )
    graph = helper.make_graph(nodes, "net", *([one] for one in ends), weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, str(folder / "net.onnx"))
    x.tofile(folder / "x.bin")
    generate(folder / "net.onnx", host="web", name="net").write(folder / "web")
    return y


if __name__ == "__main__":
    main()
