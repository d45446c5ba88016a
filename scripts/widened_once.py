#!/usr/bin/env python3
"""Layers of flytes by loop nests: widened at each load, or once for all the pixels that meet them.

    python scripts/widened_once.py [--only 7x7] [--isa avx2] [--rounds 15] [--no-counts]

Inputs, filters and outputs are of the same flyte. Inputs are read where they lie, so that each load
widens, or from a copy, which is widened once; filters are widened at each load, or those of a step
along M once for a block of rows. All nests of a layer have the same loops and register block. Times
are measured in turns, on one thread, and divided by that of float32 with a copy of inputs, which
stands before them in milliseconds; instructions and misses are those of cachegrind (see
`winogen_lab.bench.cachegrind`), in millions, where the instruction set is one that valgrind knows.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from statistics import median

import numpy as np

import winogen
from winogen.columns import aligned
from winogen.conv.choice import Choice
from winogen.conv.cuts import evaluate, work_of
from winogen.conv.execute import Prepared
from winogen.conv.problem import Layer, Problem
from winogen.kernels import assign
from winogen.records import FLYTE_TYPES, Machine, Precision, Target
from winogen.tasks.turns import clock_of, in_turns
from winogen.toolchain import host_targets
from winogen_lab.loops.counting import SIMULATED, counts_of
from winogen_lab.loops.usual import register_block, usual
from winogen_lab.loops.variant import problem_of

LAYERS = ((28, 128), (14, 256), (7, 512))  # pixels along each axis, channels and filters: 3x3
TYPES = ("flyte24", "flyte16")
WAYS = {  # copies of inputs, and of filters
    "at each load": ("implicit", "each"),
    "inputs once": ("explicit", "each"),
    "filters once": ("implicit", "once"),
    "both once": ("explicit", "once"),
}
STRATEGY = "filters-yxc"
COUNTS = ("instructions", "D1", "LL")  # valgrind takes a multiply-add of memory for many references


def chosen(
    size: int, channels: int, name: str, copies: str, widened: str, target: Target
) -> tuple[Problem, Choice]:
    """A layer in NHWC, and a nest whose loops are the same whatever is copied."""
    layer = Layer.of((channels, channels, 3, 3), name, padding=1, layout="NHWC")
    problem = layer.problem((1, size, size, channels))
    precision = Precision.of(name, name if name in FLYTE_TYPES else None)
    seen = problem_of(assign(work_of(problem, Choice("loops", precision=precision), target)))
    # One row, which nests without a copy can have, too.
    one_row = replace(seen, output_size=(1, size))
    _, (_, pixels, filters) = register_block(one_row, target, STRATEGY)
    nest = replace(usual(seen, target, STRATEGY), rows=1, pixels=pixels, filters=filters,
                   copies=copies, widened=widened)  # fmt: skip
    return problem, Choice("loops", parameters=nest, precision=precision)


def calls(ways: list[tuple[Problem, Choice]], target: Target) -> Iterator[Callable[[], object]]:
    """Yield a call of each way, on the same numbers as it stores them."""
    generator = np.random.default_rng(0)
    values = generator.standard_normal(ways[0][0].input_shape, np.float32)
    weight = generator.standard_normal(ways[0][0].layer.weight_shape, np.float32)
    for problem, choice in ways:
        way = Prepared(problem, evaluate(problem, [choice], target, Machine(), None), target)
        narrow = problem.layer.dtype in FLYTE_TYPES
        x = winogen.narrow(values, problem.layer.dtype) if narrow else values
        y, packed = np.zeros(way.output_shape, x.dtype), way.pack(weight)
        yield partial(way.run, x, packed, None, y)


def main(words: list[str] | None = None) -> None:
    """Print a table of times for each instruction set, and one of counts where there are some."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--isa", default="avx512,avx2", help="instruction sets, commas between")
    parser.add_argument("--only", default="", help="layers with this in their names")
    parser.add_argument("--rounds", type=int, default=15, help="turns, of which the median counts")
    parser.add_argument("--no-counts", action="store_true", help="only times")
    asked = parser.parse_args(words)
    targets = [one for one in host_targets() if one.name in asked.isa.split(",")]
    for target in targets:
        simulated = target.name in SIMULATED and shutil.which("valgrind") and not asked.no_counts
        times, counted = [["layer", "type", "float32", *WAYS]], [["layer", "type", "count", *WAYS]]
        for size, channels in LAYERS:
            layer = f"{size}x{size}x{channels}"
            if asked.only not in layer:
                continue
            of = {
                (name, way): chosen(size, channels, name, *kinds, target)
                for name in TYPES
                for way, kinds in WAYS.items()
            }
            plain = chosen(size, channels, "float32", "explicit", "each", target)
            print(f"{target.name}, {layer}", file=sys.stderr)
            rounds = (asked.rounds, asked.rounds)
            every = list(calls([plain, *of.values()], target))
            seconds = in_turns(every, clock_of(1), rounds, each=(3, 3))
            base, *others = map(median, seconds)
            found = dict(zip(of, others))
            for name in TYPES:
                ratios = (f"{found[name, way] / base:.2f}" for way in WAYS)
                times.append([layer, name, f"{base * 1e3:.2f} ms", *ratios])
            if not simulated:
                continue
            for name in ("float32", *TYPES):
                ways = [plain] if name == "float32" else [of[name, way] for way in WAYS]
                counts = [counts_of(problem, target, choice) for problem, choice in ways]
                for count in COUNTS:
                    cells = (f"{one[count] / 1e6:.2f}" for one in counts)
                    row = [layer, name, count, *cells]
                    counted.append(row + [""] * (len(counted[0]) - len(row)))
        print(f"{target.name}: time over that of float32, a copy of inputs")
        print("\n".join([*aligned(times, left=2), ""]))
        if simulated:
            print(f"{target.name}: counts, in millions; of float32 with a copy of inputs")
            print("\n".join([*aligned(counted, left=3), ""]))


if __name__ == "__main__":
    main()
