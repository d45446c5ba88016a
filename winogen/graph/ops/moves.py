"""Operators that move numbers: concatenations, slices, padding, and pixels elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from winogen.graph.ops.base import (
    ANY_NUMBER,
    Misfit,
    Operator,
    Shape,
    Sizes,
    Window,
    by_axis,
    times,
)
from winogen.graph.ops.convolutions import Conv
from winogen.graph.ops.pools import some


@dataclass(frozen=True)
class Concat(Operator):
    """Maps one behind the other along the channels."""

    is_of_samples = True
    inputs = range(1, ANY_NUMBER)
    is_concat = True
    is_of_signals = True

    def __str__(self) -> str:
        return "concat"

    def channels_after(self, *channels: int) -> int:
        return sum(channels)

    def codes(self, *given: Any) -> Any:
        return given[0]

    def computed(self, *arrays: np.ndarray) -> np.ndarray:
        return np.concatenate(arrays, 1)

    def output(self, inputs: Sequence[Shape]) -> Shape:
        batch, _, *size = inputs[0]
        for other in inputs[1:]:
            if [other[0], *other[2:]] != [batch, *size]:
                raise Misfit.shape(other, f"{inputs[0]}, but for the channels")
        return (batch, sum(shape[1] for shape in inputs), *size)


@dataclass(frozen=True)
class Slice(Operator):
    """Channels from ``start`` to before ``stop``; costs nothing."""

    is_of_samples = True

    start: int
    stop: int

    def __str__(self) -> str:
        return f"channels {self.start}:{self.stop}"

    @property
    def view(self) -> tuple[int, int] | None:
        return (self.start, self.stop)

    def channels_after(self, *channels: int) -> int:
        return self.stop - self.start

    def shape(self, shape: Shape) -> Shape:
        if not 0 <= self.start < self.stop <= shape[1]:
            raise Misfit.shape(shape, f"at least {self.stop} channels")
        return (shape[0], self.stop - self.start, *shape[2:])


@dataclass(frozen=True)
class Pad(Operator):
    """Padding by itself: before and after each axis, in a mode of `conv2d`."""

    padding: Sizes  # top, bottom, left, right; of volumes front, back first
    mode: str = "zeros"

    def __str__(self) -> str:
        return f"pad {','.join(map(str, self.padding))} {self.mode}"

    @property
    def is_of_signals(self) -> bool:
        return self.padding[:2] == (0, 0)

    def put_before(self, after: Operator) -> Operator | None:
        return after.padded(self)

    def rank(self, given: int) -> int:
        return len(self.padding) // 2

    def shape(self, shape: Shape) -> Shape:
        return (*shape[:2], *(n + sum(ends) for n, ends in zip(shape[2:], by_axis(self.padding))))

    def step(self, shape: Shape, dtype: np.dtype, adds: bool, adds_after: bool) -> Operator:
        return Conv.identity(shape, dtype, padding=self.padding, padding_mode=self.mode)


@dataclass(frozen=True)
class History(Operator):
    """The last samples of the pieces of a signal before, and behind them those of this piece.

    Before the first piece they are zeros. Who runs it keeps the last of both for the next piece.
    """

    samples_before: int

    def __str__(self) -> str:
        return f"history of {self.samples_before}"

    def shape(self, shape: Shape) -> Shape:
        return (*shape[:-1], shape[-1] + self.samples_before)


@dataclass(frozen=True)
class Shuffle(Operator):
    """Channels in another order: (g, c), by ``groups``, as (c, g)."""

    is_of_samples = True
    kinds = ("shuffle",)

    groups: int

    def __str__(self) -> str:
        return f"shuffle {self.groups}"

    def shape(self, shape: Shape) -> Shape:
        if shape[1] % self.groups:
            raise Misfit.shape(shape, f"a multiple of {self.groups} channels")
        return shape

    @property
    def fields(self) -> dict[str, Any]:
        return {"groups": self.groups}

    @classmethod
    def of_layer(cls, kind: str, window: Window, layer: Any, activation: Any) -> Shuffle:
        return cls(int(layer.groups))


@dataclass(frozen=True)
class Repeat(Operator):
    """Every pixel repeated along each axis: enlarged by the nearest neighbour."""

    is_of_samples = True
    kinds = ("repeat",)
    goes_by_stages = True
    enlarges = True

    factor: Sizes

    def __str__(self) -> str:
        return f"repeat {times(self.factor)}"

    def rank(self, given: int) -> int:
        return len(self.factor)

    def shape(self, shape: Shape) -> Shape:
        return (*shape[:2], *self.sizes_after(shape[2:]))

    def sizes_after(self, sizes: Sequence[int]) -> list[int]:
        return [n * count for n, count in zip(sizes, self.factor)]

    @property
    def window(self) -> Window:
        return Window(self.factor, (1, 1), (0, 0, 0, 0), (1, 1))

    @property
    def rows(self) -> tuple[int, int, int, int] | None:
        return (1, 1, 0, self.factor[0])

    def along(self, axes: Sequence[int]) -> Repeat:
        return Repeat(some(self.factor, axes, 1))

    @classmethod
    def of_layer(cls, kind: str, window: Window, layer: Any, activation: Any) -> Repeat:
        return cls(window.kernel)


@dataclass(frozen=True)
class Spread(Operator):
    """Channels of a map spread over blocks of pixels: so many times fewer channels, more pixels.

    Pixel (i, j) of the block of channel c comes from channel (c, i, j) with the order "channels",
    as in torch's `pixel_shuffle`, or from (i, j, c) with "pixels". What is cropped, top, bottom,
    left, right, is left out of the result.
    """

    kinds = ("spread_channels", "spread_pixels")
    enlarges = True

    factor: Sizes  # height, width
    order: str = "channels"
    crop: Sizes = (0, 0, 0, 0)

    def __str__(self) -> str:
        text = f"spread {self.factor[0]}x{self.factor[1]}"
        return text + (f" crop {','.join(map(str, self.crop))}" if any(self.crop) else "")

    def rank(self, given: int) -> int:
        return len(self.factor)

    def shape(self, shape: Shape) -> Shape:
        count = prod(self.factor)
        if shape[1] % count:
            raise Misfit.shape(shape, f"a multiple of {count} channels")
        return (shape[0], shape[1] // count, *self.sizes_after(shape[2:]))

    def sizes_after(self, sizes: Sequence[int]) -> list[int]:
        axes = zip(sizes, self.factor, by_axis(self.crop))
        return [n * count - sum(ends) for n, count, ends in axes]

    def channels_after(self, *channels: int) -> int:
        return channels[0] // prod(self.factor)

    # Where it is cropped, rows begin within a block.
    @property
    def rows(self) -> tuple[int, int, int, int] | None:
        return None if any(self.crop) else (1, 1, 0, self.factor[0])

    @property
    def kind(self) -> str:
        return f"spread_{self.order}"

    @property
    def is_of_channels(self) -> bool:
        """Whether the numbers of a block are neighbours among the channels."""
        return self.order == "channels"

    def codes(self, *given: Any) -> Any:
        return given[0]

    def computed(self, *arrays: np.ndarray) -> np.ndarray:
        (x,), (high, wide) = arrays, self.factor
        batch, channels, height, width = x.shape
        count, (top, bottom, left, right) = channels // (high * wide), self.crop
        if self.is_of_channels:
            blocks = x.reshape(batch, count, high, wide, height, width)
        else:
            blocks = x.reshape(batch, high, wide, count, height, width).transpose(0, 3, 1, 2, 4, 5)
        whole = blocks.transpose(0, 1, 4, 2, 5, 3)
        whole = whole.reshape(batch, count, height * high, width * wide)
        return whole[:, :, top : height * high - bottom, left : width * wide - right]

    @property
    def window(self) -> Window:
        return Window(self.factor, (1, 1), self.crop, (1, 1))

    @classmethod
    def of_layer(cls, kind: str, window: Window, layer: Any, activation: Any) -> Spread:
        return cls(window.kernel, kind.removeprefix("spread_"), window.padding)


@dataclass(frozen=True)
class Relayout(Operator):
    """A map of the layout ``origin`` in the other layout: a step that lowering adds."""

    origin: str  # "NCHW" or "NHWC"

    def __str__(self) -> str:
        return f"from {self.origin}"
