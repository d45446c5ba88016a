"""Filters that image processing has used for decades, 3x3, 5x5 and 7x7, six of each.

All are given as correlation kernels, which is what `winogen.conv2d` computes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Filter:
    """A named kernel and how to look at its result.

    ``view`` is "picture" (brightness is kept: the weights sum to 1), "relief" (differences around
    mid grey) or "strength" (the absolute response on black).
    """

    name: str
    taps: np.ndarray  # (k, k), float64
    view: str


def banks() -> dict[int, list[Filter]]:
    """Return the filter banks: kernel size -> filters.

    >>> {size: len(bank) for size, bank in banks().items()}
    {3: 6, 5: 6, 7: 6}
    """
    return {3: _small(), 5: _medium(), 7: _large()}


def weights(bank: list[Filter]) -> np.ndarray:
    """Return a bank as convolution weights (M, 1, k, k), float32."""
    return np.stack([item.taps for item in bank])[:, None].astype(np.float32)


def _small() -> list[Filter]:
    sobel = np.outer([1, 2, 1], [-1, 0, 1]) / 4
    return [
        Filter("Gaussian", np.outer([1, 2, 1], [1, 2, 1]) / 16, "picture"),
        Filter("sharpen", np.array([[0, -1, 0], [-1, 5, -1], [0, -1, 0.0]]), "picture"),
        Filter("emboss", np.array([[-2, -1, 0], [-1, 0, 1], [0, 1, 2.0]]), "relief"),
        Filter("Sobel, vertical edges", sobel, "strength"),
        Filter("Sobel, horizontal edges", sobel.T, "strength"),
        Filter("Laplacian", np.array([[1, 1, 1], [1, -8, 1], [1, 1, 1.0]]) / 2, "strength"),
    ]


def _medium() -> list[Filter]:
    blur = gaussian(5, 1.2)
    delta = np.zeros((5, 5))
    delta[2, 2] = 1
    return [
        Filter("Gaussian", blur, "picture"),
        Filter("unsharp mask", 3 * delta - 2 * blur, "picture"),
        Filter("motion blur", np.fliplr(np.eye(5)) / 5, "picture"),
        Filter("emboss", np.sign(sum(_grid(5))) * 0.25, "relief"),
        Filter("derivative of Gaussian", derivative(5, 1.0), "strength"),
        Filter("Laplacian of Gaussian", laplacian(5, 0.9), "strength"),
    ]


def _large() -> list[Filter]:
    gabors = [
        Filter(f"Gabor, {degrees}°", gabor(7, degrees), "strength") for degrees in (0, 45, 90, 135)
    ]
    return [
        Filter("Gaussian", gaussian(7, 2.0), "picture"),
        *gabors,
        Filter("Laplacian of Gaussian", laplacian(7, 1.4), "strength"),
    ]


def gaussian(size: int, sigma: float) -> np.ndarray:
    """Return a sampled Gaussian of sum 1."""
    y, x = _grid(size)
    taps = np.exp(-(x**2 + y**2) / (2 * sigma**2))
    return taps / taps.sum()


def derivative(size: int, sigma: float) -> np.ndarray:
    """Return the derivative of a Gaussian along the diagonal; its weights sum to 0."""
    y, x = _grid(size)
    return _unit((x + y) * gaussian(size, sigma))


def laplacian(size: int, sigma: float) -> np.ndarray:
    """Return the Laplacian of a Gaussian (Marr and Hildreth 1980); its weights sum to 0."""
    y, x = _grid(size)
    taps = (x**2 + y**2 - 2 * sigma**2) * gaussian(size, sigma)
    return _unit(taps - taps.mean())


def gabor(size: int, degrees: float, wavelength: float = 4.0, sigma: float = 2.0) -> np.ndarray:
    """Return an odd Gabor filter (Daugman 1985): a sine across ``degrees`` under a Gaussian."""
    y, x = _grid(size)
    angle = math.radians(degrees)
    wave = np.sin(2 * math.pi / wavelength * (x * math.cos(angle) + y * math.sin(angle)))
    return _unit(wave * gaussian(size, sigma))


def _grid(size: int) -> np.ndarray:
    half = size // 2
    return np.mgrid[-half : half + 1, -half : half + 1].astype(float)


def _unit(taps: np.ndarray) -> np.ndarray:
    """Scaled so that a black and white edge gives about 1."""
    return taps / np.abs(taps).sum() * 2
