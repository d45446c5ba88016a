"""Products of integers: how filters and tiles become integers, and what error that makes.

A transformed tile V is scaled per position and chunk of channels, a transformed filter U per
position, so that no chunk's sum of products can overflow 32 bits: it is at most ||u|| ||v|| (Cauchy
and Schwarz). Within a chunk sums are exact; they are added up in float32.

One scale per position is what LoWino has (Li, Jia, Feng and Wang, ACM TACO 2024). The scales of a
chunk depend on nothing but the chunk: blocks and threads do not change a bit of the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np


@dataclass(frozen=True)
class Quantised:
    """How floating-point numbers become the integers that are multiplied.

    Norms are roots of sums of squares. A step is the smallest with which nothing exceeds its limit.

    >>> QUANTISED["int16"].filter_error(64) < QUANTISED["int8"].filter_error(64) < 0.01
    True
    """

    chunk: int  # channels whose products are summed exactly
    tiles: int  # the largest |integer| of V
    filters: int  # the largest |integer| of U
    tile_norm: float | None = None  # the largest norm of a chunk of V; None: any
    filter_norm: float | None = None  # of a chunk of U

    def scaled_tiles(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return integers, as float64, and steps of tiles (C, positions…) of one chunk.

        The steps are without the first axis.
        """
        if self.tile_norm is not None:  # no number exceeds the norm of its chunk
            return _scaled(v, _norm(v) / self.tile_norm)
        return _scaled(v, np.abs(v).max(0) / self.tiles)

    def filter_steps(self, u: np.ndarray) -> np.ndarray:
        """Return the step of each position of filters (C, positions…): one for all channels."""
        steps = np.abs(u).max(0) / self.filters
        if self.filter_norm is not None:
            for some in self.chunks(len(u)):
                steps = np.maximum(steps, _norm(u[some]) / self.filter_norm)
        return steps

    def scaled_filters(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return integers, as float64, and steps of filters (C, positions…)."""
        return _scaled(u, self.filter_steps(u))

    def chunks(self, channels: int) -> Iterator[slice]:
        """Yield the channels of each chunk."""
        for first in range(0, channels, self.chunk):
            yield slice(first, min(first + self.chunk, channels))

    def tile_error(self, channels: int) -> float:
        """The variance of the error of V over the variance of V, for normal numbers.

        A number is off by at most half a step, evenly: by step^2 / 12 in the square.
        """
        chunk = min(channels, self.chunk)
        if self.tile_norm is not None:
            return chunk / self.tile_norm**2 / 12
        return largest_square(chunk) / self.tiles**2 / 12

    def filter_error(self, channels: int) -> float:
        """The same for U, whose step fits all of its chunks."""
        by_size = largest_square(channels) / self.filters**2
        if self.filter_norm is None:
            return by_size / 12
        chunk, count = min(channels, self.chunk), math.ceil(channels / self.chunk)
        # The square of a norm is nearly normal, with a variance of twice its mean.
        square = chunk + math.sqrt(2 * chunk) * largest(count)
        return max(by_size, square / self.filter_norm**2) / 12


def _norm(values: np.ndarray) -> np.ndarray:
    return np.sqrt((np.asarray(values, np.float64) ** 2).sum(0))


def _scaled(values: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    safe = np.where(steps > 0, steps, 1.0)
    return np.rint(np.asarray(values, np.float64) / safe), safe


QUANTISED = {
    # 32760 * 65540 < 2^31, with room for the roundings of 32 numbers.
    "int16": Quantised(32, tiles=32767, filters=32767, tile_norm=32760, filter_norm=65540),
    "int8": Quantised(64, tiles=127, filters=127),
}

_STEP = 1 / 200
_GRID = np.arange(-8.0, 8.0 + _STEP / 2, _STEP) + _STEP / 2  # middles of steps


@lru_cache(maxsize=1024)
def largest(count: int) -> float:
    """The expected largest of so many independent normal numbers.

    >>> largest(1) == 0, round(largest(2), 3), round(largest(100), 2)
    (True, 0.564, 2.51)
    """
    if count == 1:
        return 0.0
    below = _normal_below() ** count
    # E[x] = integral of (1 - F) above 0 minus integral of F below 0.
    return float(np.where(_GRID > 0, 1 - below, -below).sum() * _STEP)


@lru_cache(maxsize=1024)
def largest_square(count: int) -> float:
    """The expected largest square of so many independent normal numbers.

    >>> round(largest_square(1), 3), round(largest_square(32), 2)
    (1.0, 5.71)
    """
    sizes = _GRID[_GRID >= 0]
    within = (2 * _normal_below()[_GRID >= 0] - 1) ** count
    return float((2 * sizes * (1 - within)).sum() * _STEP)


@lru_cache(maxsize=1)
def _normal_below() -> np.ndarray:
    return np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in _GRID])
