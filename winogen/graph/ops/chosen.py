"""Operators that choose pixels of maps of codes: what is chosen means what it meant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from winogen.graph.ops.base import Shape, Sizes
from winogen.graph.ops.quantized import OfCodes


@dataclass(frozen=True, eq=False)
class Nearest(OfCodes):
    """Pixels chosen: for each row and column of the output that of the input."""

    kinds = ("nearest",)

    down: np.ndarray  # int32: the row of the input of each of the output
    across: np.ndarray  # and the column

    def shape(self, shape: Shape) -> Shape:
        return (*shape[:2], len(self.down), len(self.across))

    def codes(self, *given: Any) -> Any:
        return given[0]

    def computed(self, *arrays: np.ndarray) -> np.ndarray:
        return arrays[0][:, :, self.down[:, None], self.across]


@dataclass(frozen=True)
class Enlarge(OfCodes):
    """The nearest pixels as torch's `upsample_nearest2d` chooses them, whatever the map's size.

    By whole factors, or to a size.
    """

    kinds = ("nearest",)

    factor: Sizes = ()  # along height and width; (): what the size makes it
    size: Sizes = ()  # of the output; (): the factor times that of the input

    def shape(self, shape: Shape) -> Shape:
        return (*shape[:2], *(self.size or (n * f for n, f in zip(shape[2:], self.factor))))

    def codes(self, *given: Any) -> Any:
        return given[0]

    def step(self, shape: Shape, dtype: Any, adds: bool, adds_after: bool) -> Nearest:
        made = self.shape(shape)
        steps = [
            np.float32(1 / self.factor[axis] if self.factor else np.float32(n) / np.float32(count))
            for axis, (n, count) in enumerate(zip(shape[2:], made[2:]))
        ]
        # Products are those of float32: where it rounds up, torch takes the next pixel, too.
        places = (
            np.minimum(np.floor(np.arange(count, dtype=np.float32) * step), n - 1)
            for n, count, step in zip(shape[2:], made[2:], steps)
        )
        down, across = (one.astype(np.int32) for one in places)
        return Nearest(down, across)

    def computed(self, *arrays: np.ndarray) -> np.ndarray:
        (x,) = arrays
        return self.step(x.shape, x.dtype, False, False).computed(x)
