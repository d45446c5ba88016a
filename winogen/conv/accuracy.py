"""The error that a way of computing a convolution is expected to have."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from winogen.conv.choice import Choice, axes
from winogen.conv.problem import Layer
from winogen.kernels import general, summation
from winogen.records import Precision, Target

if TYPE_CHECKING:
    from winogen.rounding.variance import Estimate

_Facts: TypeAlias = "tuple[Precision, int, tuple[Any, Any], int, tuple[tuple[str, int], ...]]"


def predicted_error(layer: Layer, choice: Choice, target: Target) -> float:
    """Return the expected max |y - y_exact| / max |y_exact| on normal data.

    The estimate sums the variances that rounding adds at every stage, for the worst output of a
    tile. It holds for layers of any size: with more outputs the largest error grows, and so does
    the largest output.

    >>> from winogen.records import TARGETS
    >>> layer = Layer.of((64, 64, 3, 3), "float32")
    >>> predicted_error(layer, Choice("direct"), TARGETS["avx2"]) < 1e-6
    True
    """
    return _predicted(_facts(layer, choice, target))


def norm_error(layer: Layer, choice: Choice, target: Target) -> float:
    """Return the expected |y - y_exact| / |y_exact|, L2 norms, on normal data.

    All outputs of a tile count here, not the worst alone. Those of large tiles differ by factors.
    """
    return _estimated(_facts(layer, choice, target)).relative_l2


def sum_error(precision: Precision, terms: int, block: int) -> float:
    """Return the same of sums of so many ``terms``, of which a ``block`` is added at a time."""
    return _predicted((precision, terms, (None, None), 1, (("block", block),)))


# What an earlier process predicted of the same; the oldest go first.
_recalled: dict[_Facts, float] = {}
_RECALLED = 1 << 14


def recall_error(layer: Layer, choice: Choice, target: Target, error: float) -> None:
    """Have `predicted_error` of these return what it returned in an earlier process."""
    while len(_recalled) >= _RECALLED:
        _recalled.pop(next(iter(_recalled)), None)
    _recalled[_facts(layer, choice, target)] = error


def _facts(layer: Layer, choice: Choice, target: Target) -> _Facts:
    """All that an error follows from; channels are those of one group."""
    precision = (choice.precision or Precision.of(layer.dtype)).floating
    channels, algorithm = layer.channels // layer.groups, choice.algorithm
    summed = summation(algorithm, target, channels, precision, choice.sizes)
    # Taps along axes that are not transformed are summed like channels.
    along = general(algorithm).transforms_along(layer.rank)
    taps = prod(taps for taps, transformed in zip(layer.kernel, along) if not transformed)
    return precision, channels, axes(layer, choice), taps, tuple(summed.items())


@lru_cache(maxsize=4096)
def _predicted(facts: _Facts) -> float:
    known = _recalled.get(facts)
    return _estimated(facts).relative_max if known is None else known


@lru_cache(maxsize=4096)
def _estimated(facts: _Facts) -> Estimate:
    from winogen.rounding.tiles import Direct
    from winogen.rounding.variance import estimate

    precision, channels, transforms, taps, summed = facts
    options: dict[str, Any] = dict(
        precision=precision, distribution="normal", fused=True, order="naive", filters="float64"
    )
    options |= dict(summed)
    along_w = transforms[1]
    if along_w is None:
        terms = channels * taps
        return estimate(Direct(1, terms), dims=1, channels=1, **options)
    options["order"] = along_w.order
    options["block"] *= taps
    return estimate(transforms, channels=channels * taps, **options)


@lru_cache(maxsize=1024)
def direct_error(dtype: str, terms: int) -> float:
    """Return the same for direct convolution that sums all ``terms`` of an output in one chain.

    Frameworks do about this on CPUs, some with a few partial sums.
    """
    from winogen.rounding.tiles import Direct
    from winogen.rounding.variance import estimate

    options: dict[str, Any] = dict(dtype=dtype, distribution="normal", fused=True, order="naive")
    return estimate(Direct(1, terms), dims=1, channels=1, block=None, **options).worst_l2
