"""Pools: one number of every window, or of every channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from winogen.graph.ops.base import (
    Misfit,
    Operator,
    Shape,
    Sizes,
    Window,
    by_axis,
    fill,
    listed,
    pixel,
    seen,
    times,
    windows,
)


class Pool(Operator):
    """What goes window by window: `kernel`, `stride`, `padding` and `dilation` along each axis."""

    goes_by_stages = True

    kernel: Sizes
    stride: Sizes
    padding: Sizes
    dilation: Sizes

    def rank(self, given: int) -> int:
        return len(self.kernel)

    @property
    def reach(self) -> list[int]:
        """From the first number of a window to the last, along each axis."""
        return [d * (k - 1) + 1 for d, k in zip(self.dilation, self.kernel)]

    def shape(self, shape: Shape) -> Shape:
        return (*shape[:2], *windows(shape, self.reach, self.stride, self.padding))

    def sizes_after(self, sizes: Sequence[int]) -> list[int]:
        axes = zip(sizes, self.reach, self.stride, by_axis(self.padding))
        return [(n + sum(ends) - reach) // step + 1 for n, reach, step, ends in axes]

    @property
    def window(self) -> Window:
        return Window(self.kernel, self.stride, self.padding, self.dilation)

    def in_pieces(self) -> tuple[int, Operator]:
        ends, reach, step = self.padding[-2:], self.reach[-1], self.stride[-1]
        if any(ends) or reach > step:
            got = f"windows of {reach}, stride {step}, padding {listed(ends)}"
            raise Misfit(got, "windows that are not padded and do not overlap")
        return 0, self

    @property
    def fields(self) -> dict[str, Any]:
        return {"stride_h": self.stride[0], "stride_w": self.stride[1]}

    def along(self, axes: Sequence[int]) -> Operator:
        kernel, stride, dilation = (
            some(values, axes, 1) for values in (self.kernel, self.stride, self.dilation)
        )
        ends = (end for pair in some(by_axis(self.padding), axes, (0, 0)) for end in pair)
        window = Window(kernel, stride, tuple(ends), dilation)
        return self.of_layer(self.kind, window, None, None)  # of a layer a pool is its window alone


def some(values: Sequence[Any], axes: Sequence[int], none: Any) -> tuple[Any, Any]:
    """Return the values of one or two axes, as those of a map, which does nothing along others."""
    first, second, *_ = (*(values[axis] for axis in axes), none)
    return first, second


@dataclass(frozen=True)
class MaxPool(Pool):
    """The largest number of every window; padding, before and after each axis, is never larger."""

    kinds = ("max",)

    kernel: Sizes
    stride: Sizes
    padding: Sizes = ()  # top, bottom, left, right; (): none
    dilation: Sizes = ()  # (): 1

    def __post_init__(self) -> None:
        fill(self, len(self.kernel), dilation=1)

    def __str__(self) -> str:
        text = f"max {times(self.kernel)} stride {listed(self.stride)}"
        if set(self.dilation) != {1}:
            text += f" dilation {listed(self.dilation)}"
        return text

    @property
    def rows(self) -> tuple[int, int, int, int] | None:
        return (self.reach[0], self.stride[0], self.padding[0], 1)

    def codes(self, *given: Any) -> Any:
        return given[0]

    def computed(self, *arrays: np.ndarray) -> np.ndarray:
        (x,) = arrays
        least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        return seen(x, self.window, least).max((-2, -1))

    @classmethod
    def of_layer(cls, kind: str, window: Window, layer: Any, activation: Any) -> MaxPool:
        return cls(*window)


class GaplessPool(Pool):
    """A pool whose windows have no gaps; it may be written without its padding."""

    def __post_init__(self) -> None:
        fill(self, len(self.kernel))

    @property
    def dilation(self) -> Sizes:  # type: ignore[override]
        return (1,) * len(self.kernel)


@dataclass(frozen=True)
class AveragePool(GaplessPool):
    """The mean of every window, of the numbers that are there; ``counted``: of padding, too."""

    kinds = ("average", "average_counted")

    kernel: Sizes
    stride: Sizes
    padding: Sizes = ()  # top, bottom, left, right; (): none
    counted: bool = False

    def __str__(self) -> str:
        return f"mean {times(self.kernel)} stride {listed(self.stride)}"

    @property
    def kind(self) -> str:
        return self.kinds[self.counted]

    @classmethod
    def of_layer(cls, kind: str, window: Window, layer: Any, activation: Any) -> AveragePool:
        return cls(*window[:3], kind == cls.kinds[1])


@dataclass(frozen=True)
class GlobalAverage(Operator):
    """The mean of every channel, a map of one pixel."""

    kinds = ("global_average",)
    is_global = True

    def __str__(self) -> str:
        return "global average"

    def shape(self, shape: Shape) -> Shape:
        return pixel(shape)


def pool_padding(
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: Any,
) -> tuple[int, ...] | None:
    """Return the padding of a pooling, before and after each axis, with `ceil_mode` as padding.

    With it a window may reach beyond the padding behind an axis: as if there were more of it, by
    the stride less one. None where a window might then lie in padding alone.
    """
    sides: list[int] = []
    for ends, step, apart, taps in zip(by_axis(padding), stride, dilation, kernel):
        before, after = ends[0], ends[1] + (step - 1 if ceil_mode else 0)
        if max(before, after) > apart * (taps - 1):
            return None
        sides += before, after
    return tuple(sides)
