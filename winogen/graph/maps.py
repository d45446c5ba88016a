"""What lies between convolutions as C computes it: pools, sums, products, numbers moved.

Computed by ``csrc/runtime/maps.c.j2``, which knows maps alone. Volumes are maps as they lie in
memory: all rows of a plane are one row, or each plane of a channel is a map (`as_maps`). So a
window of three axes is one of the plane and then one of the depth (`stages_of`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from winogen.graph.convolutions import Sizes, by_axis
from winogen.graph.ir import (
    Add,
    AveragePool,
    GlobalAverage,
    GroupNorm,
    LayerNorm,
    MaxPool,
    Moving,
    Multiply,
    Repeat,
    Shuffle,
    Softmax,
    Spread,
)
from winogen.graph.shapes import Shape


@dataclass(frozen=True, eq=False)
class Point:
    """y[c] = activation(scale[c] * x[c] + shift[c]); None for 1 and 0: a copy has neither."""

    scale: np.ndarray | None = None  # (C,)
    shift: np.ndarray | None = None  # (C,)
    activation: str | None = None  # or "relu"

    def __str__(self) -> str:
        return self.activation or ("factor" if self.scale is not None else "copy")


Map = Moving | Point | Add
_Windowed = MaxPool | AveragePool | Repeat | Spread  # what looks at neighbours
# In the order of `winogen_map_kinds` in csrc/runtime/maps.h, from 1 on.
_KINDS = (
    "max repeat spread_channels spread_pixels average average_counted global_average point sum "
    "product shuffle group_norm layer_norm softmax".split()
)
_OF_TYPE: dict[type, str] = {
    MaxPool: "max",
    GlobalAverage: "global_average",
    Point: "point",
    Add: "sum",
    Multiply: "product",
    Shuffle: "shuffle",
    GroupNorm: "group_norm",
    LayerNorm: "layer_norm",
    Softmax: "softmax",
    Repeat: "repeat",
}


def kind_of(op: Map) -> int:
    """Return the number of what an operator does."""
    if isinstance(op, AveragePool):
        name = "average_counted" if op.counted else "average"
    elif isinstance(op, Spread):
        name = f"spread_{op.order}"
    else:
        name = _OF_TYPE[type(op)]
    return 1 + _KINDS.index(name)


def window_of(op: Map) -> tuple[int, int]:
    """Return the sizes of a window, or the factors, along height and width."""
    if not isinstance(op, _Windowed):
        return 1, 1
    high, wide = op.kernel if isinstance(op, (MaxPool, AveragePool)) else op.factor
    return high, wide


class Stage(NamedTuple):
    """An operator of maps as part of one of volumes; ``planes``: of each plane on its own."""

    op: Map
    planes: bool


def stages_of(op: MaxPool | AveragePool | Repeat | Spread) -> list[Stage]:
    """Return an operator of volumes as operators of the planes and of the depth.

    What enlarges does so along the depth first, what makes less of the planes: so the array between
    both is as small as it can be.
    """
    deep, plane = (_along(op, axes) for axes in ((0,), (1, 2)))
    stages = [Stage(plane, True), Stage(deep, False)]
    return stages if isinstance(op, (MaxPool, AveragePool)) else stages[::-1]


def _along(op: Any, axes: Sequence[int]) -> Map:
    """An operator along some axes of its own; along others of maps it does nothing."""

    def some(values: Sequence[Any], none: Any) -> tuple[Any, ...]:
        chosen = tuple(values[axis] for axis in axes)
        return (*chosen, none)[:2]

    def padding(given: Sequence[int]) -> tuple[int, ...]:
        return tuple(end for ends in some(by_axis(given), (0, 0)) for end in ends)

    if isinstance(op, Repeat):
        return Repeat(some(op.factor, 1))
    kernel, stride, ends = some(op.kernel, 1), some(op.stride, 1), padding(op.padding)
    if isinstance(op, MaxPool):
        return MaxPool(kernel, stride, ends, some(op.dilation, 1))
    return AveragePool(kernel, stride, ends, op.counted)


def sizes_after(op: Map, sizes: Sequence[int]) -> list[int]:
    """Return the sizes that an operator makes of sizes along its first axes, which nobody checks.

    Those of a model in a file need not be known.
    """
    if isinstance(op, Repeat):
        return [n * count for n, count in zip(sizes, op.factor)]
    if isinstance(op, Spread):
        axes = zip(sizes, op.factor, by_axis(op.crop))
        return [n * count - sum(ends) for n, count, ends in axes]
    assert isinstance(op, (MaxPool, AveragePool))
    apart = op.dilation if isinstance(op, MaxPool) else (1,) * len(op.kernel)
    windows = zip(sizes, op.kernel, op.stride, apart, by_axis(op.padding))
    return [(n + sum(ends) - d * (k - 1) - 1) // s + 1 for n, k, s, d, ends in windows]


def as_maps(shape: Shape, layout: str, planes: bool) -> Shape:
    """Return the shape as which C takes an array, (N, C, H, W): of volumes that of equal memory.

    >>> as_maps((2, 3, 4, 5, 6), "NCHW", False), as_maps((2, 3, 4, 5, 6), "NCHW", True)
    ((2, 3, 4, 30), (2, 12, 5, 6))
    >>> as_maps((2, 3, 4, 5, 6), "NHWC", True), as_maps((2, 3, 5, 6), "NHWC", False)
    ((8, 3, 5, 6), (2, 3, 5, 6))
    """
    if len(shape) == 4:
        return shape
    batch, channels, depth, height, width = shape
    if not planes:
        return batch, channels, depth, height * width
    if layout == "NCHW":
        return batch, channels * depth, height, width
    return batch * depth, channels, height, width


class Window(NamedTuple):
    """What a map looks at along height and width: a window, or factors, or what is cropped."""

    kernel: Sizes
    stride: Sizes
    padding: Sizes
    dilation: Sizes


def seen_by(op: Map) -> Window:
    """Return what an operator of maps looks at; nothing but its own pixel where it is no window."""
    padding: Sizes = (0, 0, 0, 0)
    stride: Sizes = (1, 1)
    dilation: Sizes = (1, 1)
    if isinstance(op, (MaxPool, AveragePool)):
        stride, padding = op.stride, op.padding
    if isinstance(op, MaxPool):
        dilation = op.dilation
    if isinstance(op, Spread):
        padding = op.crop
    return Window(window_of(op), stride, padding, dilation)


def operator_of(layer: Any, seen: Window, activation: Any, repeated: bool) -> Map:
    """Return the operator of a `winogen_layer`, without arrays of its own.

    ``repeated``: whether what it adds has a single pixel.
    """
    name, (window, stride, padding, dilation) = _KINDS[layer.kind - 1], seen
    if name == "max":
        return MaxPool(window, stride, padding, dilation)
    if name.startswith("average"):
        return AveragePool(window, stride, padding, name == "average_counted")
    if name.startswith("spread"):
        return Spread(window, name.removeprefix("spread_"), padding)
    if name == "repeat":
        return Repeat(window)
    if name == "shuffle":
        return Shuffle(int(layer.groups))
    if name == "group_norm":
        return GroupNorm(int(layer.groups), epsilon=layer.parameters[0], activation=activation)
    if name == "layer_norm":
        return LayerNorm(epsilon=layer.parameters[0], activation=activation)
    if name == "softmax":
        return Softmax()
    if name == "point":
        return Point(activation=activation)  # what it multiplies by comes with the call
    if name == "global_average":
        return GlobalAverage()
    return Add(repeated) if name == "sum" else Multiply()


class Part(NamedTuple):
    """Some rows of one image: rows of padding above them, rows of input, rows of output."""

    above: int
    inputs: int
    outputs: int


def struct(
    library: Any,
    op: Map,
    channels: int,
    layout: str,
    around: Shape,
    other: Shape | None,
    out: Shape,
    part: Part | None = None,
    planes: bool = False,
) -> Any:
    """Return the struct of a call, a `winogen_map`, and how many parts there are.

    ``channels`` are what it reads; ``around``, ``other`` and ``out`` the shapes of the buffers that
    the input, the second operand and the output are channels of. ``part``: None for all of it.
    ``planes``: of volumes, whether each plane is a map.
    """
    deep = around[2] if planes and layout == "NCHW" else 1
    around, out = (as_maps(shape, layout, planes) for shape in (around, out))
    other = None if other is None else as_maps(other, layout, planes)
    (high, wide), stride, pads, dilation = seen_by(op)
    activation = getattr(op, "activation", None)
    fields: dict[str, Any] = {
        "kind": kind_of(op),
        "planar": int(layout == "NCHW"),
        "channels": channels * deep,
        "planes": deep,
        "kernel_h": high,
        "kernel_w": wide,
        "dilation_h": dilation[0],
        "dilation_w": dilation[1],
        "pad_top": pads[0],
        "pad_left": pads[2],
        "groups": op.groups if isinstance(op, (Shuffle, GroupNorm)) else 1,
        "relu": int(activation == "relu"),
        "silu": int(activation == "silu"),
    }
    if isinstance(op, (GroupNorm, LayerNorm)):
        fields["epsilon"] = op.epsilon
    if isinstance(op, (MaxPool, AveragePool)):
        fields |= {"stride_h": stride[0], "stride_w": stride[1]}
    made = library.ffi.new("winogen_map *", fields)
    null = library.ffi.NULL
    parts = library.lib.winogen_lay_map(made, around, null if other is None else other, out)
    if part is not None:
        made.batch, made.pad_top, made.height, made.out_height = 1, *part
        parts = made.out_channels if layout == "NCHW" else part.outputs
    return made, parts
