"""Times of generated nodes in graphs of ggml, beside ggml's own two ways, in turns.

python scripts/ggml_figures.py [--threads 1 2] [--rounds 15] [--small]       # three layers
python scripts/ggml_figures.py --rrdb [--blocks 2] [--side 64]               # an upscaler

It needs ggml-python, the extra ``ggml``. Layers are 3x3, of float32. Each way is a graph of its
own; all take a turn in every round, in an order that is drawn anew, and the median of the rounds
counts. Errors are max |y - y64| / max |y64| on normal data, y64 being direct convolution in
float64. The upscaler is an RRDB as stable-diffusion.cpp builds that of ESRGAN: of each layer the
bias and the leaky ReLU are nodes of their own there, and filters are F16, as it loads them; here a
layer is one node.
"""

from __future__ import annotations

import argparse
import platform
import random
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from codegen.ggml_graph import Graph, Node  # type: ignore[import-not-found]
from ggml_upscaler import Exact, Generated, Own, nodes, upscaled, weights

from winogen import conv2d
from winogen.conv.standalone import standalone

LAYERS = ((56, 128), (28, 256), (14, 512))
Clock = Callable[[], float]
SMALL = ((14, 16), (7, 32))


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--small", action="store_true", help="layers that take no time")
    parser.add_argument("--cpu-time", action="store_true", help="where others compute, too")
    parser.add_argument("--rrdb", action="store_true", help="an upscaler instead of layers")
    parser.add_argument("--blocks", type=int, default=2, help="of the upscaler: 23 in ESRGAN")
    parser.add_argument("--side", type=int, default=64, help="pixels of its input")
    asked = parser.parse_args()
    clock = process_time if asked.cpu_time else perf_counter
    print(machine())
    if asked.rrdb:
        upscaler(asked.side, asked.blocks, asked.threads, asked.rounds, clock)
        return
    print("layer            threads  way              ms   times ours     error")
    for side, channels in SMALL if asked.small else LAYERS:
        layer(side, channels, asked.threads, asked.rounds, clock)


def machine() -> str:
    """Return the CPU, and what ggml is built with."""
    import ggml

    named = [
        line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    able = [one for one in ("avx", "avx2", "fma", "f16c", "avx512", "neon")
            if getattr(ggml, f"ggml_cpu_has_{one}")()]  # fmt: skip
    cpu = named[0].split(": ")[1] if named else platform.machine()
    return f"{cpu}; ggml-python {ggml.__version__}, built with {', '.join(able)}"


def in_turns(ways: Mapping[str, Callable[[], None]], rounds: int, clock: Clock) -> dict[str, float]:
    """Return the median seconds of each way."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for run in ways.values():
        run()
    for seed in range(rounds):
        for name in random.Random(seed).sample(list(ways), len(ways)):
            begun = clock()
            ways[name]()
            taken[name].append(clock() - begun)
    return {name: median(times) for name, times in taken.items()}


def made(folder: Path, name: str, shape: Any, weight: Any, threads: int, **options: Any) -> Node:
    """Return a generated layer, compiled."""
    files = standalone(shape, weight, name=name, host="ggml", threads=threads, **options)
    for file, text in files.items():
        (folder / file).write_text(text)
    return Node(folder, name)


def layer(side: int, channels: int, threads: list[int], rounds: int, clock: Clock) -> None:
    """Print the rows of a layer."""
    shape, weight_shape = (1, channels, side, side), (channels, channels, 3, 3)
    draw = np.random.default_rng(1)
    x = draw.standard_normal(shape, np.float32)
    w = draw.standard_normal(weight_shape, np.float32) / np.float32(3 * channels**0.5)
    exact = conv2d(x.astype(float), w.astype(float), padding=1, algorithm="direct")
    for count in threads:
        with tempfile.TemporaryDirectory() as folder, Graph(megabytes=1500) as graph:
            node = made(Path(folder), "ours", shape, weight_shape, count, padding=1)
            ggml, tensors = graph.ggml, (graph.tensor(x), graph.tensor(w))
            packed = node.packed(graph, tensors[1])
            nodes = {
                "winogen": node(graph, tensors[0], packed, None, threads=count),
                "im2col": ggml.ggml_conv_2d(graph.context, tensors[1], tensors[0], *_PLAIN),
                "direct": ggml.ggml_conv_2d_direct(graph.context, tensors[1], tensors[0], *_PLAIN),
            }
            ways = {name: graph.prepared(one, count) for name, one in nodes.items()}
            times = in_turns(ways, rounds, clock)
            for name, seconds in times.items():
                error = abs(graph.data(nodes[name]) - exact).max() / abs(exact).max()
                what = f"{side}²x{channels:<4}-> {channels:<7}{count:>3}      {name:<10}"
                ratio = seconds / times["winogen"]
                print(f"{what}{1e3 * seconds:9.2f}   {ratio:8.1f}     {error:.1e}")


def upscaler(side: int, blocks: int, threads: list[int], rounds: int, clock: Clock) -> None:
    """Print the rows of an upscaler."""
    known = weights(side, blocks)
    picture = np.random.default_rng(1).random((1, 3, side, side), np.float32)
    exact = upscaled(Exact(known), picture.astype(float), blocks)
    print(f"RRDB of {blocks} blocks, {side}² pixels to {4 * side}²")
    print("threads  way              ms   times ours     error")
    room = 64 + (blocks * 200 + 700) * side**2 // 64**2  # megabytes; im2col takes most
    for count in threads:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            compiled = nodes(Path(folder), side, count, Node)
            graphs, results = [stack.enter_context(Graph(room)) for _ in range(3)], {}
            own = graphs[0].ggml
            layers = {
                "winogen": Generated(graphs[0], known, compiled, side, count),
                "im2col": Own(graphs[1], known, own.ggml_conv_2d),
                "direct": Own(graphs[2], known, own.ggml_conv_2d_direct),
            }
            for name, made_of in layers.items():
                graph = made_of.graph
                results[name] = graph, upscaled(made_of, graph.tensor(picture), blocks)
            ways = {name: graph.prepared(y, count) for name, (graph, y) in results.items()}
            for name, seconds in (times := in_turns(ways, rounds, clock)).items():
                graph, y = results[name]
                error = abs(graph.data(y) - exact).max() / abs(exact).max()
                print(f"{count:>4}     {name:<10}{1e3 * seconds:9.1f}   "
                      f"{seconds / times['winogen']:8.1f}     {error:.1e}")  # fmt: skip


_PLAIN = (1, 1, 1, 1, 1, 1)  # strides, padding, dilation


if __name__ == "__main__":
    main()
