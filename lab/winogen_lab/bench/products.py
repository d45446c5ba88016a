"""Products of matrices to measure, from 1x1 layers, and how ways to compute them compare.

A layer of 1x1 filters without a stride is the product of H·W x C inputs, channels last, with C x M
weights.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from math import prod, sqrt
from typing import NamedTuple

import numpy as np

from winogen.errors import InvalidValue
from winogen.tasks.turns import clock_of, in_turns
from winogen.tuning.layers import BenchLayer, load_layers

SET = "gemm1x1"
_CALLS = (3, 3)  # of a turn; the fastest counts


class Product(NamedTuple):
    """c[m][n] = sum over k of a[m][k] b[k][n]."""

    name: str
    m: int
    n: int
    k: int

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.m * self.n * self.k

    @classmethod
    def of(cls, layer: BenchLayer) -> Product:
        """Return the product that a layer is; raises InvalidValue if it is none."""
        images, channels, *size = layer.input
        plain = max(layer.weight[2:] + layer.stride) == 1 and layer.groups == 1
        if layer.transposed or not (plain and layer.padding == (0,) * layer.rank):
            raise InvalidValue(
                f"layers: got {layer.name}, which is no product of matrices; allowed: 1x1 layers "
                "of one group without stride and padding"
            )
        return cls(layer.name, images * prod(size), layer.weight[0], channels)


def products(name_or_file: str = SET, only: str | None = None) -> list[Product]:
    """Return the products of a layer set, or m,n,k as text, such as "1024,1024,1024".

    ``only``: text in the names of the chosen ones, or several with commas between them.

    >>> products("1024,1024,1024")
    [Product(name='1024,1024,1024', m=1024, n=1024, k=1024)]
    """
    sizes = name_or_file.split(",")
    if len(sizes) == 3 and all(size.isdecimal() and int(size) for size in sizes):
        return [Product(name_or_file, *map(int, sizes))]
    chosen = [
        layer
        for layer in load_layers(name_or_file)
        if only is None or any(text in layer.name for text in only.split(","))
    ]
    if not chosen:
        raise InvalidValue(f"only: got {only!r}; allowed: text in the name of a layer")
    return list(map(Product.of, chosen))


def operands(product: Product, dtype: str = "float32") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a, b and room for c: normally distributed, the same on every run."""
    draw = np.random.default_rng(0)
    a, b = (
        draw.standard_normal(shape).astype(dtype)
        for shape in ((product.m, product.k), (product.k, product.n))
    )
    return a, b, np.empty((product.m, product.n), dtype)


def measured(
    ways: Mapping[str, Callable[[], object]], rounds: int, threads: int
) -> dict[str, list[float]]:
    """Return the seconds of a call in every round, in which all ways take turns."""
    for way in ways.values():
        way()
    taken = in_turns(list(ways.values()), clock_of(threads), (rounds, rounds), each=_CALLS)
    return dict(zip(ways, taken))


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median and the ends of its 95 % interval, by order statistics.

    >>> interval([1, 2, 3, 4, 5, 6, 7, 8, 9])
    (5, 2, 8)
    """
    ordered = sorted(values)
    count = len(ordered)
    below = max(0, int((count - 1.96 * sqrt(count)) / 2))
    return ordered[count // 2], ordered[below], ordered[count - 1 - below]


def with_threads(module: str, words: Sequence[str], threads: int) -> int:
    """Run a module anew with libraries that use so many threads, and the kernels they prefer.

    They look at the environment only once, when they are loaded. Returns the exit status.
    """
    environment = {
        **os.environ,
        **dict.fromkeys(
            ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS"), str(threads)
        ),
        _CHILD: "1",
    }
    environment.pop("OPENBLAS_CORETYPE", None)
    command = [sys.executable, "-m", module, *words]
    return subprocess.run(command, env=environment, check=False).returncode


_CHILD = "WINOGEN_BENCH_CHILD"


def is_child() -> bool:
    """Whether this process was started by `with_threads`."""
    return _CHILD in os.environ
