"""Factors for the inputs that a layer really gets: numpy in float64, image by image.

Images are arrays (N, C, H, W). Each stage pads its own axis only, as the two layers do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from winogen.conv.problem import Layer
from winogen.lowrank.form import Form

# Pixels of an image that sums are made of: all of a small one, and evenly so many of a large one.
MOST_PIXELS = 1 << 14
# What is added to the diagonal of squares, as a part of its mean: weights that the samples hardly
# determine stay as they are. On a picture that was not among the samples, a hundredth is 0.9 dB
# better than a millionth, with 2304 pixels for 144 weights of a filter, and no worse with more.
RIDGE = 1e-2
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
    ridge: float = RIDGE,
) -> tuple[np.ndarray, np.ndarray]:
    """Return factors of stage 2 by least squares, (groups, R, taps · filters), and a bias (M,).

    ``left`` and ``right``: factors of both stages to begin with. ``pairs``: what goes into the
    layer, and what shall come out before bias and activation. ``shifts``: a bias may help; else it
    is zero. ``ridge``: how much nearness to ``right`` counts, beside the errors.
    """
    rank, taps = left.shape[2], form.taps[1]
    # In the order in which windows have them: maps, then taps.
    start = right.reshape(form.groups, rank * taps, form.filters)
    size = rank * taps + shifts
    squares = np.zeros((form.groups, size, size))
    errors = np.zeros((form.groups, size, form.filters))
    for inputs, outputs in pairs:
        for image, wanted in zip(_each([inputs]), _each([outputs])):
            maps = stage_one(form, layer, left, image)
            seen = _some(_windows(form, layer, 1, maps))
            goal = wanted.reshape(1, form.groups, form.filters, *wanted.shape[2:])
            rest = _some(goal[0].transpose(0, 2, 3, 1)) - seen @ start
            if shifts:
                seen = np.concatenate([seen, np.ones((*seen.shape[:2], 1))], axis=2)
            squares += seen.swapaxes(1, 2) @ seen
            errors += seen.swapaxes(1, 2) @ rest
    diagonal = np.arange(rank * taps)
    mean = squares[:, diagonal, diagonal].mean(axis=1, keepdims=True)
    squares[:, diagonal, diagonal] += np.where(mean > 0, ridge * mean, 1.0)
    change = np.linalg.solve(squares, errors)
    factors = start + change[:, : rank * taps]
    bias = change[:, -1].reshape(-1) if shifts else np.zeros(form.groups * form.filters)
    return factors.reshape(right.shape), bias


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
