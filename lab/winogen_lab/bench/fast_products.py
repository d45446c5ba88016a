"""What one level of Strassen, or of its kin, does to the product of a Winograd layer.

`mcmr` multiplies, at every position of a tile, tiles x channels with channels x filters. Here each
of these products is cut into blocks, and a decomposition of the product of small matrices says
which sums of blocks are multiplied. The sums of filters are formed once, when they are packed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from winogen.algebra import Decomposition, cook_toom, known
from winogen.algebra.scalar import Matrix
from winogen.conv.gemm import Gemm
from winogen.errors import InvalidValue
from winogen_lab.bench.products import interval, measured

TAPS = 3
_Terms = list[tuple[tuple[int, int], float]]  # blocks and their factors


class Row(NamedTuple):
    """One layer: times of the products, and errors of the layer's outputs."""

    size: int  # of the map, in pixels along each axis
    tiles: int
    plain_s: float
    fast_s: float
    ratio: tuple[float, float, float]  # of the times, fast over plain: median, 95 % interval
    plain_error: float  # max |y - y64| / max |y64|
    fast_error: float


@dataclass(frozen=True)
class BlockProduct:
    """C = A B for matrices cut into n x m and m x p blocks, with B packed."""

    n: int
    m: int
    p: int
    left: tuple[_Terms, ...]  # what each product reads of A
    right: tuple[Gemm, ...]
    added: tuple[_Terms, ...]  # the blocks of C to which each product is added

    @classmethod
    def of(cls, f: Decomposition, b: np.ndarray) -> BlockProduct:
        """Pack ``b`` for an algorithm of `matrix_product`."""
        found = f.map.name.removeprefix("matrix product ").split("x")
        if not f.map.name.startswith("matrix product "):
            raise InvalidValue(f"algorithm: got one of a {f.map.name}; allowed: a matrix product")
        n, m, p = map(int, found)
        if b.shape[0] % m or b.shape[1] % p:
            raise InvalidValue(
                f"channels, filters: got {b.shape[0]} and {b.shape[1]}; allowed: multiples of "
                f"{m} and {p}, as blocks are equal"
            )
        blocks = _blocks(b, m, p)
        rights = []
        for terms in _terms(f.v, p):
            rights.append(Gemm(sum(factor * blocks[at] for at, factor in terms), threads=1))
        return cls(n, m, p, _terms(f.u, m), tuple(rights), _terms(tuple(zip(*f.w)), p))

    def __call__(self, a: np.ndarray, out: np.ndarray) -> None:
        """Write the product with ``a`` to ``out``, block by block."""
        blocks, results = _blocks(a, self.n, self.m), _blocks(out, self.n, self.p)
        room = np.empty_like(blocks[0, 0])
        product = np.empty(results[0, 0].shape, a.dtype)
        begun: set[tuple[int, int]] = set()
        for terms, gemm, targets in zip(self.left, self.right, self.added):
            gemm(_sum(terms, blocks, room), out=product)
            for at, factor in targets:
                _add(results[at], product, factor, at in begun)
                begun.add(at)


