"""Pictures filtered by winogen, OpenCV and scipy, in turns: a table of docs/pictures.md.

    python scripts/filter_speed.py
    python scripts/filter_speed.py --sizes 3,31 --pixels uint8 --colours 3 --calls 20

One thread each; the least time of all calls in ms, and the largest difference from OpenCV. Rivals
that are not installed are left out: pip install opencv-python-headless scipy.
"""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Callable
from time import perf_counter
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

import winogen
from winogen.tasks.turns import in_turns

HEIGHT, WIDTH = 1080, 1920


def rivals(picture: np.ndarray, kernel: np.ndarray) -> dict[str, Callable[[], Any]]:
    """Return what filters the picture, borders mirrored without the edge, by name."""
    found = {"winogen": lambda: winogen.filter2d(picture, kernel)}
    cv2, ndimage = (_imported(name) for name in ("cv2", "scipy.ndimage"))
    if cv2:
        cv2.setNumThreads(1)
        found["OpenCV"] = lambda: cv2.filter2D(
            picture, -1, kernel, borderType=cv2.BORDER_REFLECT_101
        )
    if ndimage and kernel.size <= 81:  # beyond, it takes seconds
        taps = kernel if picture.ndim == 2 else kernel[..., None]
        found["scipy"] = lambda: ndimage.correlate(picture, taps, mode="mirror")
    return found


def least(calls: dict[str, Callable[[], Any]], count: int) -> dict[str, float]:
    """Return the least milliseconds of so many calls of each, which take turns.

    Another one is the first in each turn: who comes later finds the picture in the caches.
    """
    seconds = in_turns([*calls.values()], perf_counter, (count + 1, count + 1))
    return {name: 1e3 * min(times) for name, times in zip(calls, seconds)}


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="3,5,7,9,13,17,21,25,31,41,63")
    parser.add_argument("--pixels", default="uint8,float32")
    parser.add_argument("--colours", default="1,3")
    parser.add_argument("--calls", type=int, default=15)
    asked = parser.parse_args()
    random = np.random.default_rng(0)
    print("| pixels | colours | kernel | winogen | OpenCV | scipy | OpenCV / winogen | differ by |")
    print("|---|---|---|---|---|---|---|---|")
    for pixels in asked.pixels.split(","):
        for colours in map(int, asked.colours.split(",")):
            shape = (HEIGHT, WIDTH, colours)[: 2 if colours == 1 else 3]
            picture = random.integers(0, 256, shape).astype(pixels)
            for size in map(int, asked.sizes.split(",")):
                kernel = (random.standard_normal((size, size)) / size).astype(np.float32)
                calls = rivals(picture, kernel)
                ms = least(calls, asked.calls)
                row = [
                    f"{ms[one]:.2f}" if one in ms else "" for one in ("winogen", "OpenCV", "scipy")
                ]
                ratio = differ = ""
                if "OpenCV" in ms:
                    ratio = f"{ms['OpenCV'] / ms['winogen']:.2f}"
                    ours, theirs = (calls[one]() for one in ("winogen", "OpenCV"))
                    differ = f"{np.abs(np.subtract(ours, theirs, dtype=np.float64)).max():.2g}"
                words = [pixels, colours, f"{size}×{size}", *row, ratio, differ]
                print(f"| {' | '.join(map(str, words))} |", flush=True)


if __name__ == "__main__":
    main()
