"""Row scalings that lower the error: free factors between B^T, G and A^T of the same algorithm.

Factors that are powers of 2 change nothing in floating point, but where few bits of exponent make
numbers too small or too large. Others matter by the constants they
turn into powers of 2, since multiplying by a power of 2 does not round.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from winogen.algebra import BilinearAlgorithm

from dataclasses import replace
from fractions import Fraction

import numpy as np

from winogen.numerics.search.batch import Matrices
from winogen.numerics.search.candidate import Candidate
from winogen.numerics.search.screen import counts_exponents, screen

_SWEEPS = 2


def scale_for_error(candidate: Candidate, dims: int, settings: dict) -> Candidate:
    """Return the candidate with the row scalings of least estimated error.

    Row by row (opposite points together) the factors are tried that make one constant of two of
    the three matrices a 1; the third takes the rest. The candidate itself if nothing is gained.
    """
    algorithm = candidate.algorithm
    arrays = list(algorithm.arrays())
    chosen: list[tuple] = [(Fraction(1), Fraction(1))] * algorithm.products  # of B^T and of A^T
    best = float(screen(_batch(arrays), dims, settings)[0])
    if counts_exponents(settings):
        balanced = algorithm.balanced()
        error = float(screen(_batch(balanced.arrays()), dims, settings)[0])
        if error < best:
            best, arrays = error, list(balanced.arrays())
            chosen = _factors(algorithm, balanced)
    for _ in range(_SWEEPS):
        before = best
        for rows in _alike(algorithm):
            options = _options(algorithm, rows[0])
            trial = [np.repeat(a[None], len(options), 0) for a in arrays]
            for k, (into, out) in enumerate(options):
                _put(trial, k, algorithm, rows, into, out)
            errors = screen(Matrices(*trial), dims, settings)
            k = int(errors.argmin())
            if errors[k] < best:
                best = float(errors[k])
                arrays = [a[k] for a in trial]
                for a in rows:
                    chosen[a] = options[k]
        if best > 0.999 * before:
            break
    if all(into == out == 1 for into, out in chosen):
        return candidate
    into, out = zip(*chosen)
    return replace(candidate, input=tuple(map(str, into)), output=tuple(map(str, out)))


def _batch(arrays: Sequence[np.ndarray]) -> Matrices:
    return Matrices(*(a[None] for a in arrays))


def _factors(algorithm: BilinearAlgorithm, scaled: BilinearAlgorithm) -> list[tuple]:
    """By what the rows of B^T and the columns of A^T were multiplied."""
    sides = (
        (algorithm.bt, scaled.bt),
        (tuple(zip(*algorithm.at)), tuple(zip(*scaled.at))),
    )
    return list(zip(*([_ratio(*rows) for rows in zip(*side)] for side in sides)))


def _ratio(before: Sequence, after: Sequence) -> Any:
    return next(b / a for a, b in zip(before, after) if a != 0)


def _alike(algorithm: BilinearAlgorithm) -> list[list[int]]:
    """Products whose rows mirror each other: scaled together, they keep what they share."""
    groups: dict[tuple, list[int]] = {}
    for a in range(algorithm.products):
        column = tuple(abs(row[a]) for row in algorithm.at)
        groups.setdefault(column, []).append(a)
    return list(groups.values())


def _options(algorithm: BilinearAlgorithm, a: int) -> list[tuple]:
    """Pairs of factors of row a of B^T and of column a of A^T."""
    into = _inverses(algorithm.bt[a])
    out = _inverses(row[a] for row in algorithm.at)
    filters = _inverses(algorithm.g[a])
    pairs = [(b, c) for b in into for c in out]
    pairs += [(b, 1 / (b * g)) for b in into for g in filters]
    pairs += [(1 / (c * g), c) for c in out for g in filters]
    return list(dict.fromkeys(pairs))


def _inverses(values: Iterable) -> list:
    return list(dict.fromkeys([Fraction(1), *(1 / abs(c) for c in values if c != 0)]))


def _put(
    trial: list[np.ndarray],
    k: int,
    algorithm: BilinearAlgorithm,
    rows: list[int],
    into: Any,
    out: Any,
) -> None:
    """Scale the rows of the k-th copy of the matrices, from the exact ones."""
    at, g, bt = trial
    for a in rows:
        at[k, :, a] = [float(row[a] * out) for row in algorithm.at]
        g[k, a] = [float(c / (into * out)) for c in algorithm.g[a]]
        bt[k, a] = [float(c * into) for c in algorithm.bt[a]]