def compare(
    sizes: tuple[int, ...], channels: int, filters: int, name: str, tile: int, rounds: int
) -> list[Row]:
    """Return a row for each size of map: 3x3, stride 1, padding 1, F(tile x tile, 3x3).

    Products by `Gemm` on one thread, with and without the algorithm called ``name``, take turns.
    """
    f = known(name)
    f.verify()
    at, g, bt = cook_toom(tile, TAPS).arrays()
    draw = np.random.default_rng(0)
    weight = draw.standard_normal((filters, channels, TAPS, TAPS))
    u64 = np.einsum("ai,bj,kcij->abck", g, g, weight).reshape(-1, channels, filters)
    u = u64.astype(np.float32)
    plain = [Gemm(one, threads=1) for one in u]
    fast = [BlockProduct.of(f, one) for one in u]
    rows = []
    for size in sizes:
        d = draw.standard_normal((channels, size, size))
        v64 = _tiles(d, tile, bt, np.float64)
        v = _tiles(d.astype(np.float32), tile, bt, np.float32)
        padding = -v.shape[1] % fast[0].n
        v = np.ascontiguousarray(np.pad(v, ((0, 0), (0, padding), (0, 0))))
        out = np.zeros((len(v), v.shape[1], filters), np.float32)
        calls = {"plain": _each(plain, v, out), "fast": _each(fast, v, out)}
        exact = _outputs(np.matmul(v64, u64), at, np.float64)
        errors = {}
        for way, call in calls.items():
            call()
            y = _outputs(out[:, : v64.shape[1]], at, np.float32)
            errors[way] = float(np.abs(y - exact).max() / np.abs(exact).max())
        taken = measured(calls, rounds, 1)
        ratios = [b / a for a, b in zip(taken["plain"], taken["fast"])]
        rows.append(
            Row(size, v64.shape[1], float(np.median(taken["plain"])),
                float(np.median(taken["fast"])), interval(ratios), errors["plain"], errors["fast"])
        )  # fmt: skip
    return rows


def _each(
    products: Sequence[Callable[..., object]], v: np.ndarray, out: np.ndarray
) -> Callable[[], object]:
    """Return the call that computes the products of all positions."""

    def call() -> None:
        for product, a, c in zip(products, v, out):
            product(a, out=c)

    return call


def _blocks(matrix: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Return a view of equal blocks, rows x columns of them."""
    height, width = matrix.shape
    cut = matrix.reshape(rows, height // rows, columns, width // columns)
    return cut.transpose(0, 2, 1, 3)


def _terms(rows: Matrix, columns: int) -> tuple[_Terms, ...]:
    """Return which blocks, in rows of ``columns``, every row of a matrix adds, and how often."""
    return tuple([(divmod(k, columns), float(c)) for k, c in enumerate(row) if c] for row in rows)


def _sum(terms: _Terms, blocks: np.ndarray, room: np.ndarray) -> np.ndarray:
    (first, factor), *others = terms
    if not others and factor == 1:
        return blocks[first]  # as it lies
    np.multiply(blocks[first], np.float32(factor), out=room)
    for at, factor in others:
        _add(room, blocks[at], factor, True)
    return room


def _add(total: np.ndarray, value: np.ndarray, factor: float, begun: bool) -> None:
    if not begun:
        np.multiply(value, np.float32(factor), out=total)
    elif factor == 1:
        np.add(total, value, out=total)
    elif factor == -1:
        np.subtract(total, value, out=total)
    else:
        np.add(total, np.float32(factor) * value, out=total)


def _tiles(d: np.ndarray, tile: int, bt: np.ndarray, dtype: Any) -> np.ndarray:
    """Return the transformed tiles of a padded map, positions x tiles x channels."""
    n = tile + TAPS - 1
    count = -(-d.shape[1] // tile)
    room = count * tile + TAPS - 1 - d.shape[1] - 1
    padded = np.pad(d, ((0, 0), (1, room), (1, room)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (n, n), axis=(1, 2))
    cut = windows[:, ::tile, ::tile].reshape(len(d), -1, n, n)
    made = np.einsum("ai,ctij->ctaj", bt.astype(dtype), cut)
    made = np.einsum("bj,ctaj->abtc", bt.astype(dtype), made)
    return np.ascontiguousarray(made.reshape(n * n, -1, len(d)))


def _outputs(sums: np.ndarray, at: np.ndarray, dtype: Any) -> np.ndarray:
    n = at.shape[1]
    cut = sums.reshape(n, n, *sums.shape[1:])
    made = np.einsum("ia,abtk->ibtk", at.astype(dtype), cut)
    return np.einsum("jb,ibtk->ijtk", at.astype(dtype), made)
