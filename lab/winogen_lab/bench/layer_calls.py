"""Programs of a generated layer that call it as often as they are told: for what counts calls."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from winogen.conv.standalone import standalone

FOLDER = Path(__file__).resolve().parent


def program(
    folder: str | Path,
    compiler: Sequence[str],
    input: tuple[int, ...],
    weight: tuple[int, ...],
    padding: int = 1,
    **options: Any,
) -> str:
    """Write a layer as C into a folder, and compile it; ``padding`` is that of all four sides.

    Returns the path of the program, whose argument is the number of calls.
    """
    files = standalone(input, weight, padding=padding, name="measured", **options)
    batch, *sizes = input
    area = sizes[1:] if options.get("layout", "NCHW") == "NCHW" else sizes[:-1]
    step = options.get("stride", 1)
    pixels = math.prod((size + 2 * padding - taps) // step + 1
                       for size, taps in zip(area, weight[2:]))  # fmt: skip
    return compiled(
        folder, compiler, files, math.prod(input), math.prod(weight), batch * weight[0] * pixels
    )


def compiled(
    folder: str | Path,
    compiler: Sequence[str],
    files: Mapping[str, str],
    inputs: int,
    weights: int,
    outputs: int,
) -> str:
    """Compile the files of a layer called "measured", whose arrays have so many numbers.

    Returns the path of the program.
    """
    for name, text in files.items():
        Path(folder, name).write_text(text)
    sizes = {"INPUTS": inputs, "WEIGHTS": weights, "OUTPUTS": outputs}
    flags = ["-O3", *(f"-D{name}={count}" for name, count in sizes.items())]
    flags += [f"-I{folder}", f"-I{FOLDER}"]
    sources = [str(FOLDER / "layer_calls.c"), f"{folder}/measured.c"]
    path = str(Path(folder, "layer"))
    subprocess.run([*compiler, *flags, *sources, "-o", path], check=True)
    return path
