"""Layers of 3 x 3 by products of int8: how fast, and how far off, beside what is exact.

Times are medians in turns, of one thread its processor's. Inputs and weights are normal.
"bytes" are rounded to 8 bits first, inputs with a scale for the array, weights with one for each
filter, and errors are those of the sums, before anything is rounded to bytes again: of what these
bytes stand for, and of what they stood for before they were rounded. Unsigned bytes have their
zero point at 0, as behind ReLU: kernels read and write them as they are.

    python scripts/tiles_of_bytes.py [ROUNDS]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np

import winogen
from winogen.conv.quantized_tiles import LARGER
from winogen.tuning.layers import load_layers

ROUNDS = 60
SAME: dict[str, Any] = {"padding": 1, "layout": "NHWC", "threads": 1}
LAYERS = ("224x224x64-64", "112x112x128-128", "56x56x256-256", "28x28x512-512")  # of VGG-16
# Float arrays, and arrays of bytes.
FLOATS: dict[str, dict[str, Any]] = {
    "float32, auto": {},
    "bfloat16, direct": {"product_dtype": "bfloat16", "algorithm": "direct"},
    **{
        f"{kind}, F({m}x{m})": {"product_dtype": kind, "algorithm": "mcmr", "tile": m}
        for kind, m in (("int16", 4), ("int16", 6), ("int8", 2), ("int8", 4))
    },
    **{
        f"int8, F({m}x{m}), x^2+1": {
            **{"product_dtype": "int8", "algorithm": "mcmr", "tile": m, "moduli": moduli}
        }
        for m, moduli in LARGER.items()
    },
}
BYTES: dict[str, dict[str, Any]] = {
    "bytes, exact": {},
    **{
        f"bytes, {label}": {name: value for name, value in options.items() if name != "moduli"}
        for label, options in FLOATS.items()
        if "tile" in options and label != "int8, F(4x4)"
    },
}


def codes(values: np.ndarray, axes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers rounded to 8 bits, and the steps: one for all of these axes."""
    steps = np.abs(values).max(axes, keepdims=True) / 127
    return np.rint(values / steps).astype(np.int8), steps


def off(y: np.ndarray, exact: np.ndarray) -> str:
    """Return the largest error, of the largest output, and the root mean square, of its own."""
    wrong, rms = y - exact, np.sqrt((exact**2).mean())
    return f"{abs(wrong).max() / abs(exact).max():.1e} {np.sqrt((wrong**2).mean()) / rms:.1e}"


def measure(name: str, rounds: int) -> None:
    """Print a row for each way to compute a layer."""
    (layer,) = (one for one in load_layers("vgg16") if name in one.name)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, *layer.input[2:], layer.input[1])).astype(np.float32)
    weight = rng.standard_normal(layer.weight).astype(np.float32)
    (x_codes, x_step), (w_codes, w_steps) = codes(x, (0, 1, 2, 3)), codes(weight, (1, 2, 3))
    scales: dict[str, Any] = {
        "x_scale": float(x_step.item()),
        "w_scale": w_steps.ravel().astype(np.float32),
    }
    y_scale = float(6 * np.sqrt(np.prod(layer.weight[1:])) / 127)
    wide = (x.astype(np.float64), weight.astype(np.float64))
    exact = winogen.conv2d(*wide, algorithm="direct", **SAME)
    rounded = (x_codes * x_step.astype(np.float64), w_codes * w_steps.astype(np.float64))
    of_codes = winogen.conv2d(*rounded, algorithm="direct", **SAME)
    calls: dict[str, Callable[[], Any]] = {}
    errors = {"bytes, exact": f"{off(of_codes, of_codes)} {off(of_codes, exact)}"}
    for label, options in FLOATS.items():
        conv = winogen.Conv2d(weight, **SAME, **options)
        calls[label] = partial(conv, x)
        near = winogen.Conv2d(rounded[1].astype(np.float32), **SAME, **options)
        errors[label] = off(conv(x), exact)
        y = near(rounded[0].astype(np.float32))
        errors[f"bytes, {label}"] = f"{off(y, of_codes)} {off(y, exact)}"
    for label, options in BYTES.items():
        of_bytes = winogen.QConv2d(w_codes, **SAME, **scales, y_scale=y_scale, **options)
        of_bytes(x_codes)
        calls[label] = partial(of_bytes, x_codes)
        behind_relu = np.abs(x_codes).view(np.uint8)
        of_bytes(behind_relu)
        calls[label.replace("bytes", "unsigned bytes")] = partial(of_bytes, behind_relu)
    times: dict[str, list[float]] = {label: [] for label in calls}
    for _ in range(rounds):
        for label, call in calls.items():
            begin = time.process_time()
            call()
            times[label].append(time.process_time() - begin)
    print(f"{name}: ms; errors, largest and rms, of the numbers that were given;")
    print(f"{'':{len(name)}}  of bytes, of what these were rounded from, too")
    for label, seconds in times.items():
        print(f"  {label:34} {1e3 * median(seconds):6.2f}  {errors.get(label, '')}", flush=True)


def main() -> None:
    """Measure all layers."""
    for name in LAYERS:
        measure(name, int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)


if __name__ == "__main__":
    main()
