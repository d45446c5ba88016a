"""Operators between codes and what is none: numbers, sums, and the codes of a caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from winogen.graph.ops.quantized import After, Codes, OfCodes


@dataclass(frozen=True)
class Quantize(OfCodes):
    """Numbers as codes."""

    kinds = ("quantize",)

    after: After

    def computed(self, *arrays: np.ndarray) -> np.ndarray:
        return self.after.of(arrays[0] / np.float32(self.after.codes.scale))


@dataclass(frozen=True)
class Dequantize(OfCodes):
    """Codes as numbers."""

    kinds = ("dequantize",)

    x: Codes

    def codes(self, *given: Any) -> Codes | None:
        return None

    def computed(self, *arrays: np.ndarray) -> np.ndarray:
        steps = (arrays[0].astype(np.int32) - self.x.zero).astype(np.float32)
        return np.float32(self.x.scale) * steps


@dataclass(frozen=True)
class Recast(OfCodes):
    """Codes of a caller, int8 or uint8, as int8; or back, where they are ``given`` to one.

    ``planar``: the caller's channels come first in memory, where such codes run as a segment.
    """

    kinds = ("take", "give")

    dtype: str  # of the caller
    given: bool = False
    planar: bool = False

    @property
    def kind(self) -> str:
        return self.kinds[self.given]

    @property
    def flip(self) -> int:
        """Which bits change."""
        return 128 if self.dtype == "uint8" else 0

    def codes(self, *given: Any) -> Any:
        return given[0] or Codes(1.0, 0)

    def computed(self, *arrays: np.ndarray) -> np.ndarray:
        return (arrays[0].view(np.uint8) ^ self.flip).view(self.dtype if self.given else np.int8)


@dataclass(frozen=True, eq=False)
class ScaleSums(OfCodes):
    """Sums of a `QConv` as numbers: times the scale of each filter, and a bias of numbers."""

    kinds = ("scale_sums",)

    scale: np.ndarray  # (M,), float32: x_scale * w_scale
    bias: np.ndarray  # (M,), float32

    def codes(self, *given: Any) -> Codes | None:
        return None

    def computed(self, *arrays: np.ndarray) -> np.ndarray:
        scale, bias = (one.reshape(-1, 1, 1) for one in (self.scale, self.bias))
        return arrays[0].astype(np.float32) * scale + bias
