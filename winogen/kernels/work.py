"""One kernel call: its sizes, and how it is cut into blocks; or many at once.

Many calls that differ only in transforms and blocks can be evaluated together. Their transforms are
then a `Stack` with one row per call, and block, split and images are arrays. All that is computed
from them are arrays of (calls, cuts).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from winogen.records import Epilogue, Precision, Sizes, Strides, Target, Tuning

Pair = tuple[int, int]  # height, width


class Deep(NamedTuple):
    """What a kernel knows of the depth of volumes, whose planes are its images."""

    size: int
    outputs: int
    kernel: int
    stride: int
    dilation: int
    before: int  # the padding in front

    def planes(self, outputs: Any) -> Any:
        """Planes of input below so many of outputs: none between distant taps."""
        first = (outputs - 1) * self.stride + 1  # that one tap reads
        return first + (self.kernel - 1) * np.minimum(self.dilation, first)


class Spread(NamedTuple):
    """How the outputs of a transposed layer lie in their array: some phases of it are a call."""

    step: Pair  # rows and columns from one to the next
    # Where the phases of a plane are filters, see `winogen.conv.phases`; nothing where a call
    # computes a single phase.
    filters: int = 0  # of a phase and group, in whole vectors
    lanes: int = 0  # of these, those that exist
    crop: Pair = (0, 0)  # rows and columns before the first that is kept
    whole: Pair = (0, 0)  # rows and columns that are kept, of all phases


@dataclass(frozen=True)
class Stack:
    """The sizes of many transforms along one axis, as columns of arrays."""

    m: np.ndarray
    n: np.ndarray
    step: np.ndarray
    products: np.ndarray
    rows: np.ndarray
    reals: np.ndarray
    output_multiplies: np.ndarray
    instructions: tuple[np.ndarray, ...]
    joins: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, transforms: Sequence[Any]) -> Stack | None:
        """Return them stacked; None for algorithms without tiles."""
        if None in transforms:
            return None
        sizes = [
            (
                *(t.m, t.n, t.step, t.products, t.rows, t.reals, t.output_multiplies),
                *t.instructions,
                *t.joins,
            )
            for t in transforms
        ]
        m, n, step, products, rows, reals, mul, *rest = np.array(sizes).T[:, :, None]
        return cls(m, n, step, products, rows, reals, mul, tuple(rest[:3]), tuple(rest[3:]))


@dataclass(frozen=True)
class Work:
    """A kernel call, complete but for the machine; channels and filters belong to one group."""

    algorithm: str
    layout: str
    precision: Precision
    target: Target
    batch: int
    groups: int
    channels: int
    filters: int
    size: Pair  # of the input
    output_size: Pair  # of the whole output
    part: tuple[int, int, int, int]  # rows begin..end and columns begin..end of outputs to compute
    kernel: Pair
    stride: Pair
    dilation: Pair
    padding: Pair  # above and to the left
    padding_mode: str
    input: Strides
    output: Strides
    add: Strides  # of what the epilogue adds
    add_after: Strides
    transforms: tuple[Any, Any]  # along height and width: Transform, Stack, or None without tiles
    epilogue: Epilogue = Epilogue()
    border: str = "unswitch"
    threads: int = 1
    sizes: Sizes = ()  # of the tuning, that replace the variant's own
    variant: str = ""  # what computes it, once that is assigned (or asked for), and its sizes
    tuning: Tuning = Tuning("none")
    block: tuple[Any, Any] = (1, 1)  # tiles, or output pixels without tiles
    split: Any = 0  # whether the threads share every block
    images: Any = 1  # that share a block, if it is as large as the whole map
    parameters: Any = None  # of the variant itself; None: its usual ones
    # Where `kernel` leaves out taps that read nothing but padding: the whole filters, as they are
    # packed, and the first row and column of taps that is left.
    whole_kernel: Pair | None = None
    first: Pair = (0, 0)
    # Where the phases of a dilated layer count as images: the work as it was.
    phased: Work | None = None
    deep: Deep | None = None  # of volumes: `batch` counts the planes of all outputs
    spread: Spread | None = None  # of transposed layers, whose outputs lie apart
    merged: int = 1  # channels of each group of the layer, where a kernel takes all groups as one

    @property
    def together(self) -> int:
        """Steps of the product for which one load brings the numbers of a row."""
        form = self.precision.format
        by_lane = self.target.by_lane and (form.together == 1 or form.summing == "short")
        return self.lanes if by_lane else 1

    @property
    def lanes(self) -> int:
        """Numbers in one vector."""
        return self.precision.lanes(self.target.vector_bytes)

    @property
    def itemsize(self) -> int:
        """Bytes of one number that is computed with."""
        return self.precision.real.itemsize

    @property
    def terms(self) -> int:
        """Terms of a group's sum for each tap: channels, or words of neighbouring ones."""
        return int(blocks(self.channels, self.precision.format.together))

    @property
    def array_itemsize(self) -> int:
        """Bytes of one number of the input and the output."""
        return self.precision.itemsize

    @property
    def output_itemsize(self) -> int:
        """Bytes of one number of the output."""
        return self.array_itemsize

    @property
    def out(self) -> Pair:
        """Rows and columns of outputs to compute."""
        row_begin, row_end, col_begin, col_end = self.part
        return row_end - row_begin, col_end - col_begin

    @property
    def taps(self) -> int:
        """Taps of the kernel."""
        return self.kernel[0] * self.kernel[1] * self.deep_taps

    @property
    def deep_taps(self) -> int:
        """Taps along the depth; 1 where there is none."""
        return self.deep.kernel if self.deep else 1

    @property
    def filter_taps(self) -> int:
        """Taps of a whole filter, as it is packed."""
        height, width = self.whole_kernel or self.kernel
        return height * width * self.deep_taps

    @property
    def filter_row(self) -> int:
        """Taps of a row of a whole filter."""
        return (self.whole_kernel or self.kernel)[1]

    @property
    def first_tap(self) -> int:
        """The first tap of a filter that is computed with."""
        return self.first[0] * self.filter_row + self.first[1]

    @property
    def tiled(self) -> bool:
        """Whether there are tiles."""
        return self.transforms[1] is not None

    @property
    def depthwise(self) -> bool:
        """Whether every group has one channel and one filter."""
        return self.channels == 1 and self.filters == 1

    @property
    def pointwise(self) -> bool:
        """Whether every output sees just the pixel at its own place."""
        one, none = (1, 1), (0, 0)
        same = self.size == self.output_size
        alone = self.deep is None
        return (self.kernel, self.stride, self.padding) == (one, one, none) and same and alone

    @cached_property
    def grid(self) -> tuple:
        """Blocks along the height and the width."""
        tiles = (blocks(o, t.m) if t else o for o, t in zip(self.out, self.transforms))
        return tuple(blocks(count, size) for count, size in zip(tiles, self.block))

    @cached_property
    def items(self) -> Any:
        """Blocks of all images and groups."""
        high, wide = self.grid
        together = self.deep.outputs if self.deep else self.batch  # images that may share a block
        images = self.batch // max(1, together) * blocks(together, self.images)
        return images * self.groups * high * wide

    @property
    def input_numbers(self) -> int:
        """From the first number of the input to behind its last."""
        images = self.batch // self.deep.outputs if self.deep else self.batch
        return self.input.extent(images, *self.size, self.groups * self.channels)

    @property
    def input_bytes(self) -> int:
        """The image under the outputs to compute, all channels."""
        area = self.out[0] * self.stride[0] * self.out[1] * self.stride[1]
        return self.groups * self.channels * area * self.array_itemsize

    @property
    def output_bytes(self) -> int:
        """The outputs to compute of one image."""
        return self.groups * self.filters * self.out[0] * self.out[1] * self.array_itemsize

    @property
    def padded_filters(self) -> int:
        """Filters of a group in whole vectors."""
        return round_up(self.filters, self.lanes)

    @property
    def padded_channels(self) -> int:
        """Channels of a group in whole vectors."""
        return round_up(self.channels, self.lanes)


def joint_products(height: Any, width: Any) -> Any:
    """Products of a tile that is transformed so along both axes.

    Two real numbers have one, a pair along one axis has three and pairs along both have six: see
    `winogen.algebra.join`. Where nothing comes in pairs it is the product of both axes' own.
    """
    return (3 * height.rows * width.rows - height.reals * width.reals) // 2


def blocks(count: Any, size: Any) -> Any:
    """How many pieces of at most ``size`` make ``count``."""
    return -(-count // size)


def even(count: Any, most: Any) -> Any:
    """The size of pieces, none above ``most``, that make ``count`` as evenly as they can.

    >>> even(28, 9), even(15, 14)
    (7, 8)
    """
    return blocks(count, blocks(count, most))


def round_up(count: Any, size: Any) -> Any:
    """The least multiple of ``size`` that is no less than ``count``."""
    return blocks(count, size) * size
