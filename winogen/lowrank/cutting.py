"""Where a layer is cut: its rank as asked for, the better order, and factors for inputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from winogen.conv import arguments, conv2d, flytes
from winogen.conv.problem import Layer
from winogen.errors import InvalidType, InvalidValue
from winogen.lowrank.factors import Factors, decompose, second_weight
from winogen.lowrank.fitting import covariance, refit
from winogen.lowrank.form import Form


@dataclass(frozen=True)
class Wanted:
    """How the rank of a layer is asked for: one of three."""

    rank: int | None = None
    compression: float | None = None
    error: float | None = None

    @classmethod
    def of(cls, rank: Any, compression: Any, error: Any, full: int) -> Wanted:
        """Return it checked; ``full``: the largest rank there is."""
        given = [n for n, v in zip(_WANTED, (rank, compression, error)) if v is not None]
        if len(given) != 1:
            raise InvalidValue(
                f"rank, compression, error: got {' and '.join(given) or 'none'}; allowed: one of "
                "them"
            )
        if rank is not None:
            allowed = f"a positive int up to {full}, the full rank"
            return cls(rank=arguments.whole("rank", rank, 1, allowed, full))
        if compression is not None:
            allowed = "a positive number"
            return cls(compression=arguments.positive("compression", compression, allowed))
        if isinstance(error, bool) or not isinstance(error, (int, float, np.floating, np.integer)):
            raise InvalidType(f"error: got {error!r}; allowed: a number from 0 up to 1")
        if not 0 <= error < 1:
            raise InvalidValue(f"error: got {error!r}; allowed: a number from 0 up to 1")
        return cls(error=float(error))

    def rank_of(self, factors: Factors) -> int:
        """Return the rank of factors."""
        form = factors.form
        if self.rank is not None:
            return min(self.rank, form.full_rank)
        if self.compression is not None:
            return form.rank(self.compression)
        assert self.error is not None
        return factors.rank(self.error)


_WANTED = ("rank", "compression", "error")


@dataclass(frozen=True)
class RankCut:
    """Factors cut off at a rank, in the type of the weights."""

    form: Form
    first: np.ndarray  # weights of stage 1, (groups · R, C/groups, KH, 1) or (…, 1, KW)
    second: np.ndarray  # weights of stage 2, (M, R, 1, KW) or (…, KH, 1)
    bias: np.ndarray | None
    residual: float


def best_cut(
    layer: Layer,
    forms: tuple[Form, ...],
    weight: np.ndarray,
    bias: np.ndarray | None,
    wanted: Wanted,
    images: np.ndarray | None,
) -> RankCut:
    """Return the cut with the fewest products, then with the lowest residual.

    ``images``: None, or inputs (N, C, H, W).
    """
    found = []
    for form in forms:
        seen = None if images is None else covariance(form, layer, [images])
        factors = decompose(form, weight, seen)
        rank = wanted.rank_of(factors)
        found.append((form.products(rank), factors.residual(rank), rank, factors))
    _, residual, rank, factors = min(found, key=lambda one: one[:2])
    form, left, right = factors.form, factors.left[:, :, :rank], factors.right[:, :rank]
    first, second = factors.stages(rank)
    if images is not None:
        right, _ = refit(form, layer, left, right, [(images, outputs_of(layer, weight, images))])
        second = second_weight(form, right)
    return RankCut(form, first.astype(weight.dtype), second.astype(weight.dtype), bias, residual)


def outputs_of(layer: Layer, weight: np.ndarray, images: np.ndarray) -> np.ndarray:
    """What the layer as it was makes of images (N, C, H, W), before bias and activation."""
    w = flytes.computed_with(weight)
    plain = replace(layer, layout="NCHW")
    height, width = plain.axes
    return conv2d(
        np.ascontiguousarray(images, w.dtype),
        w,
        stride=plain.stride,
        padding=((height.before, height.after), (width.before, width.after)),
        dilation=plain.dilation,
        groups=plain.groups,
        padding_mode=plain.padding_mode,
    )
