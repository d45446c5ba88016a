"""The tiles and filters that are measured: drawn at random, or data of the user's own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from winogen.errors import InvalidType, InvalidValue
from winogen.rounding.data import Distribution
from winogen.rounding.formats import Format

_TRIALS = 5000  # where neither the caller nor the data say how many


class Samples:
    """Filters (C, r_h, r_w, T) and inputs (C, n_h, n_w, T), some of the T trials at a time."""

    def __init__(
        self,
        drawn_from: Distribution,
        weight_format: Format,
        input_format: Format,
        taps: tuple[int, int],
        tile: tuple[int, int],
        dims: int,
        *,
        weights: ArrayLike | None = None,
        inputs: ArrayLike | None = None,
        channels: int | None = None,
        trials: int | None = None,
    ):
        self._drawn_from = drawn_from
        self._weight_format, self._input_format = weight_format, input_format
        self._taps, self._tile = taps, tile
        self._weights = _own("weights", weights, taps, dims, weight_format)
        self._inputs = _own("inputs", inputs, tile, dims, input_format)
        arrays = {"weights": self._weights, "inputs": self._inputs}
        given_arrays = {name: array for name, array in arrays.items() if array is not None}
        counts = {name: array.shape[0] for name, array in given_arrays.items()}
        self.channels = _agreed("channels", channels, counts, 1)
        # One filter for many tiles is fine, and one tile for many filters.
        counts = {
            name: array.shape[3] for name, array in given_arrays.items() if array.shape[3] != 1
        }
        self.trials = _agreed("trials", trials, counts, 1 if len(given_arrays) == 2 else _TRIALS)

    def draw(
        self, rng: np.random.Generator, first: int, count: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return filters and inputs of the ``count`` trials from ``first`` on."""
        some = slice(first, first + count)
        shape = (self.channels, *self._taps, count)
        if self._weights is None:
            filters = self._drawn_from.filters(rng, shape, self._weight_format)
        else:
            filters = _spread(self._weights, some, count)
        shape = (self.channels, *self._tile, count)
        if self._inputs is None:
            return filters, self._drawn_from.inputs(rng, shape, self._input_format)
        return filters, _spread(self._inputs, some, count)

    def settings(self) -> dict[str, Any]:
        """What was measured, as plain data; of the user's own arrays the shapes."""
        arrays = {"inputs": self._inputs, "weights": self._weights}
        shapes = {
            name: None if array is None else [array.shape[3], *array.shape[:3]]
            for name, array in arrays.items()
        }
        drawn = "own data" if None not in shapes.values() else self._drawn_from.name
        return {
            **shapes,
            "channels": self.channels,
            "trials": self.trials,
            "distribution": drawn,
        }


def _spread(array: np.ndarray, some: slice, count: int) -> np.ndarray:
    if array.shape[3] == 1:
        return np.ascontiguousarray(np.broadcast_to(array, (*array.shape[:3], count)))
    return np.ascontiguousarray(array[..., some])


def _own(
    name: str, values: Any, size: tuple[int, int], dims: int, storage: Format
) -> np.ndarray | None:
    """The user's (T, C, height, width), in 1D (T, C, width), as (C, height, width, T)."""
    if values is None:
        return None
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise InvalidType(f"{name}: got dtype {array.dtype}; allowed: real numbers")
    along = size if dims == 2 else size[1:]
    if array.ndim != 2 + dims or array.shape[2:] != along or 0 in array.shape:
        axes = ", ".join(("trials", "channels", *map(str, along)))
        raise InvalidValue(f"{name}: got shape {array.shape}; allowed: ({axes})")
    if not np.isfinite(array).all():
        raise InvalidValue(f"{name}: got numbers that are not finite; allowed: finite numbers")
    array = array.reshape(*array.shape[:2], *size)
    stored = storage.round(array.transpose(1, 2, 3, 0))
    if not np.isfinite(stored).all():
        raise InvalidValue(
            f"{name}: got numbers of up to {np.abs(array).max():.3g}; allowed: at the most "
            f"{storage.largest:.3g}, as {storage} has"
        )
    return stored


def _agreed(name: str, asked: int | None, counts: dict[str, int], default: int) -> int:
    """The number that the caller asks for and the data have."""
    numbers = set(counts.values())
    if len(numbers) > 1:
        got = " and ".join(f"{count} in {array}" for array, count in counts.items())
        raise InvalidValue(f"{name}: got {got}; allowed: the same number")
    if not numbers:
        return default if asked is None else asked
    (count,) = numbers
    if asked not in (None, count):
        raise InvalidValue(
            f"{name}: got {asked}; allowed: {count}, as {' and '.join(counts)} have, or None"
        )
    return count
