"""The first call of each layer of a set beside the mean of many, as Kelefouras' section 4 has them.

    python scripts/first_calls.py squeezenet1.0 --only 13x13 --calls 100

In a new process that finds the kernels compiled. A first call makes the plan, loads the kernel,
packs the filters and touches new memory; `again` is a first call with other weights: all of that
but the plan and the kernel. The largest share is what amortising is worth.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from winogen.columns import aligned
from winogen.conv import Conv2d
from winogen.tuning.chosen import chosen_layers
from winogen.tuning.layers import BenchLayer

_WARM = "--warm"


def of_layer(layer: BenchLayer, layout: str, calls: int) -> tuple[float, float, float]:
    """Return the seconds of the first call, of one with other weights, and the mean of many."""
    source = np.random.default_rng(0)
    batch, channels, height, width = layer.input
    shape = layer.input if layout == "NCHW" else (batch, height, width, channels)
    x = source.random(shape, np.float32)
    weight, other = source.random((2, *layer.weight), np.float32)
    make = partial(Conv2d, **layer.options, layout=layout, threads=1)
    first, again = seconds(lambda: make(weight)(x)), seconds(lambda: make(other)(x))
    conv = make(weight)
    conv(x)
    return first, again, sum(seconds(lambda: conv(x)) for _ in range(calls)) / calls


def seconds(work: Callable[[], object]) -> float:
    """Return how long a call takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def rows(layers: list[BenchLayer], layout: str, calls: int) -> Iterator[list[str]]:
    """Yield a line for each layer."""
    yield ["layer", "first, ms", "again, ms", "mean, ms", "first / mean", "again / mean"]
    for layer in layers:
        first, again, mean = of_layer(layer, layout, calls)
        times = (f"{1e3 * one:.3f}" for one in (first, again, mean))
        yield [layer.name, *times, f"{first / mean:.1f}", f"{again / mean:.1f}"]


def main(words: list[str] | None = None) -> None:
    """Print a line for each layer, measured in a process that compiled nothing."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("layers", help="a set, a file or a net")
    parser.add_argument("--only", help="layers with this in their names")
    parser.add_argument("--layout", default="NHWC", choices=("NCHW", "NHWC"))
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument(_WARM, action="store_true", help=argparse.SUPPRESS)
    words = sys.argv[1:] if words is None else words
    given = parser.parse_args(words)
    if given.calls < 1:
        parser.error(f"calls: got {given.calls}; allowed: a number >= 1")
    layers = chosen_layers(given.layers, given.only)
    if given.warm:
        print("\n".join(aligned(list(rows(layers, given.layout, given.calls)), left=1)))
        return
    list(rows(layers, given.layout, 1))  # compiles
    subprocess.run([sys.executable, Path(__file__), *words, _WARM], check=True)


if __name__ == "__main__":
    main()
