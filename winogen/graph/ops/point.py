"""A factor, a shift and a ReLU per channel as a step: what could not be fused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from winogen.graph.ops.base import Operator, Window


@dataclass(frozen=True, eq=False)
class Point(Operator):
    """y[c] = activation(scale[c] * x[c] + shift[c]); None for 1 and 0: a copy has neither."""

    is_of_samples = True
    kinds = ("point",)

    scale: np.ndarray | None = None  # (C,)
    shift: np.ndarray | None = None  # (C,)
    activation: str | None = None  # or "relu"

    def __str__(self) -> str:
        return self.activation or ("factor" if self.scale is not None else "copy")

    @property
    def weights(self) -> tuple[Any, Any] | None:
        return (self.scale, self.shift)

    @classmethod
    def of_layer(cls, kind: str, window: Window, layer: Any, activation: Any) -> Point:
        return cls(activation=activation)  # what it multiplies by comes with the call
