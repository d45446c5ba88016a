"""Factors for the inputs that a layer really gets: numpy in float64, image by image.

Images are arrays (N, C, H, W). Each stage pads its own axis only, as the two layers do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from winogen.conv.problem import Layer
from winogen.lowrank.form import Form

# Pixels of an image that sums are made of: all of a small one, and evenly so many of a large one.
MOST_PIXELS = 1 << 14
# What may be added to the diagonal of squares, as a part of its mean: weights that the samples
# hardly determine stay as they are. Which one is decided by pixels that were not fitted to.
RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 10.0, np.inf)  # the last: nothing changes
_MODES = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def covariance(form: Form, layer: Layer, images: Iterable[np.ndarray]) -> np.ndarray:
    """Return Σ x xᵀ over all that stage 1 sees of images: (groups, n, n), n = channels · taps."""
    size = form.channels * form.taps[0]
    total = np.zeros((form.groups, size, size))
    for image in _each(images):
        seen = _some(_windows(form, layer, 0, image))
        total += seen.swapaxes(1, 2) @ seen
    return total


def stage_one(form: Form, layer: Layer, left: np.ndarray, image: np.ndarray) -> np.ndarray:
    """Return what stage 1 makes of an image (1, C, H, W), by factors (groups, n, R)."""
    seen = _windows(form, layer, 0, image)
    made = seen.reshape(form.groups, -1, seen.shape[-1]) @ left
    rank, (height, width) = left.shape[2], seen.shape[1:3]
    maps = made.swapaxes(1, 2).reshape(form.groups * rank, height, width)
    return maps[None]


def refit(
    form: Form,
    layer: Layer,
    left: np.ndarray,
    right: np.ndarray,
    pairs: Iterable[tuple[np.ndarray, np.ndarray]],
    shifts: bool = False,
    ridges: Sequence[float] = RIDGES,
) -> tuple[np.ndarray, np.ndarray]:
    """Return factors of stage 2 by least squares, (groups, R, taps · filters), and a bias (M,).

    ``left`` and ``right``: factors of both stages to begin with. ``pairs``: what goes into the
    layer, and what shall come out before bias and activation. ``shifts``: a bias may help; else it
    is zero. How much nearness to ``right`` counts beside the errors, one of ``ridges``, is
    decided by fits to the upper half of each image, which the lower one judges, and the other way
    round.
    """
    rank, taps = left.shape[2], form.taps[1]
    # In the order in which windows have them: maps, then taps.
    start = right.reshape(form.groups, rank * taps, form.filters)
    size = rank * taps + shifts
    halves = [_Sums(form.groups, size, form.filters), _Sums(form.groups, size, form.filters)]
    for inputs, outputs in pairs:
        for image, wanted in zip(_each([inputs]), _each([outputs])):
            maps = stage_one(form, layer, left, image)
            seen = _some(_windows(form, layer, 1, maps))
            goal = wanted.reshape(1, form.groups, form.filters, *wanted.shape[2:])
            rest = _some(goal[0].transpose(0, 2, 3, 1)) - seen @ start
            if shifts:
                seen = np.concatenate([seen, np.ones((*seen.shape[:2], 1))], axis=2)
            middle = seen.shape[1] // 2
            for sums, part in zip(halves, (slice(None, middle), slice(middle, None))):
                sums.add(seen[:, part], rest[:, part])
    one, other = halves
    weights = rank * taps
    errors = [
        one.error(other.solution(ridge, weights)) + other.error(one.solution(ridge, weights))
        for ridge in ridges
    ]
    best = ridges[int(np.argmin(errors))]
    change = (one + other).solution(best, weights)
    factors = start + change[:, :weights]
    bias = change[:, -1].reshape(-1) if shifts else np.zeros(form.groups * form.filters)
    return factors.reshape(right.shape), bias


class _Sums:
    """The normal equations of least squares, group by group.

    While there are fewer pixels than unknowns, they are kept themselves: a system of as many
    equations as pixels has the same solution.
    """

    def __init__(self, groups: int, size: int, filters: int):
        self._seen, self._wanted = np.zeros((groups, 0, size)), np.zeros((groups, 0, filters))
        self._squares: np.ndarray | None = None
        self._products = np.zeros((groups, size, filters))

    def __add__(self, other: _Sums) -> _Sums:
        made = _Sums(len(self._products), *self._products.shape[1:])
        for part in (self, other):
            if part._squares is None:
                made.add(part._seen, part._wanted)
        for part in (self, other):
            if part._squares is not None:
                made._join(part._squares, part._products)
        return made

    def add(self, seen: np.ndarray, wanted: np.ndarray) -> None:
        """Add pixels, (groups, pixels, size) and (groups, pixels, filters)."""
        if self._squares is None and self._seen.shape[1] + seen.shape[1] <= seen.shape[2]:
            self._seen = np.concatenate([self._seen, seen], axis=1)
            self._wanted = np.concatenate([self._wanted, wanted], axis=1)
            return
        self._join(seen.swapaxes(1, 2) @ seen, seen.swapaxes(1, 2) @ wanted)

    def _join(self, squares: np.ndarray, products: np.ndarray) -> None:
        """Add squares and products; those of the pixels that were kept come first."""
        if self._squares is None:
            kept, self._squares = self._seen, np.zeros_like(squares)
            self._join(kept.swapaxes(1, 2) @ kept, kept.swapaxes(1, 2) @ self._wanted)
        self._squares = self._squares + squares
        self._products = self._products + products

    def solution(self, ridge: float, weights: int) -> np.ndarray:
        """Return what errs least; the first ``weights`` rows shall also be small."""
        if ridge == np.inf or (self._squares is None and not self._seen.size):
            return np.zeros_like(self._products)
        if self._squares is None:
            return self._of_pixels(ridge, weights)
        squares, diagonal = self._squares.copy(), np.arange(weights)
        squares[:, diagonal, diagonal] += _strength(squares[:, diagonal, diagonal], ridge)
        return np.linalg.solve(squares, self._products)

    def _of_pixels(self, ridge: float, weights: int) -> np.ndarray:
        """What `solution` returns, by what is seen of each pixel: a bias makes all means 0."""
        seen, wanted = self._seen[:, :, :weights], self._wanted
        strength = _strength((seen**2).sum(axis=1), ridge)
        if weights == self._seen.shape[2]:
            return _nearest(seen, wanted, strength)
        middle, level = seen.mean(axis=1, keepdims=True), wanted.mean(axis=1, keepdims=True)
        change = _nearest(seen - middle, wanted - level, strength)
        return np.concatenate([change, level - middle @ change], axis=1)

    def error(self, change: np.ndarray) -> float:
        """Return how much more a change errs than none does, as a sum of squares."""
        if self._squares is None:
            made = self._seen @ change
            return float(np.sum(made * (made - 2 * self._wanted)))
        return float(np.sum(change * (self._squares @ change - 2 * self._products)))


def _strength(diagonal: np.ndarray, ridge: float) -> np.ndarray:
    """What is added to the diagonal, (groups, 1)."""
    mean = diagonal.mean(axis=1, keepdims=True)
    return np.where(mean > 0, ridge * mean, 1.0)


def _nearest(seen: np.ndarray, wanted: np.ndarray, strength: np.ndarray) -> np.ndarray:
    """Return x of the least |seen x - wanted|² + strength |x|²: seenᵀ (seen seenᵀ + strength)⁻¹."""
    squares = seen @ seen.swapaxes(1, 2) + strength[:, :, None] * np.eye(seen.shape[1])
    return seen.swapaxes(1, 2) @ np.linalg.solve(squares, wanted)


def _each(images: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """The images one by one, (1, C, H, W), float64."""
    for batch in images:
        for image in batch:
            yield np.asarray(image, np.float64)[None]


def _windows(form: Form, layer: Layer, stage: int, image: np.ndarray) -> np.ndarray:
    """What a stage sees of an image (1, C, H, W): (groups, rows, columns, channels · taps)."""
    along = 0 if (form.first == "columns") == (stage == 0) else 1
    axis = layer.axes[along]
    ends = [(0, 0), (0, 0), (0, 0), (0, 0)]
    ends[2 + along] = axis.before, axis.after
    padded = np.pad(image, ends, _MODES[layer.padding_mode])  # type: ignore[call-overload]
    views = np.lib.stride_tricks.sliding_window_view(padded[0], axis.reach, axis=1 + along)
    steps = [slice(None)] * 4
    steps[1 + along], steps[3] = slice(None, None, axis.stride), slice(None, None, axis.dilation)
    views = views[tuple(steps)]
    count, height, width, taps = views.shape
    grouped = views.reshape(form.groups, count // form.groups, height, width, taps)
    return grouped.transpose(0, 2, 3, 1, 4).reshape(form.groups, height, width, -1)


def _some(values: np.ndarray) -> np.ndarray:
    """Pixels of (groups, rows, columns, n), `MOST_PIXELS` at most: (groups, pixels, n)."""
    groups, height, width, size = values.shape
    step = -(-height * width // MOST_PIXELS)
    return values.reshape(groups, height * width, size)[:, ::step]
