"""A whole layer in narrow numbers, in numpy: what no kernel computes can still be judged.

Numbers are rounded where `winogen.rounding.stages.Stages` says; between that it is float32, whose
own roundings are much smaller and in another order than in a kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from winogen.conv import conv2d
from winogen.rounding.stages import Stages
from winogen.rounding.tiles import refuse_quantised


class EmulatedConv2d:
    """A convolution of stride 1 in the number formats of ``stages``.

    ``weight`` (M, C, KH, KW), ``bias`` (M,) or None, ``padding`` (above and below, left and right).
    ``transform`` is F(m, r) along both axes, for a kernel of r x r, with ``matrices`` as a
    `Transform` has them; None is direct convolution. Raises InvalidValue where products of
    integers are asked for without a transform.

    >>> from winogen.codegen import transforms
    >>> from winogen.records import Precision
    >>> stages = Stages.of(precision=Precision.of("float32", "float16"), filters="float64")
    >>> x, w = np.ones((1, 3, 8, 8), np.float32), np.full((2, 3, 3, 3), 0.1, np.float32)
    >>> y = EmulatedConv2d(w, transform=transforms.load(2, 3), stages=stages)(x)
    >>> y.shape, bool(1e-5 < np.abs(y - 2.7).max() < 1e-2)
    ((1, 2, 6, 6), True)
    """

    def __init__(
        self,
        weight: np.ndarray,
        bias: np.ndarray | None = None,
        padding: tuple[int, int] = (0, 0),
        transform: Any = None,
        *,
        stages: Stages,
    ):
        self._stages, self._padding, self._transform = stages, padding, transform
        self._bias = None if bias is None else bias.astype(np.float32)
        if transform is None:
            refuse_quantised(stages)
            self._packed = stages.packed.round(weight).astype(np.float32)
            return
        matrices = {kind: _floats(rows) for kind, rows in transform.matrices.items()}
        g = matrices["filter"]
        u = np.einsum("ai,mcij,bj->abcm", g, weight.astype(np.float64), g)
        u = stages.packed.round(u)
        self._packed = u.reshape(-1, *u.shape[2:])  # positions, C, M
        self._input, self._output = (matrices[k].astype(np.float32) for k in ("input", "output"))
        if stages.quantised:
            integers, self._steps = stages.quantised.scaled_filters(self._packed.swapaxes(0, 1))
            self._integers = integers.swapaxes(0, 1)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the outputs (N, M, OH, OW), float32, of inputs (N, C, H, W)."""
        stages = self._stages
        x = stages.arrays.round(x).astype(np.float32)
        if self._transform is None:
            tiles = stages.tiles.round(x).astype(np.float32)
            y = conv2d(tiles, self._packed, padding=self._padding, algorithm="direct")
        else:
            y = np.stack([self._tiled(image) for image in x])
        if self._bias is not None:
            y = y + self._bias[:, None, None]
        return stages.arrays.round(y).astype(np.float32)

    def _tiled(self, image: np.ndarray) -> np.ndarray:
        m, r = self._transform.m, self._transform.r
        n, (channels, *size) = m + r - 1, image.shape
        outputs = [s + 2 * p - r + 1 for s, p in zip(size, self._padding)]
        down, across = (-(-count // m) for count in outputs)
        padded = np.zeros((channels, down * m + r - 1, across * m + r - 1), np.float32)
        top, left = self._padding
        padded[:, top : top + size[0], left : left + size[1]] = image
        windows = np.lib.stride_tricks.sliding_window_view(padded, (n, n), (1, 2))[:, ::m, ::m]
        v = np.einsum("ai,cpqij->acpqj", self._input, windows, optimize=True)
        v = np.einsum("bj,acpqj->abcpq", self._input, v, optimize=True)
        v = self._stages.tiles.round(v).reshape(len(self._packed), channels, down * across)
        sums = self._products(v).reshape(*(len(self._input),) * 2, -1, down, across)
        y = np.einsum("ia,abmpq->ibmpq", self._output, sums, optimize=True)
        y = np.einsum("jb,ibmpq->mpiqj", self._output, y, optimize=True)
        return y.reshape(-1, down * m, across * m)[:, : outputs[0], : outputs[1]]

    def _products(self, v: np.ndarray) -> np.ndarray:
        """Sums over channels (positions, M, tiles) of tiles (positions, C, tiles), in float32."""
        quantised = self._stages.quantised
        if quantised is None:
            u = self._packed.astype(np.float32).swapaxes(1, 2)
            return u @ v.astype(np.float32)
        total = np.zeros((), np.float32)
        for some in quantised.chunks(v.shape[1]):
            tiles, step = quantised.scaled_tiles(v[:, some].swapaxes(0, 1))
            exact = self._integers[:, some].swapaxes(1, 2) @ tiles.swapaxes(0, 1)
            scale = (self._steps[:, :, None] * step[:, None, :]).astype(np.float32)
            total = total + exact.astype(np.float32) * scale
        return total


def _floats(rows: Any) -> np.ndarray:
    return np.array([[float(c) for c in row] for row in rows])
