"""``python -m winogen_lab.bench.prefetch``: what fetching ahead is worth to products of matrices.

Every setting (stream, distance, level) is a kernel of its own. They take turns with the kernel that
fetches nothing ahead, and its time over theirs is the gain. Where the 95 % interval of the gain has
1 in it, there is no effect.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product as every
from typing import NamedTuple

from winogen.conv.gemm import Gemm
from winogen.errors import InvalidValue, WinogenError
from winogen.kernels.gemm import tuning
from winogen.records import Tuning
from winogen.records.tuning import STREAMS
from winogen.toolchain import host_target
from winogen.toolchain.machine_file import cpu_name
from winogen_lab.bench import products
from winogen_lab.bench.products import Product, interval, measured, operands

_MODULE = "winogen_lab.bench.prefetch"
_FARTHEST = 16384  # bytes
_LINE = 64
_LEVELS = (1, 2)
FETCHED = ("A", "B", "both", "output")


class Setting(NamedTuple):
    """What is fetched ahead, how many bytes, and into which level of the caches."""

    stream: str
    distance: int
    level: int

    @property
    def text(self) -> str:
        """As the table shows it."""
        return f"{self.stream} {self.distance} L{self.level}"

    def of(self, sizes: Tuning) -> Tuning:
        """Return the tuning with this setting."""
        return replace(
            sizes,
            prefetch=self.distance,
            prefetch_streams=STREAMS[self.stream],
            prefetch_level=self.level,
            prefetch_output=self.distance,
            output_level=self.level,
        )


NONE = Setting("none", 0, 1)


class Gain(NamedTuple):
    """The time without prefetching over that with it: the median and its 95 % interval."""

    middle: float
    low: float
    high: float

    @property
    def text(self) -> str:
        """As the table shows it.

        >>> Gain(1.02, 0.97, 1.04).text, Gain(1.05, 1.03, 1.06).text
        ('no effect', '1.05 (1.03..1.06)')
        """
        if self.low <= 1 <= self.high:
            return "no effect"
        return f"{self.middle:.2f} ({self.low:.2f}..{self.high:.2f})"


def settings(
    streams: Sequence[str], distances: Sequence[int], levels: Sequence[int]
) -> list[Setting]:
    """Return all combinations; raises InvalidValue for what there is not.

    >>> [one.text for one in settings(["A"], [0, 64], [2])]
    ['A 0 L2', 'A 64 L2']
    """
    for stream in streams:
        if stream not in FETCHED:
            raise InvalidValue(f"streams: got {stream!r}; allowed: {', '.join(FETCHED)}")
    for distance in distances:
        if not 0 <= distance <= _FARTHEST or distance % _LINE:
            raise InvalidValue(
                f"distances: got {distance}; allowed: multiples of {_LINE} up to {_FARTHEST}"
            )
    for level in levels:
        if level not in _LEVELS:
            raise InvalidValue(f"levels: got {level}; allowed: {', '.join(map(str, _LEVELS))}")
    return [Setting(*one) for one in every(streams, distances, levels)]


def gains(product: Product, which: Sequence[Setting], rounds: int) -> dict[Setting, Gain]:
    """Measure the settings beside none, on one thread."""
    a, b, c = operands(product)
    sizes = tuning(host_target(), product.n)

    def way(setting: Setting) -> Callable[[], object]:
        packed = Gemm(b, threads=1, tuning=setting.of(sizes))
        return lambda: packed(a, out=c)

    times = measured({one.text: way(one) for one in (NONE, *which)}, rounds, threads=1)
    base = times[NONE.text]
    return {
        one: Gain(*interval([none / own for none, own in zip(base, times[one.text])]))
        for one in which
    }


def main(arguments: list[str] | None = None) -> int:
    """Print a table for each stream and level; return the exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog=f"python -m {_MODULE}", description=__doc__)
    parser.add_argument("--layers", default=products.SET, help="a layer set, or m,n,k")
    parser.add_argument("--only", help="only layers with this in their names")
    parser.add_argument("--streams", default=",".join(FETCHED))
    parser.add_argument("--distances", default="0,64,256,1024,4096,16384", help="in bytes")
    parser.add_argument("--levels", default="1,2", help="of the caches")
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args(words)
    try:
        chosen = products.products(options.layers, options.only)
        which = settings(
            options.streams.split(","),
            _integers("distances", options.distances),
            _integers("levels", options.levels),
        )
    except WinogenError as error:
        parser.error(str(error))
    print(f"{cpu_name()}, one thread: time without prefetching / with it, 95 % interval")
    effects = dict.fromkeys(which, 0)
    for product in chosen:
        found = gains(product, which, options.rounds)
        print(f"{product.name}: {product.m} x {product.n}, k {product.k}")
        for setting, gain in found.items():
            effects[setting] += gain.text != "no effect"
            print(f"    {setting.text:<18} {gain.text}", flush=True)
    none = sum(not count for count in effects.values())
    print(f"{none} of {len(which)} settings have no effect on any of {len(chosen)} products")
    return 0


def _integers(name: str, text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise InvalidValue(
            f"{name}: got {text!r}; allowed: integers, commas between them"
        ) from None


if __name__ == "__main__":
    sys.exit(main())
