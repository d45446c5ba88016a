"""Times of layers by kernels of several compilers, in turns: what one of them makes badly shows.

    python scripts/compiler_times.py gcc clang-16
    python scripts/compiler_times.py gcc "clang-16 -O2" --rounds 5

Every round gives each compiler a process of its own, in an order that is drawn anew, in which a
layer is called until its least time is known. One thread; the least of all rounds counts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

CALLS = 12  # of each layer in a round


def layers() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the name of each layer, and what calls it."""
    from winogen import Conv2d, ConvTranspose2d, QConv2d, gemm

    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, np.float32)

    def layer(layout: str, side: int, filters: np.ndarray, **options: Any) -> Callable[[], Any]:
        channels = filters.shape[1] * options.get("groups", 1)
        x = normal(1, channels, side, side) if layout == "NCHW" else normal(1, side, side, channels)
        call = Conv2d(filters, padding=filters.shape[2] // 2, threads=1, layout=layout, **options)
        return lambda: call(x)

    for layout in ("NCHW", "NHWC"):
        for way in ("mcmr", "winograd2d", "winograd1d", "direct", "im2col"):
            yield f"{way} {layout}", layer(layout, 56, normal(64, 64, 3, 3), algorithm=way)
        for taps in (3, 5, 9):
            one = layer(layout, 56, normal(64, 1, taps, taps), groups=64)
            yield f"depthwise {taps}x{taps} {layout}", one
        yield f"few channels {layout}", layer(layout, 224, normal(32, 3, 3, 3), stride=2)
        yield f"1x1 {layout}", layer(layout, 28, normal(128, 128, 1, 1))
        yield f"7x7 {layout}", layer(layout, 28, normal(64, 64, 7, 7))
        yield f"float16 {layout}", layer(layout, 56, normal(64, 64, 3, 3), filter_dtype="float16")
        yield f"int16 {layout}", layer(layout, 56, normal(64, 64, 3, 3), tolerance=1e-2)
    a, b = normal(256, 256), normal(256, 256)
    yield "product", lambda: gemm(a, b, threads=1)
    codes, bytes_ = rng.integers(-128, 128, (64, 64, 3, 3)), rng.integers(0, 256, (1, 64, 56, 56))
    scales = {"w_scale": 1e-2, "x_scale": 0.1, "y_scale": 0.2}
    narrow = QConv2d(codes.astype(np.int8), padding=1, threads=1, **scales)
    x = bytes_.astype(np.uint8)
    yield "bytes", lambda: narrow(x)
    larger, map_ = (
        ConvTranspose2d(normal(64, 64, 4, 4), stride=2, padding=1, threads=1),
        normal(1, 64, 28, 28),
    )
    yield "transposed", lambda: larger(map_)


def measured() -> dict[str, float]:
    """Return the least milliseconds of each layer, in this process."""
    times = {}
    for name, call in layers():
        call()
        taken = []
        for _ in range(CALLS):
            begin = time.perf_counter()
            call()
            taken.append(time.perf_counter() - begin)
        times[name] = 1e3 * min(taken)
    return times


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("compilers", nargs="*", help="as CC has them; the first is compared with")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    if not asked.compilers:  # a process of a round
        print(json.dumps(measured()))
        return
    least: dict[str, dict[str, float]] = {one: {} for one in asked.compilers}
    for _ in range(asked.rounds):
        for compiler in random.sample(asked.compilers, len(asked.compilers)):
            done = subprocess.run(
                [sys.executable, __file__], env={**os.environ, "CC": compiler},
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode:
                raise SystemExit(f"{compiler}: {done.stderr.strip().splitlines()[-1]}")
            for name, ms in json.loads(done.stdout).items():
                least[compiler][name] = min(ms, least[compiler].get(name, ms))
    first = least[asked.compilers[0]]
    print(f"{'ms':22}" + "".join(f"{one:>16}" for one in asked.compilers) + "   ratio")
    for name, ms in first.items():
        row = [times[name] for times in least.values()]
        ratios = "  ".join(f"{other / ms:.2f}" for other in row[1:])
        print(f"{name:22}" + "".join(f"{one:16.3f}" for one in row) + f"   {ratios}")
    for compiler in asked.compilers[1:]:
        ratios = np.log([least[compiler][name] / ms for name, ms in first.items()])
        print(f"{compiler}: {np.exp(ratios.mean()):.2f} times the time of {asked.compilers[0]}")


if __name__ == "__main__":
    main()
