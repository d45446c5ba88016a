"""What lies between convolutions as C computes it: pools, sums, products, numbers moved.

Computed by ``csrc/runtime/maps.c.j2``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

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
    if isinstance(op, (MaxPool, AveragePool)):
        return op.kernel
    return op.factor if isinstance(op, (Repeat, Spread)) else (1, 1)


def operator_of(
    layer: Any, padding: tuple[int, int, int, int], activation: Any, repeated: bool
) -> Map:
    """Return the operator of a `winogen_layer`, without arrays of its own.

    ``repeated``: whether what it adds has a single pixel.
    """
    name, window, stride = _KINDS[layer.kind - 1], tuple(layer.kernel), tuple(layer.stride)
    if name == "max":
        return MaxPool(window, stride, padding, tuple(layer.dilation))
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
) -> Any:
    """Return the struct of a call, a `winogen_map`, and how many parts there are.

    ``channels`` are what it reads; ``around``, ``other`` and ``out`` the shapes of the buffers that
    the input, the second operand and the output are channels of. ``part``: None for all of it.
    """
    high, wide = window_of(op)
    activation = getattr(op, "activation", None)
    fields: dict[str, Any] = {
        "kind": kind_of(op),
        "planar": int(layout == "NCHW"),
        "channels": channels,
        "kernel_h": high,
        "kernel_w": wide,
        "dilation_h": 1,
        "dilation_w": 1,
        "groups": op.groups if isinstance(op, (Shuffle, GroupNorm)) else 1,
        "relu": int(activation == "relu"),
        "silu": int(activation == "silu"),
    }
    if isinstance(op, (GroupNorm, LayerNorm)):
        fields["epsilon"] = op.epsilon
    if isinstance(op, Spread):
        fields |= {"pad_top": op.crop[0], "pad_left": op.crop[2]}
    if isinstance(op, (MaxPool, AveragePool)):
        fields |= {"stride_h": op.stride[0], "stride_w": op.stride[1]}
        fields |= {"pad_top": op.padding[0], "pad_left": op.padding[2]}
    if isinstance(op, MaxPool):
        fields |= {"dilation_h": op.dilation[0], "dilation_w": op.dilation[1]}
    made = library.ffi.new("winogen_map *", fields)
    null = library.ffi.NULL
    parts = library.lib.winogen_lay_map(made, around, null if other is None else other, out)
    if part is not None:
        made.batch, made.pad_top, made.height, made.out_height = 1, *part
        parts = made.out_channels if layout == "NCHW" else part.outputs
    return made, parts
