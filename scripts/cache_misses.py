#!/usr/bin/env python3
"""Misses of generated layers in the caches of a small ARM core, by cachegrind.

    python scripts/cache_misses.py [--only 14x14] [--ways border] [--isa generic] [--json FILE]

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
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent))

from layer_calls import program

from winogen.columns import aligned
from winogen.toolchain import find_compiler
from winogen_lab.bench.ways import rank_correlation

LAYERS = (  # pixels a side, channels, filters; 3x3
    (112, 32, 32), (56, 64, 64), (28, 128, 128), (14, 256, 256), (13, 256, 384), (7, 512, 512),
)  # fmt: skip
WAYS = {
    "winograd1d": {"algorithm": "winograd1d", "tile": 4},
    "mcmr": {"algorithm": "mcmr", "tile": 4},
    "mcmr, flyte24": {"algorithm": "mcmr", "tile": 4, "filter_dtype": "flyte24"},
    "mcmr, flyte16": {"algorithm": "mcmr", "tile": 4, "filter_dtype": "flyte16"},
    "mcmr, flyte8": {"algorithm": "mcmr", "tile": 4, "filter_dtype": "flyte8"},
    "mcmr, border buffer": {"algorithm": "mcmr", "tile": 4, "border": "buffer"},
    "mcmr, border indirect": {"algorithm": "mcmr", "tile": 4, "border": "indirect"},
    "direct": {"algorithm": "direct"},
    "direct, flyte24": {"algorithm": "direct", "filter_dtype": "flyte24"},
    "direct, flyte16": {"algorithm": "direct", "filter_dtype": "flyte16"},
    "direct, flyte8": {"algorithm": "direct", "filter_dtype": "flyte8"},
}
CACHES = ("--I1=32768,2,64", "--D1=32768,2,64", "--LL=2097152,16,64")
COUNTS = {  # what cachegrind calls them
    "instructions": ("Ir",),
    "references": ("Dr", "Dw"),
    "D1": ("D1mr", "D1mw"),
    "LL": ("DLmr", "DLmw"),
}


def counted(size: int, channels: int, filters: int, isa: str, **options: object) -> dict[str, int]:
    """Return the `COUNTS` of one call of a layer of 3x3, each by its name."""
    input, weight = (1, channels, size, size), (filters, channels, 3, 3)
    with TemporaryDirectory() as folder:
        return counted_of(
            program(folder, find_compiler().command, input, weight, isa=isa, **options)
        )


def counted_of(called: str) -> dict[str, int]:
    """Return the `COUNTS` of one call of a program that `layer_calls` made."""
    one, two = (_totals(called, calls) for calls in (1, 2))
    return {name: two[name] - one[name] for name in COUNTS}


def _totals(program: str, calls: int) -> dict[str, int]:
    """What cachegrind counts of all of a program with so many calls of the layer."""
    found = f"{program}-{calls}.out"
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", *CACHES]
    command += [f"--cachegrind-out-file={found}", program, str(calls)]
    subprocess.run(command, check=True, capture_output=True)
    return summary(Path(found).read_text())


def summary(text: str) -> dict[str, int]:
    """Return the counts at the end of a file of cachegrind's.

    >>> counts = "Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw"
    >>> summary(f"events: {counts}\\nfn=main\\n1 9\\nsummary: 90 2 1 40 8 4 10 2 1\\n")
    {'instructions': 90, 'references': 50, 'D1': 10, 'LL': 5}
    """
    lines = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    numbers = dict(zip(lines["events"].split(), map(int, lines["summary"].split())))
    return {name: sum(numbers[event] for event in events) for name, events in COUNTS.items()}


def main(words: list[str] | None = None) -> None:
    """Print a table for each of `COUNTS`, and how misses rank with the shapes of layers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--isa", default="avx2", help="avx2, sse4.2, sse2 or generic")
    parser.add_argument("--only", default="", help="layers with this in their names")
    parser.add_argument(
        "--ways", default="", help="ways with one of these, commas between, in their names"
    )
    parser.add_argument("--json", help="write all counts here")
    asked = parser.parse_args(words)
    if shutil.which("valgrind") is None:
        raise SystemExit("needs valgrind")
    wanted = asked.ways.split(",")
    ways = {name: options for name, options in WAYS.items() if any(one in name for one in wanted)}
    found: dict[str, dict[str, dict[str, int]]] = {}
    shapes = {}
    for size, channels, filters in LAYERS:
        layer = f"{size}x{size}x{channels}-{filters}"
        if asked.only not in layer:
            continue
        shapes[layer] = size * size / channels / filters
        found[layer] = {}
        for name, options in ways.items():
            print(f"{layer}, {name}", file=sys.stderr)
            found[layer][name] = counted(size, channels, filters, asked.isa, **options)
    if asked.json:
        Path(asked.json).write_text(json.dumps(found, indent=1) + "\n")
    for count in COUNTS:
        print(f"{count}, thousands")
        rows = [["layer", "HW/CM", *ways]]
        for layer, counts in found.items():
            cells = (f"{counts[name][count] / 1e3:,.0f}" for name in ways)
            rows.append([layer, f"{shapes[layer]:.2g}", *cells])
        print("\n".join([*aligned(rows, left=1), ""]))
    if len(found) > 2 and {"winograd1d", "mcmr"} <= set(ways):
        for count in ("D1", "LL"):
            ratios = [math.log(one["mcmr"][count] / one["winograd1d"][count])
                      for one in found.values()]  # fmt: skip
            rank = rank_correlation(list(shapes.values()), ratios)
            print(f"log(HW/CM) and log({count} of mcmr / winograd1d): rank correlation {rank:+.2f}")


if __name__ == "__main__":
    main()
