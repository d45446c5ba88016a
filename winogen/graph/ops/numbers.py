"""Operators of single numbers: factors, activations, sums and products of maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from winogen.graph.ops.base import (
    ActivationSpec,
    Misfit,
    Operator,
    Shape,
    arrays_of,
    finite,
    name_of,
    pixel,
)
from winogen.graph.ops.convolutions import Conv
from winogen.graph.ops.point import Point


@dataclass(frozen=True, eq=False)
class Affine(Operator):
    """y[c] = scale[c] * x[c] + shift[c], per channel: a normalization at inference, or a factor."""

    is_of_samples = True
    is_of_signals = True

    scale: np.ndarray  # (C,)
    shift: np.ndarray  # (C,)

    @classmethod
    def batch_norm(cls, mean: Any, var: Any, weight: Any, bias: Any, eps: float) -> Affine:
        """Return the normalization by running statistics; ``weight`` and ``bias`` may be None."""
        kind = np.asarray(mean).dtype
        with np.errstate(all="ignore"):  # a variance of 0 makes infinite ones
            scale = 1 / np.sqrt(np.asarray(var, np.float64) + eps)
            if weight is not None:
                scale = scale * weight
            shift = -np.asarray(mean, np.float64) * scale
            if bias is not None:
                shift = shift + bias
            return cls(scale.astype(kind), shift.astype(kind))

    def __str__(self) -> str:
        return "affine"

    def shape(self, shape: Shape) -> Shape:
        if self.scale.shape != (shape[1],):
            raise Misfit.shape(shape, f"{len(self.scale)} channels")
        return shape

    @property
    def weights(self) -> tuple[Any, Any] | None:
        return (self.scale, self.shift)

    @property
    def is_elementwise(self) -> bool:
        return not any(map(np.ptp, (self.scale, self.shift)))

    @property
    def exact(self) -> tuple[np.ndarray, np.ndarray]:
        """The scale and the shift in float64."""
        return self.scale.astype(np.float64), self.shift.astype(np.float64)

    def scaled(self, affine: Affine, alone: bool) -> Affine | None:
        scale, shift = affine.exact
        with np.errstate(all="ignore"):
            kind = affine.scale.dtype
            both = finite(kind, self.scale * scale, self.shift * scale + shift)
        return None if both is None else Affine(*both)

    def folded(self, before: Operator, alone: bool) -> Operator | None:
        return before.scaled(self, alone)

    @property
    def depthwise(self) -> Conv:
        """The same as a depthwise convolution 1x1."""
        weight = np.ascontiguousarray(self.scale)[:, None, None, None]
        return Conv(weight, self.shift if self.shift.any() else None, groups=len(self.scale))

    def step(self, shape: Shape, dtype: np.dtype, adds: bool, adds_after: bool) -> Operator:
        return Point(self.scale, self.shift)


@dataclass(frozen=True, eq=False)
class Activation(Operator):
    """A function of every number, as `conv2d` spells it."""

    is_of_samples = True
    is_of_signals = True

    activation: ActivationSpec

    def __str__(self) -> str:
        return name_of(self.activation)

    @property
    def is_elementwise(self) -> bool:
        return not self.parameters

    def fused(self, before: Operator) -> Operator | None:
        return before.activated(self.activation)

    @property
    def parameters(self) -> list[Any]:
        return list(arrays_of(self.activation))

    def step(self, shape: Shape, dtype: np.dtype, adds: bool, adds_after: bool) -> Operator:
        if self.activation == "relu":
            return Point(activation="relu")
        return Conv.identity(shape, dtype, activation=self.activation)


@dataclass(frozen=True)
class Add(Operator):
    """The sum of two maps of one shape; ``repeated``: of a map and one of a single pixel."""

    inputs = range(2, 3)
    kinds = ("sum",)
    is_of_signals = True

    repeated: bool = False

    def __str__(self) -> str:
        return "add pixel" if self.repeated else "add"

    @property
    def is_elementwise(self) -> bool:
        return not self.repeated

    @property
    def of_pixel(self) -> Operator:
        return Add(repeated=True)

    def added(self, shape: Shape, other: Shape) -> Shape:
        return pixel(shape) if self.repeated else shape


@dataclass(frozen=True)
class Multiply(Operator):
    """The product of two maps of one shape, or of a map and one of a single pixel (N, C, 1, 1)."""

    inputs = range(2, 3)
    kinds = ("product",)
    is_elementwise = True
    is_of_signals = True

    def __str__(self) -> str:
        return "multiply"

    def added(self, shape: Shape, other: Shape) -> Shape:
        return other if tuple(other) == pixel(shape) else shape
