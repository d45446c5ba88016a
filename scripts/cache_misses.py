#!/usr/bin/env python3
"""Misses of generated layers in the caches of a small ARM core, by cachegrind.

    python scripts/cache_misses.py [--only 14x14] [--ways border] [--isa generic] [--json FILE]
    python scripts/cache_misses.py --layers thesis27 --ways direct,im2col
    python scripts/cache_misses.py --layers gemm1x1 --ways direct --only 14x14

Layers are six of 3x3, or those of a set, a file or a net as for `winogen bench`; a way that a layer
does not have is left out. After the counts there are miss rates, misses per reference.

Needs gcc or clang, and valgrind. Caches are like those of a Cortex-A15: 32 KB of two ways, then
2 MB of sixteen, lines of 64 bytes. Counted is one call of the generated C with filters packed
before: that of two runs of a program with one call more. Counts are the same on every machine for
the same compiler; valgrind simulates no prefetching, and no instruction set beyond AVX2.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from winogen.columns import aligned
from winogen.errors import InvalidValue, Unsupported
from winogen.toolchain import find_compiler
from winogen.tuning.chosen import chosen_layers
from winogen.tuning.layers import BenchLayer
from winogen_lab.bench.cachegrind import COUNTS, counted_of
from winogen_lab.bench.layer_calls import program
from winogen_lab.bench.ways import rank_correlation

SIX = tuple(
    BenchLayer.from_dict({"name": f"{size}x{size}x{channels}-{filters}",
                          "input": [1, channels, size, size],
                          "weight": [filters, channels, 3, 3], "padding": 1})
    for size, channels, filters in (
        (112, 32, 32), (56, 64, 64), (28, 128, 128), (14, 256, 256), (13, 256, 384), (7, 512, 512),
    )
)  # fmt: skip
WAYS = {
    "winograd1d": {"algorithm": "winograd1d", "tile": 4},
    "mcmr": {"algorithm": "mcmr", "tile": 4},
    "mcmr, flyte24": {"algorithm": "mcmr", "tile": 4, "filter_dtype": "flyte24"},
    "mcmr, flyte16": {"algorithm": "mcmr", "tile": 4, "filter_dtype": "flyte16"},
    "mcmr, flyte8": {"algorithm": "mcmr", "tile": 4, "filter_dtype": "flyte8"},
    "mcmr, border buffer": {"algorithm": "mcmr", "tile": 4, "border": "buffer"},
    "mcmr, border indirect": {"algorithm": "mcmr", "tile": 4, "border": "indirect"},
    "im2col": {"algorithm": "im2col"},
    "direct": {"algorithm": "direct"},
    "direct, flyte24": {"algorithm": "direct", "filter_dtype": "flyte24"},
    "direct, flyte16": {"algorithm": "direct", "filter_dtype": "flyte16"},
    "direct, flyte8": {"algorithm": "direct", "filter_dtype": "flyte8"},
}


def counted(layer: BenchLayer, isa: str, **options: object) -> dict[str, int]:
    """Return the `COUNTS` of one call of a layer, each by its name.

    Raises InvalidValue and Unsupported where the layer does not have such a way.
    """
    (stride,), (padding,) = set(layer.stride), set(layer.padding)
    with TemporaryDirectory() as folder:
        return counted_of(
            program(folder, find_compiler().command, layer.input, layer.weight, padding,
                    stride=stride, groups=layer.groups, isa=isa, **options)
        )  # fmt: skip


def _pixels_by_weights(layer: BenchLayer) -> float:
    """HW/CM, by which the ways are said to rank."""
    return math.prod(layer.output[2:]) / layer.weight[0] / layer.weight[1]


def main(words: list[str] | None = None) -> None:
    """Print a table for each of `COUNTS`, and how misses rank with the shapes of layers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--isa", default="avx2", help="avx2, sse4.2, sse2 or generic")
    parser.add_argument("--layers", help="a set, a file or a net; default: six of 3x3")
    parser.add_argument("--only", default="", help="layers with this in their names")
    parser.add_argument(
        "--ways", default="", help="ways of these names, commas between, or with them in theirs"
    )
    parser.add_argument("--json", help="write all counts here")
    asked = parser.parse_args(words)
    if shutil.which("valgrind") is None:
        raise SystemExit("needs valgrind")
    wanted = asked.ways.split(",")
    ways = {
        name: options
        for name, options in WAYS.items()
        if any(one == name if one in WAYS else one in name for one in wanted)
    }
    found: dict[str, dict[str, dict[str, int]]] = {}
    shapes = {}
    for layer in chosen_layers(asked.layers) if asked.layers else SIX:
        if asked.only not in layer.name:
            continue
        shapes[layer.name] = _pixels_by_weights(layer)
        found[layer.name] = {}
        for name, options in ways.items():
            print(f"{layer.name}, {name}", file=sys.stderr)
            try:
                found[layer.name][name] = counted(layer, asked.isa, **options)
            except (InvalidValue, Unsupported) as error:
                print(f"  left out: {error}", file=sys.stderr)
    if asked.json:
        Path(asked.json).write_text(json.dumps(found, indent=1) + "\n")
    for count in COUNTS:
        print(f"{count}, thousands")
        rows = [["layer", "HW/CM", *ways]]
        for layer, counts in found.items():
            cells = (f"{counts[name][count] / 1e3:,.0f}" if name in counts else "" for name in ways)
            rows.append([layer, f"{shapes[layer]:.2g}", *cells])
        print("\n".join([*aligned(rows, left=1), ""]))
    for cache in ("D1", "LL"):
        print(f"{cache}, misses in % of references")
        rows = [["layer", *ways]]
        for layer, counts in found.items():
            rates = {name: 100 * one[cache] / one["references"] for name, one in counts.items()}
            rows.append([layer, *(f"{rates[name]:.2f}" if name in rates else "" for name in ways)])
        print("\n".join([*aligned(rows, left=1), ""]))
    if len(found) > 2 and {"winograd1d", "mcmr"} <= set(ways):
        for count in ("D1", "LL"):
            ratios = [math.log(one["mcmr"][count] / one["winograd1d"][count])
                      for one in found.values()]  # fmt: skip
            rank = rank_correlation(list(shapes.values()), ratios)
            print(f"log(HW/CM) and log({count} of mcmr / winograd1d): rank correlation {rank:+.2f}")


if __name__ == "__main__":
    main()
