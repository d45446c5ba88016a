"""Long filters along one axis, by two short algorithms and by what else there is.

    python scripts/iterated_figures.py [--taps 9,15,25] [--channels 32] [--length 4096]

Prints for each number of taps a line per algorithm: products of each output, instructions of the
transforms, the error of one tile in 1D, estimated and measured (mean |error| of
numbers uniform in (-1, 1), float32), then the milliseconds of a layer of one row, predicted and
measured, all in turns. Where an algorithm has no kernel, its time is a dash.
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from time import perf_counter
from typing import Any

import numpy as np

import winogen
from winogen.algebra import BilinearAlgorithm, cook_toom, winograd
from winogen.algebra.circle import LARGEST
from winogen.columns import aligned
from winogen.errors import InvalidValue
from winogen.numerics import Direct, estimate, measure
from winogen.program.iterated import programs_of

HEADER = [
    "taps", "algorithm", "products", "instructions", "estimated", "measured", "model ms", "ms",
    "error",
]  # fmt: skip


def algorithms(taps: int) -> dict[str, tuple[BilinearAlgorithm | None, dict[str, Any] | None]]:
    """What is compared: an algorithm of one tile, and the options of a kernel that runs it."""
    m = taps  # as many outputs as taps
    found: dict[str, tuple[BilinearAlgorithm | None, dict[str, Any] | None]] = {
        "definition": (None, {"algorithm": "direct"}),
        "iterated": (
            cook_toom(m, taps, "iterated"),
            {"algorithm": "mcmr", "tile": (1, m), "points": (None, _iterated(m, taps))},
        ),
        "pieces": (
            cook_toom(4, taps, _pieces(4, taps)),
            {"algorithm": "mcmr", "tile": (1, 4), "points": (None, _pieces(4, taps))},
        ),
    }
    if m + taps - 1 <= LARGEST:
        options = {"algorithm": "mcmr", "tile": (1, m), "order": "huffman"}
        found["moduli"] = (cook_toom(m, taps), options if 2 * m - 1 <= 24 else None)
    with suppress(InvalidValue):  # cosines of most n lie in fields of too high a degree
        found["Fourier, exact"] = (winograd(m, taps, "fourier"), None)
    found["Fourier, numpy"] = (None, {"algorithm": "fft"})
    return found


def _iterated(m: int, taps: int) -> str:
    from winogen.algebra.iterated import iterated_points
    from winogen.spelling import in_one_line

    return in_one_line(iterated_points(m, taps))


def _pieces(m: int, taps: int) -> str:
    """Each piece of 3 or 5 taps is F(m, s), and pieces are added: the outer algorithm is direct."""
    from winogen.algebra import default_points

    step = 3 if taps % 3 == 0 else 5
    return "; " + ", ".join(map(str, default_points(m, step)))


def line(taps: int, name: str, algorithm: BilinearAlgorithm | None) -> list[str]:
    """The figures of one tile."""
    if algorithm is None:
        products = "-" if name.startswith("Fourier") else f"{taps:.2f}"
        if name != "definition":
            return [str(taps), name, products, "-", "-", "-"]
        tile: Any = Direct(taps, taps)
        counts = "-"
    else:
        tile, products = algorithm, f"{algorithm.products / algorithm.m:.2f}"
        made = programs_of(algorithm, "huffman")
        both = sum(made[kind].counts().instructions for kind in ("input", "output"))
        counts = f"{both / algorithm.m:.1f}"
    settings = {"dims": 1, "order": "huffman"}
    expected = estimate(tile, **settings).mean
    measured = measure(tile, trials=2000, **settings).mean
    return [str(taps), name, products, counts, f"{expected:.1e}", f"{measured:.1e}"]


def times(
    taps: int, kernels: dict[str, dict[str, Any]], asked: argparse.Namespace
) -> dict[str, list[str]]:
    """{name: [model ms, measured ms, error of the layer]}: the medians of calls in turns."""
    draw = np.random.default_rng(taps)
    channels = asked.channels
    weight = draw.standard_normal((channels, channels, 1, taps)).astype(np.float32)
    x = draw.standard_normal((1, channels, 1, asked.length)).astype(np.float32)
    exact = winogen.conv2d(x.astype(np.float64), weight.astype(np.float64), algorithm="direct")
    convolutions, found = {}, {}
    for name, options in kernels.items():
        conv = winogen.Conv2d(weight, threads=1, **options)
        error = np.abs(conv(x) - exact).max() / np.abs(exact).max()
        plan = conv.plan(x.shape)
        found[name] = [f"{1e3 * plan.predictions[0].seconds:.2f}", "", f"{error:.1e}"]
        convolutions[name] = conv
    seconds: dict[str, list[float]] = {name: [] for name in convolutions}
    for _ in range(asked.repeats):
        for name, conv in convolutions.items():
            begin = perf_counter()
            conv(x)
            seconds[name].append(perf_counter() - begin)
    for name, many in seconds.items():
        found[name][1] = f"{1e3 * float(np.median(many)):.2f}"
    return found


def passes(taps: int, repeats: int) -> list[list[str]]:
    """A kernel of taps x taps that is a column times a row, on a picture: lines of its ways."""
    bell = np.exp(-(np.linspace(-2, 2, taps) ** 2))
    blur = (np.outer(bell, bell) / bell.sum() ** 2).astype(np.float32)[None, None]
    picture = np.random.default_rng(0).random((1, 1, 270, 480), np.float32)
    exact = winogen.conv2d(picture.astype(np.float64), blur.astype(np.float64), algorithm="direct")
    ways = {
        "two passes": {},
        "definition": {"algorithm": "direct"},
        "Fourier": {"algorithm": "fft"},
    }
    made = {name: winogen.Conv2d(blur, threads=1, **options) for name, options in ways.items()}
    seconds: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(repeats):
        for name, conv in made.items():
            begin = perf_counter()
            y = conv(picture)
            seconds[name].append(perf_counter() - begin)
            assert np.abs(y - exact).max() < 1e-5
    rows = []
    for name, conv in made.items():
        plan = conv.plan(picture.shape)
        products = plan.multiplications / (exact.shape[2] * exact.shape[3])
        error = np.abs(conv(picture) - exact).max() / np.abs(exact).max()
        count = "-" if name == "Fourier" else f"{products:.0f}"
        milliseconds = f"{1e3 * float(np.median(seconds[name])):.2f}"
        rows.append([f"{taps}x{taps}", name, count, milliseconds, f"{error:.1e}", plan.variant])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--taps", default="9,15,25")
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=15)
    asked = parser.parse_args()
    rows, pictures = [HEADER], [["kernel", "way", "products", "ms", "error", "variant"]]
    for taps in map(int, asked.taps.split(",")):
        compared = algorithms(taps)
        kernels = {name: options for name, (_, options) in compared.items() if options is not None}
        timed = times(taps, kernels, asked)
        for name, (algorithm, _) in compared.items():
            rows.append([*line(taps, name, algorithm), *timed.get(name, ["-", "-", "-"])])
        pictures += passes(taps, asked.repeats)
    print("\n".join(aligned(rows, 2)))
    print()
    print("\n".join(aligned(pictures, 2)))


if __name__ == "__main__":
    main()
