"""What lies between convolutions as C computes it: pools, sums, products, numbers moved.

Computed by ``csrc/runtime/maps.c.j2``, which knows maps alone. Volumes are maps as they lie in
memory: all rows of a plane are one row, or each plane of a channel is a map (`as_maps`). So a
window of three axes is one of the plane and then one of the depth (`stages_of`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from winogen.graph.ops import (
    Add,
    GlobalAverage,
    GroupNorm,
    LayerNorm,
    Multiply,
    Operator,
    Point,
    Shape,
    Shuffle,
    Softmax,
    Spread,
    Window,
)
from winogen.graph.ops.moves import Repeat
from winogen.graph.ops.pools import AveragePool, MaxPool

Map = Operator  # one that has `kinds`
_MAPS: tuple[type[Operator], ...] = (
    MaxPool, Repeat, Spread, AveragePool, GlobalAverage, Point, Add, Multiply, Shuffle, GroupNorm,
    LayerNorm, Softmax,
)  # fmt: skip
_OF_KIND = {kind: one for one in _MAPS for kind in one.kinds}
_KINDS = (*_OF_KIND,)  # as in `winogen_map_kinds` in csrc/runtime/maps.h, from 1 on


def kind_of(op: Map) -> int:
    """Return the number of what an operator does."""
    return 1 + _KINDS.index(op.kind)


class Stage(NamedTuple):
    """An operator of maps as part of one of volumes; ``planes``: of each plane on its own."""

    op: Map
    planes: bool


def stages_of(op: Map) -> list[Stage]:
    """Return an operator of volumes as operators of the planes and of the depth.

    What enlarges does so along the depth first, what makes less of the planes: so the array between
    both is as small as it can be.
    """
    stages = [Stage(op.along((1, 2)), True), Stage(op.along((0,)), False)]
    return stages[::-1] if op.enlarges else stages


def operator_of(layer: Any, seen: Window, activation: Any, repeated: bool) -> Map:
    """Return the operator of a `winogen_layer`, without arrays of its own.

    ``repeated``: whether what it adds has a single pixel.
    """
    kind = _KINDS[layer.kind - 1]
    op = _OF_KIND[kind].of_layer(kind, seen, layer, activation)
    return op.of_pixel if repeated else op


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
    (high, wide), _, pads, dilation = op.window
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
        "groups": 1,
        "relu": int(activation == "relu"),
        "silu": int(activation == "silu"),
        **op.fields,
    }
    made = library.ffi.new("winogen_map *", fields)
    null = library.ffi.NULL
    parts = library.lib.winogen_lay_map(made, around, null if other is None else other, out)
    if part is not None:
        made.batch, made.pad_top, made.height, made.out_height = 1, *part
        parts = made.out_channels if layout == "NCHW" else part.outputs
    return made, parts
