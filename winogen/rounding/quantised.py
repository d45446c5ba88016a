"""Products of integers: how filters and tiles become integers, and what error that makes.

A transformed tile V is scaled per position and chunk of channels, so that its largest number there
is the largest integer. A transformed filter U is scaled per position, so that no chunk's sum of
products can overflow 32 bits. Within a chunk sums are exact; they are added up in float32.

One scale per position is what LoWino has (Li, Jia, Feng and Wang, ACM TACO 2024). Those of a chunk
depend on nothing but the chunk, so that blocks and threads do not change a bit of the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

_MEAN, _DEVIATION = math.sqrt(2 / math.pi), math.sqrt(1 - 2 / math.pi)  # of |x|, x normal


@dataclass(frozen=True)
class Quantised:
    """How floating-point numbers become the integers that are multiplied.

    >>> QUANTISED["int16"].filter_error(64) < QUANTISED["int8"].filter_error(64) < 0.01
    True
    """

    chunk: int  # channels whose products are summed exactly
    tiles: int  # the largest |integer| of V
    filters: int  # the largest |integer| of U
    most: float  # that the sum of |products| of a chunk may be before U is rounded

    def scaled_tiles(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return integers, as float64, and steps of tiles (C, positions…): one per chunk.

        ``v`` is of one chunk, and so are the steps, without the first axis.
        """
        return _scaled(v, np.abs(v).max(0) / self.tiles)

    def filter_steps(self, u: np.ndarray) -> np.ndarray:
        """Return the step of each position of filters (C, positions…): one for all channels."""
        steps = np.abs(u).max(0) / self.filters
        for some in self.chunks(len(u)):
            steps = np.maximum(steps, np.abs(u[some]).sum(0) * (self.tiles / self.most))
        return steps

    def scaled_filters(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return integers, as float64, and steps of filters (C, positions…)."""
        return _scaled(u, self.filter_steps(u))

    def chunks(self, channels: int) -> Iterator[slice]:
        """Yield the channels of each chunk."""
        for first in range(0, channels, self.chunk):
            yield slice(first, min(first + self.chunk, channels))

    def tile_error(self, channels: int) -> float:
        """The variance of the error of V over that of V, for normal numbers.

        A number is off by at most half a step, evenly: step^2 / 12, with
        step = max |V| / largest integer.
        """
        return largest_square(min(channels, self.chunk)) / self.tiles**2 / 12

    def filter_error(self, channels: int) -> float:
        """The same for U, whose step fits all of its chunks."""
        chunk = min(channels, self.chunk)
        count = math.ceil(channels / self.chunk)
        # A chunk's sum of |U| is nearly normal.
        total = chunk * _MEAN + math.sqrt(chunk) * _DEVIATION * largest(count)
        by_sum = total * self.tiles / self.most
        by_size = math.sqrt(largest_square(channels)) / self.filters
        return max(by_sum, by_size) ** 2 / 12


def _scaled(values: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    safe = np.where(steps > 0, steps, 1.0)
    return np.rint(np.asarray(values, np.float64) / safe), safe


def _quantised(chunk: int, tiles: int, filters: int) -> Quantised:
    # Each of a chunk's filters may be rounded up by half a step.
    return Quantised(chunk, tiles, filters, 2**31 - 1 - chunk * tiles / 2)


QUANTISED = {
    "int16": _quantised(chunk=32, tiles=16383, filters=32767),
    "int8": _quantised(chunk=32, tiles=127, filters=127),
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
    # E[x] = integral of (1 - F) above 0 minus that of F below 0.
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
