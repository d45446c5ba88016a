"""``python -m winogen_lab.bench.gemm``: winogen.gemm beside numpy's BLAS, and the wheel of BLIS.

All take turns, and so does the FMA peak: on a machine whose clock changes only ratios of one moment
mean anything.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import import_module
from statistics import geometric_mean
from typing import Any

import numpy as np

from winogen.conv.gemm import Gemm, gemm
from winogen.errors import WinogenError
from winogen.toolchain.limits import fma_peak
from winogen.toolchain.machine_file import cpu_name
from winogen_lab.bench import products
from winogen_lab.bench.products import Product, interval, measured, operands

_MODULE = "winogen_lab.bench.gemm"
_PEAK = 0.002  # seconds for each sample of the peak


def main(arguments: list[str] | None = None) -> int:
    """Print a row for each product; return the exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog=f"python -m {_MODULE}", description=__doc__)
    parser.add_argument("--layers", default=products.SET, help="a layer set, or m,n,k")
    parser.add_argument("--only", help="only layers with this in their names")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args(words)
    if not products.is_child():
        return products.with_threads(_MODULE, words, options.threads)
    try:
        chosen = products.products(options.layers, options.only)
    except WinogenError as error:
        parser.error(str(error))
    print(f"{cpu_name()}, {options.threads} threads; numpy's BLAS: {blas()}")
    print(
        "GFLOP/s: medians over the turns. Gemm: b packed before. Ratio: numpy's time / ours, with "
        "its 95 % interval"
    )
    names = ["numpy", "gemm", "Gemm", *(["blis"] if _blis() else [])]
    print(
        f"{'product':<22}{'m':>6}{'n':>6}{'k':>6}{'peak':>7}"
        + "".join(f"{name:>7}" for name in names)
        + f"{'share':>7}  gemm: ratio         Gemm: ratio"
    )
    ratios: dict[str, list[float]] = {"gemm": [], "Gemm": []}
    for product in chosen:
        times = compare(product, options.threads, options.rounds)
        rates = {name: product.flops / interval(times[name])[0] / 1e9 for name in names}
        peak = interval(times["peak"])[0]
        cells = []
        for name, found in ratios.items():
            middle, low, high = interval([n / t for n, t in zip(times["numpy"], times[name])])
            found.append(middle)
            cells.append(f"{middle:5.2f} ({low:.2f}..{high:.2f})")
        print(
            f"{product.name:<22}{product.m:>6}{product.n:>6}{product.k:>6}{peak:>7.0f}"
            + "".join(f"{rates[name]:>7.0f}" for name in names)
            + f"{rates['Gemm'] / peak:>7.0%}  {'  '.join(cells)}",
            flush=True,
        )
    for name, values in ratios.items():
        print(
            f"numpy's time / that of {name}: geometric mean {geometric_mean(values):.2f}, worst "
            f"{min(values):.2f} ({chosen[values.index(min(values))].name})"
        )
    return 0


def compare(product: Product, threads: int, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of every way in every round, and GFLOP/s of the FMA peak beside them."""
    a, b, c = operands(product)
    packed = Gemm(b, threads=threads)
    ways: dict[str, Callable[[], object]] = {
        "numpy": lambda: np.matmul(a, b, out=c),
        "gemm": lambda: gemm(a, b, threads=threads, out=c),
        "Gemm": lambda: packed(a, out=c),
    }
    blis = _blis()
    if blis:
        ways["blis"] = lambda: blis.gemm(a, b, out=c)
    peaks: list[float] = []
    all_times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        peaks.append(fma_peak(threads, seconds=_PEAK))
        for name, seconds in measured(ways, 1, threads).items():
            all_times[name] += seconds
    return {**all_times, "peak": peaks}


def blas() -> str:
    """Return what numpy multiplies by, and for which CPU if threadpoolctl can tell."""
    try:
        pools = import_module("threadpoolctl").threadpool_info()
    except ImportError:
        try:
            found = np.show_config(mode="dicts")
            described = found["Build Dependencies"]["blas"]
        except (TypeError, KeyError):  # numpy < 1.25
            return "unknown"
        return f"{described['name']} {described['version']}"
    kinds = [
        f"{pool['internal_api']} {pool['version']} ({pool.get('architecture', 'unknown')})"
        for pool in pools
        if pool["user_api"] == "blas" and pool["internal_api"] != "blis"
    ]
    return ", ".join(kinds) or "unknown"


def _blis() -> Any:
    try:
        return import_module("blis.py")
    except ImportError:
        return None


if __name__ == "__main__":
    sys.exit(main())
