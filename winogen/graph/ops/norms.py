"""Normalizations by the numbers of the map itself, and the softmax of channels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from winogen.graph.ops.base import (
    ActivationSpec,
    Misfit,
    Operator,
    Shape,
    Window,
    finite,
    pixel,
)
from winogen.graph.ops.numbers import Affine


class Norm(Operator):
    """y = scale * (x - mean) / sqrt(variance + epsilon) + shift, then an activation."""

    scale: np.ndarray | None
    shift: np.ndarray | None
    epsilon: float
    activation: str | None

    @property
    def weights(self) -> tuple[Any, Any] | None:
        return (self.scale, self.shift)

    def shape(self, shape: Shape) -> Shape:
        for array in self.parameters:
            if array.shape != (shape[1],):
                raise Misfit.shape(shape, f"{len(array)} channels")
        return shape

    def scaled(self, affine: Affine, alone: bool) -> Norm | None:
        if self.activation is not None:
            return None
        scale, shift = affine.exact
        with np.errstate(all="ignore"):
            if self.shift is not None:
                shift = self.shift * scale + shift
            if self.scale is not None:
                scale = self.scale * scale
            both = finite(affine.scale.dtype, scale, shift)
        changed: Any = self
        return None if both is None else replace(changed, scale=both[0], shift=both[1])

    def activated(self, activation: ActivationSpec) -> Norm | None:
        if self.activation is not None or activation not in ("relu", "silu"):
            return None
        changed: Any = self
        return replace(changed, activation=activation)

    @property
    def fields(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon}


@dataclass(frozen=True, eq=False)
class GroupNorm(Norm):
    """The channels of each group less their mean over all pixels, by their deviation.

    y = scale * (x - mean) / sqrt(variance + epsilon) + shift, None for 1 and 0.

    It may read a map of a single pixel besides, (N, C, 1, 1), which is added first.
    """

    inputs = range(1, 3)
    kinds = ("group_norm",)
    is_of_signals = True
    fuses_pixel = True

    groups: int
    scale: np.ndarray | None = None  # (C,)
    shift: np.ndarray | None = None  # (C,)
    epsilon: float = 1e-5
    activation: str | None = None  # or "relu" or "silu"
    needs: str = ""  # "image", "batch": values of a group there must be several, as in torch

    def __str__(self) -> str:
        text = f"group norm {self.groups}"
        return text + (f" + {self.activation}" if self.activation else "")

    def shape(self, shape: Shape) -> Shape:
        super().shape(shape)
        if shape[1] % self.groups:
            raise Misfit.shape(shape, f"a multiple of {self.groups} channels")
        if self.needs:
            images = shape[0] if self.needs == "batch" else 1
            if images * prod(shape[1:]) == self.groups:
                raise Misfit.shape(shape, "several values in a group")
        return shape

    def added(self, shape: Shape, other: Shape) -> Shape:
        return pixel(shape)

    @property
    def fields(self) -> dict[str, Any]:
        return {**super().fields, "groups": self.groups}

    @classmethod
    def of_layer(cls, kind: str, window: Window, layer: Any, activation: Any) -> GroupNorm:
        return cls(int(layer.groups), epsilon=layer.parameters[0], activation=activation)


@dataclass(frozen=True, eq=False)
class LayerNorm(Norm):
    """Each pixel's channels less their mean, by their deviation.

    y = scale * (x - mean) / sqrt(variance + epsilon) + shift, None for 1 and 0.
    """

    is_of_samples = True
    kinds = ("layer_norm",)

    scale: np.ndarray | None = None  # (C,)
    shift: np.ndarray | None = None  # (C,)
    epsilon: float = 1e-5
    activation: str | None = None  # or "relu" or "silu"

    def __str__(self) -> str:
        return "layer norm" + (f" + {self.activation}" if self.activation else "")

    @classmethod
    def of_layer(cls, kind: str, window: Window, layer: Any, activation: Any) -> LayerNorm:
        return cls(epsilon=layer.parameters[0], activation=activation)


@dataclass(frozen=True)
class Softmax(Operator):
    """exp(x) by its sum over all channels of a pixel."""

    is_of_samples = True
    kinds = ("softmax",)

    def __str__(self) -> str:
        return "softmax"
