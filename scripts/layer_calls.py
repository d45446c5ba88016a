"""Programs of a generated layer that call it as often as they are told: for what counts calls."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from winogen.conv.standalone import standalone

SCRIPTS = Path(__file__).resolve().parent


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
    sizes_of = {"INPUTS": math.prod(input), "WEIGHTS": math.prod(weight)}
    sizes_of["OUTPUTS"] = batch * weight[0] * pixels
    for name, text in files.items():
        Path(folder, name).write_text(text)
    flags = ["-O3", *(f"-D{name}={count}" for name, count in sizes_of.items())]
    flags += [f"-I{folder}", f"-I{SCRIPTS}"]
    sources = [str(SCRIPTS / "layer_calls.c"), f"{folder}/measured.c"]
    path = str(Path(folder, "layer"))
    subprocess.run([*compiler, *flags, *sources, "-o", path], check=True)
    return path
