"""Times of a net of 3x3 layers in node, by winogen's module and by onnxruntime-web, in turns.

    mkdir rival && npm install --prefix rival onnxruntime-web
    python scripts/web_figures.py rival --threads 1 2

The net has layers of 3x3 with ReLU on a picture of 128 x 128, as small upscalers have them. Every
round gives each of them a call, in an order that is drawn anew; medians count. Errors are
max |y - y64| / max |y64| on normal data, y64 being direct convolution in float64. Node takes
relaxed SIMD from version 21 on, and with --experimental-wasm-relaxed-simd before, which it gets.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from winogen import conv2d
from winogen.network import generate

SIDE = 128
WIDTHS = (3, 32, 32, 32, 32, 3)
RUN = """
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [rival, rounds, threads] = [process.argv[2], ...process.argv.slice(3).map(Number)];
const ort = await import(pathToFileURL(`${rival}/ort.node.min.mjs`));
const { load } = await import(pathToFileURL("web/net.js"));
const bytes = readFileSync("x.bin");
const x = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
ort.env.wasm.numThreads = threads;
const session = await ort.InferenceSession.create(readFileSync("net.onnx"));
const net = await load({ threads });
const feeds = { x: new ort.Tensor("float32", x, net.inputs[0].shape) };
const ways = {
    winogen: async () => net.run(x),
    "onnxruntime-web": async () => (await session.run(feeds)).y.data,
};
const times = { winogen: [], "onnxruntime-web": [] };
for (const [name, way] of Object.entries(ways)) {
    for (let i = 0; i < 3; i++) await way();    // engines compile what is called often
    writeFileSync(`${name}.bin`, new Uint8Array(Float32Array.from(await way()).buffer));
}
for (let round = 0; round < rounds; round++)
    for (const name of Math.random() < 0.5 ? Object.keys(ways) : Object.keys(ways).reverse()) {
        const begin = performance.now();
        await ways[name]();
        times[name].push(performance.now() - begin);
    }
console.log(JSON.stringify({ relaxed: net.relaxed, threads: net.threads, times }));
process.exit(0);
"""


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
        (folder / "run.mjs").write_text(RUN)
        for threads in asked.threads:
            words = ["run.mjs", str(rival / "dist"), str(asked.rounds), str(threads)]
            text = in_node(words, folder)
            said = json.loads(text.splitlines()[-1])
            usual = {way: float(np.median(times)) for way, times in said["times"].items()}
            for way, ms in usual.items():
                made = np.fromfile(folder / f"{way}.bin", "f4").reshape(exact.shape)
                error = np.abs(made - exact).max() / np.abs(exact).max()
                print(f"{threads:<8} {way:<16} {ms:6.2f}   {error:.0e}")
            gain = usual["onnxruntime-web"] / usual["winogen"]
            kind = "relaxed SIMD" if said["relaxed"] else "SIMD"
            print(f"         {gain:.2f} times as fast, {kind}, on {said['threads']}")


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


def in_node(words: list[str], folder: Path) -> str:
    """Return what a program prints; relaxed SIMD is asked of a node that has to be asked."""
    for flags in (["--experimental-wasm-relaxed-simd"], []):
        done = subprocess.run(
            ["node", *flags, *words], cwd=folder, capture_output=True, text=True, check=False
        )
        if "bad option" not in done.stderr:
            break
    if done.returncode:
        raise SystemExit("\n".join(done.stderr.splitlines()[-6:]))
    return done.stdout


if __name__ == "__main__":
    main()
