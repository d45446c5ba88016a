"""One kernel call with its blocking, and the exact memory that it works in; or many at once.

The sizes mirror `lay_out` in the templates of ``csrc/``; they are known before anything is compiled,
so that plans can be compared and refused by their workspace.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from winogen.codegen import kernels
from winogen.codegen.targets import Target
from winogen.codegen.transforms import Transform

_LINE = 64  # every array of a workspace begins at a cache line
_POINTER = 8


@dataclass(frozen=True)
class Stack:
    """The sizes of many `Transform`s along one axis, as columns of arrays."""

    m: np.ndarray
    n: np.ndarray
    products: np.ndarray
    output_multiplies: np.ndarray
    instructions: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, transforms: tuple[Transform | None, ...]) -> Stack | None:
        """Return them stacked; None for those of algorithms without tiles."""
        if None in transforms:
            return None
        sizes = [(t.m, t.n, t.products, t.output_multiplies, *t.instructions) for t in transforms]
        m, n, products, multiplies, *instructions = np.array(sizes).T[:, :, None]
        return cls(m, n, products, multiplies, tuple(instructions))


@dataclass(frozen=True)
class Work:
    """A kernel call: sizes of one group, the outputs to compute, and how they are cut into blocks.

    Many calls that differ in transforms and blocks only may be looked at together: their
    transforms are then a `Stack`, one row per call, blocks and split are arrays that fit, and so
    is all that follows from them.
    """

    algorithm: str
    layout: str
    itemsize: int
    batch: int
    groups: int
    channels: int  # of one group, as are the filters
    filters: int
    out: tuple[int, int]  # outputs to compute, height and width
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    transforms: tuple[Any, Any]  # along height and width: Transform, Stack, or None without tiles
    border: str
    block: tuple[Any, Any]  # tiles, or output pixels without tiles
    split: Any
    threads: int
    in_row: bool = False  # pixels do not see each other: they form one row
    images: Any = 1  # that share a block, if it is as large as the whole map

    def lanes(self, target: Target) -> int:
        """Numbers in one vector."""
        return target.vector_bytes // self.itemsize

    @property
    def tiled(self) -> bool:
        """Whether this is a Winograd algorithm."""
        return self.transforms[1] is not None

    @property
    def taps(self) -> int:
        """Taps that the product sums over, besides the channels."""
        if self.algorithm == "winograd1d":
            return self.kernel[0]
        return 1 if self.tiled else self.kernel[0] * self.kernel[1]

    @cached_property
    def items(self):
        """Blocks of all images and groups."""
        tiles = (blocks(o, t.m) if t else o for o, t in zip(self.out, self.transforms))
        high, wide = (blocks(count, size) for count, size in zip(tiles, self.block))
        groups = 1 if self.depthwise and self.algorithm == "winograd2d" else self.groups
        return blocks(self.batch, self.images) * groups * high * wide

    @property
    def input_bytes(self) -> int:
        """The image under the outputs to compute, all channels."""
        area = self.out[0] * self.stride[0] * self.out[1] * self.stride[1]
        return self.groups * self.channels * area * self.itemsize

    @property
    def output_bytes(self) -> int:
        """The outputs to compute of one image."""
        return self.groups * self.filters * self.out[0] * self.out[1] * self.itemsize

    @property
    def depthwise(self) -> bool:
        """Whether every group has one channel and one filter."""
        return self.channels == 1 and self.filters == 1

    @property
    def few_channels(self) -> bool:
        """Whether neighbouring tiles fill the lanes of `winograd2d`, in NHWC then filters."""
        few = kernels.has_few_channels(self.channels, self.filters)
        return self.algorithm == "winograd2d" and few

    @cached_property
    def strip(self) -> tuple:
        """Rows and columns of padded input that a block reads."""
        rows, cols = self.block
        if self.tiled:
            h, w = self.transforms
            lines = rows + self.kernel[0] - 1 if self.algorithm == "winograd1d" else rows
            return lines * h.m + h.n - h.m, cols * w.m + w.n - w.m
        return tuple(
            (count - 1) * s + (k - 1) * d + 1
            for count, s, k, d in zip(self.block, self.stride, self.kernel, self.dilation)
        )

    def narrow(self, target: Target) -> str:
        """What fills the lanes of `direct` where filters do not: "pixels", "groups" or ""."""
        if self.algorithm != "direct":
            return ""
        if self.layout == "NHWC":
            return "groups" if self.depthwise else ""
        few = self.filters <= self.lanes(target) // 2
        return "pixels" if few or (self.taps > 1 and self.channels * self.taps <= 64) else ""

    def in_planes(self, target: Target) -> bool:
        """Whether `direct` reads and writes planes in place: `in_planes` in csrc/planes.h.j2."""
        planes = self.algorithm == "direct" and self.layout == "NCHW" and self.in_row
        if not planes or self.narrow(target):
            return False
        lanes = self.lanes(target)
        return blocks(self.out[1], lanes) * lanes * 19 <= self.out[1] * 20

    @property
    def usual_depthwise(self) -> bool:
        """Whether this is a depthwise kernel of a size that has code of its own."""
        usual = self.kernel in ((3, 3), (5, 5)) and self.dilation == (1, 1)
        stride = self.stride[0] if self.layout == "NCHW" else self.stride[1]
        return self.depthwise and usual and stride <= 2

    def workspace_bytes(self, target: Target):
        """Exactly what the kernel's workspace function returns."""
        if not self.tiled:
            return self._pixel_bytes(target) * self.threads
        own, shared = self._tile_bytes(target)
        return own * self.threads + shared * np.where(self.split, 1, self.threads)

    def _tile_bytes(self, target: Target) -> tuple:
        lanes, size = self.lanes(target), self.itemsize
        (h, w), (rows, cols) = self.transforms, self.block
        positions, tiles = h.products * w.products, rows * cols
        if self.few_channels:
            row = blocks(blocks(self.strip[1], w.m), lanes) * lanes * w.m
            plane = blocks(self.strip[0] * row, lanes) * lanes | lanes
            v = lanes * positions * self.channels * size
            strip = (self.channels * plane + 2 * lanes) * size
            if self.layout == "NCHW":
                wide = blocks(cols, lanes) * lanes * w.m
                return _lines([blocks(cols, lanes) * v, (2 * h.m * wide + lanes) * size, strip]), 0
            vectors = kernels.register_block(target, self.algorithm).vectors
            y = kernels.TILES * h.m * w.m * vectors * lanes * size
            return _lines([v, y, strip]), 0
        filters = blocks(self.filters, lanes) * lanes
        width = min(filters, kernels.BAND * lanes)
        in_rows, in_cols = self.strip
        own = [
            np.maximum(in_rows * in_cols, h.m * cols * w.m) * lanes * size,
            h.products * in_cols * lanes * size,
            in_rows * in_cols * _POINTER if self.border == "indirect" else 0,
        ]
        if self.algorithm == "winograd2d":
            own += [
                positions * tiles * lanes * size,
                positions * (tiles * filters + lanes) * size,
                tiles * 8,
            ]
            return _lines(own), 0
        lines = tiles + (self.kernel[0] - 1) * cols if self.algorithm == "winograd1d" else tiles
        own += [positions * (self.images * tiles * width + lanes) * size, lines * 8]
        channels = blocks(self.channels, lanes) * lanes
        return _lines(own), _lines([positions * (self.images * lines * channels + lanes) * size])

    def _pixel_bytes(self, target: Target):
        lanes, size = self.lanes(target), self.itemsize
        rows, vectors, _ = kernels.register_block(target, self.algorithm)
        groups_in_lanes = self.narrow(target) == "groups"
        channels = self.groups if groups_in_lanes else self.channels
        in_rows, in_cols = self.strip
        pixels = self.block[0] * self.block[1]
        columns = blocks(in_cols, self.stride[1])
        phase = columns * lanes if self.layout == "NHWC" else blocks(columns, lanes) * lanes
        plane = blocks(in_rows * phase * self.stride[1], lanes) * lanes | lanes
        planes = blocks(channels, lanes) if self.layout == "NHWC" else channels
        sums = pixels * vectors * lanes
        if self.algorithm == "direct" and self.layout == "NCHW":
            pitch = blocks(self.block[1], lanes) * lanes
            sums = np.maximum(sums, self.block[0] * rows * pitch)
        if self.in_planes(target):
            plane = lanes
        own = [(planes * plane + 2 * lanes) * size, sums * size, self.taps * 8]
        if self.algorithm == "im2col":
            own.append((pixels * blocks(channels, lanes) * lanes * self.taps + lanes) * size)
        return _lines(own)


def blocks(count, size):
    """How many pieces of at most ``size`` make ``count``."""
    return -(-count // size)


def _lines(arrays):
    return sum(blocks(count, _LINE) * _LINE for count in arrays)
