"""How a transposed layer becomes ordinary ones: by the phases of its stride.

Along an axis, tap k of input i adds to output s*i + d*k - p. So outputs that are s apart, a phase,
see the same taps: those with d*k = output + p modulo s. Each phase is an ordinary convolution of
stride 1 by these taps in reverse. Without dilation all phases of an axis see the same inputs but
for a shift by one, and can be one convolution with s times the filters, whose outputs are
interleaved, and cropped: `joined`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd, prod
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Phase:
    """Every s-th output along an axis, as an ordinary convolution of stride 1.

    >>> even, odd = phases(4, 2, 1, 1, 96)
    >>> even
    Phase(first=0, outputs=48, taps=(3, 1), dilation=1, before=1)
    >>> odd.taps, odd.before
    ((2, 0), 0)
    """

    first: int  # of its outputs
    outputs: int
    taps: tuple[int, ...]  # of the kernel, as they meet ascending inputs; none: outputs see nothing
    dilation: int
    before: int  # padding; below zero: inputs that no output sees


@dataclass(frozen=True)
class JoinedPhases:
    """All phases along an axis as one convolution: output s*i + c - crop is pixel i of phase c.

    >>> joined(4, 2, 1, 96)
    JoinedPhases(taps=2, before=1, crop=1, pixels=49)
    """

    taps: int  # of each phase; where there are fewer, with zeros
    before: int  # padding; below zero: inputs that no output sees
    crop: int  # outputs before the first
    pixels: int  # of each phase


def outputs(
    size: int, kernel: int, stride: int, dilation: int, ends: tuple[int, int], more: int = 0
) -> int:
    """Return the outputs of a transposed layer along an axis; ``more`` is its output padding."""
    return (size - 1) * stride - sum(ends) + dilation * (kernel - 1) + more + 1


def phases(kernel: int, stride: int, dilation: int, before: int, count: int) -> list[Phase]:
    """Return the phases of ``count`` outputs along an axis; ``before`` is the layer's padding."""
    found = []
    common = gcd(dilation, stride)
    for first in range(min(stride, count)):
        taps = [k for k in range(kernel) if (first + before - dilation * k) % stride == 0]
        apart = dilation // common if len(taps) > 1 else 1
        padding = 0
        if taps:
            padding = (len(taps) - 1) * apart - (first + before - dilation * taps[0]) // stride
        found.append(Phase(first, -(-(count - first) // stride), tuple(taps[::-1]), apart, padding))
    return found


def joined(kernel: int, stride: int, before: int, count: int) -> JoinedPhases:
    """Return all phases of an axis without dilation as one convolution."""
    taps, crop = -(-kernel // stride), before % stride
    return JoinedPhases(taps, taps - 1 - before // stride, crop, (count - 1 + crop) // stride + 1)


def ordinary(weight: np.ndarray, groups: int = 1) -> np.ndarray:
    """Return weights (C, M/groups, ...) of a transposed layer as (M, C/groups, ...), a view if
    there are no groups.
    """
    channels, filters, *kernel = weight.shape
    split = weight.reshape(groups, channels // groups, filters, *kernel)
    return split.swapaxes(1, 2).reshape(groups * filters, channels // groups, *kernel)


def phase_weight(weight: np.ndarray, taps: Sequence[Sequence[int]]) -> np.ndarray:
    """Return the filters of a phase, of `ordinary` ones; ``taps`` along each axis, some."""
    for axis, chosen in enumerate(taps, 2):
        weight = np.take(weight, chosen, axis)
    return np.ascontiguousarray(weight)


def joined_weight(
    weight: np.ndarray, stride: Sequence[int], groups: int = 1, filters: int | None = None
) -> np.ndarray:
    """Return the filters of all phases, of `ordinary` ones: those of a group's first phase first.

    ``stride`` along each axis; the last axis' phases change first. ``filters`` of each phase and
    group, with zeros at the end of what there are.

    >>> weight = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
    >>> joined_weight(weight, [2])[:, 0].tolist()
    [[2.0, 0.0], [3.0, 1.0]]
    """
    total, channels, *kernel = weight.shape
    own = total // groups
    few = [-(-k // s) for k, s in zip(kernel, stride)]
    made = np.zeros((groups, prod(stride), filters or own, channels, *few), weight.dtype)
    split = weight.reshape(groups, own, channels, *kernel)
    for number, residues in enumerate(product(*map(range, stride))):
        steps: tuple[Any, ...] = tuple(slice(c, None, s) for c, s in zip(residues, stride))
        part = split[(..., *steps)]
        room: Any = (slice(None), number, slice(own), slice(None), *map(slice, part.shape[3:]))
        made[room] = part
    return np.ascontiguousarray(np.flip(made, tuple(range(4, made.ndim)))).reshape(
        -1, channels, *few
    )
