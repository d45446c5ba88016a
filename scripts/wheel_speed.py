#!/usr/bin/env python3
"""Speed by the kernels of a wheel beside those that a compiler makes here, in turns.

    python scripts/wheel_speed.py dist/winogen-….whl [--layers SET] [--layout NHWC]

Where both have the same kernel, the ratio is what another place of the same code costs. Where the
wheel lacks it, the next best one runs. Times are those of one thread, plans those of a machine that
was not measured, as after an installation.
"""

from __future__ import annotations

import argparse
import os
import sys
import zipfile
from collections import defaultdict
from functools import partial
from math import exp, log
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "lab")]

import numpy as np  # noqa: E402

from winogen import Conv2d  # noqa: E402
from winogen.tasks.turns import clock_of, in_turns  # noqa: E402
from winogen.toolchain.prebuilt import SUFFIX  # noqa: E402
from winogen.tuning.chosen import chosen_layers  # noqa: E402
from winogen.tuning.layers import BenchLayer  # noqa: E402

_ROUNDS, _EACH, _TURN = (7, 7), (3, 50), 0.01  # of at least so many calls and seconds


def ready(layer: BenchLayer, layout: str, x: np.ndarray, variables: dict[str, str]) -> Conv2d:
    """Return a layer that was called once with these variables of the environment."""
    weight = np.random.default_rng(0).standard_normal(layer.weight, np.float32)
    conv = Conv2d(
        weight, None, layer.stride, layer.padding, layer.dilation, layer.groups,
        layout=layout, threads=1,
    )  # fmt: skip
    before = dict(os.environ)
    os.environ.update(variables)
    conv(x)
    os.environ.clear()
    os.environ.update(before)
    return conv


def kernels(conv: Conv2d, x: np.ndarray) -> list[str]:
    """Return the names of the kernels that a call runs, each with its target."""
    specs = [call.kernel.spec for call in conv.bound(x.shape)[0].calls]
    return [f"{spec.target.name} {spec.name} {spec.tuning.rows}" for spec in specs]


def main() -> None:
    """Print a line for each layer, and geometric means."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--layers", default="thesis27", help="a set, a net or a JSON file")
    parser.add_argument("--layout", default="NCHW", choices=("NCHW", "NHWC"))
    given = parser.parse_args()
    os.environ |= {"WINOGEN_CALIBRATE": "0", "WINOGEN_WISDOM": "0"}  # one plan for both
    ratios: dict[str, list[float]] = defaultdict(list)
    with TemporaryDirectory() as cache, TemporaryDirectory() as folder:
        with zipfile.ZipFile(given.wheel) as wheel:
            for name in wheel.namelist():
                if name.endswith(SUFFIX):
                    Path(folder, Path(name).name).write_bytes(wheel.read(name))
        bare = {"WINOGEN_COMPILE": "off", "WINOGEN_CACHE": cache, "WINOGEN_PREBUILT": folder}
        for layer in chosen_layers(given.layers):
            x = np.random.default_rng(1).standard_normal(layer.input, np.float32)
            if given.layout == "NHWC":
                x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
            ours = ready(layer, given.layout, x, {"WINOGEN_COMPILE": "missing"})
            theirs = ready(layer, given.layout, x, bare)
            calls = [partial(conv, x) for conv in (ours, theirs)]
            times = in_turns(calls, clock_of(1), _ROUNDS, each=_EACH, turn=_TURN)
            here, there = map(median, times)
            alike = kernels(ours, x) == kernels(theirs, x)
            ratios["the same kernels" if alike else "other kernels"].append(there / here)
            taken = "" if alike else f"  {kernels(theirs, x)} for {kernels(ours, x)}"
            print(f"{layer.name:36} {there / here:.3f}{taken}", flush=True)
    ratios["all"] = [one for some in ratios.values() for one in some]
    for what, some in ratios.items():
        mean = exp(sum(map(log, some)) / len(some))
        print(f"{what}: {len(some)} layers, time over that as compiled here {mean:.3f}")


if __name__ == "__main__":
    main()
