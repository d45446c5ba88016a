#!/usr/bin/env python3
"""What tiles at the border cost generated layers: instructions, beside tiles that read no padding.

    python scripts/border_instructions.py [--isa avx2] [--only 56x56]

Needs gcc or clang, and valgrind. Each layer is written as C twice: as it is, of 3x3 taps and
padding 1; and without padding for an image two pixels larger along both axes, whose outputs come
from the same tiles, all of them inside. What the first executes more is all that code for each
class of border can save. Counts are the same on every machine for the same compiler.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from winogen.columns import aligned
from winogen.toolchain import find_compiler
from winogen_lab.bench.cachegrind import counted_of
from winogen_lab.bench.layer_calls import program

LAYERS = ((56, 64), (14, 256))  # pixels a side, channels and filters
ALGORITHMS = ("mcmr", "winograd2d")
LAYOUTS = ("NCHW", "NHWC")


def instructions(
    size: int, channels: int, padding: int, isa: str, layout: str, algorithm: str
) -> tuple[int, int]:
    """Return the instructions of one call, and the bytes of code of the layer's C."""
    side = size + 2 - 2 * padding
    planes, pixels = (1, channels, side, side), (1, side, side, channels)
    options = {"layout": layout, "algorithm": algorithm, "tile": 4, "isa": isa}
    with TemporaryDirectory() as folder:
        compiler = find_compiler().command
        called = program(
            folder,
            compiler,
            planes if layout == "NCHW" else pixels,
            (channels, channels, 3, 3),
            padding=padding,
            **options,
        )
        return counted_of(called)["instructions"], text_bytes(folder, compiler)


def text_bytes(folder: str, compiler: tuple[str, ...]) -> int:
    """Return the bytes of machine code of the layer that `program` wrote into the folder."""
    made = Path(folder, "measured.o")
    words = [*compiler, "-O3", "-c", str(made.with_suffix(".c")), "-o", str(made)]
    subprocess.run(words, check=True)
    done = subprocess.run(["size", "-A", str(made)], check=True, capture_output=True, text=True)
    rows = (line.split() for line in done.stdout.splitlines())
    return sum(int(row[1]) for row in rows if row and row[0].startswith(".text"))


def main(words: list[str] | None = None) -> None:
    """Print a line for each layer."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--isa", default="avx2", help="avx2, sse4.2, sse2 or generic")
    parser.add_argument("--only", default="", help="layers with this in their names")
    asked = parser.parse_args(words)
    for tool in ("valgrind", "size"):
        if shutil.which(tool) is None:
            raise SystemExit(f"needs {tool}")
    rows = [["layer", "bytes of code", "instructions", "without padding", "border"]]
    for size, channels in LAYERS:
        for algorithm in ALGORITHMS:
            for layout in LAYOUTS:
                name = f"{size}x{size}x{channels}, {algorithm}, {layout}"
                if asked.only not in name:
                    continue
                (padded, code), (inside, _) = (
                    instructions(size, channels, padding, asked.isa, layout, algorithm)
                    for padding in (1, 0)
                )
                share = f"{padded / inside - 1:.2%}"
                rows.append([name, f"{code:,}", f"{padded:,}", f"{inside:,}", share])
    print("\n".join(aligned(rows, left=1)))


if __name__ == "__main__":
    main()
