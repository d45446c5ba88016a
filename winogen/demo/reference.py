"""Convolution in float64 by numpy alone, sharing no code with what it checks."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

_BLOCK_BYTES = 8 << 20  # of the patch matrix; more would not stay in a cache


def convolve(x: np.ndarray, weight: np.ndarray, padding: int, mode: str = "zeros") -> np.ndarray:
    """Return the correlation of x (N, C, H, W) with weight (M, C, KH, KW) in float64.

    ``mode``: "zeros" or "replicate". Patches times filters, a few rows at a time.
    """
    sides = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    x = np.pad(x.astype(np.float64), sides, mode="constant" if mode == "zeros" else "edge")
    filters, _, kh, kw = weight.shape
    matrix = weight.astype(np.float64).reshape(filters, -1)
    height, width = x.shape[2] - kh + 1, x.shape[3] - kw + 1
    rows = max(1, _BLOCK_BYTES // (8 * matrix.shape[1] * width))
    y = np.empty((x.shape[0], filters, height, width))
    for image, result in zip(x, y):
        for top in range(0, height, rows):
            part = image[:, top : min(top + rows, height) + kh - 1]
            patches = sliding_window_view(part, (kh, kw), (1, 2))  # C, rows, W, KH, KW
            patches = patches.transpose(0, 3, 4, 1, 2).reshape(matrix.shape[1], -1)
            result[:, top : top + rows] = (matrix @ patches).reshape(filters, -1, width)
    return y
