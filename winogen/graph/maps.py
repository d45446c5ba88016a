"""What moves numbers between convolutions: pooling, repeated pixels, channels spread over pixels.

Computed by ``csrc/runtime/maps.c.j2``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from winogen.graph.ir import MaxPool, Moving, Repeat, Spread
from winogen.graph.shapes import Shape

# As in csrc/runtime/maps.h.
MAX_POOL, REPEAT, SPREAD_CHANNELS, SPREAD_PIXELS = 1, 2, 3, 4


def kind_of(op: Moving) -> int:
    """Return the number of what an operator does."""
    if isinstance(op, MaxPool):
        return MAX_POOL
    if isinstance(op, Repeat):
        return REPEAT
    return SPREAD_CHANNELS if op.order == "channels" else SPREAD_PIXELS


def window_of(op: Moving) -> tuple[int, int]:
    """Return the sizes of a window, or the factors, along height and width."""
    return op.kernel if isinstance(op, MaxPool) else op.factor


def operator_of(kind: int, window: tuple[int, int], stride: Any, padding: Any) -> Moving:
    """Return the operator with these numbers."""
    if kind == MAX_POOL:
        return MaxPool(window, tuple(stride), tuple(padding))
    if kind == REPEAT:
        return Repeat(window)
    return Spread(window, "channels" if kind == SPREAD_CHANNELS else "pixels")


class Part(NamedTuple):
    """Some rows of one image: rows of padding above them, rows of input, rows of output."""

    above: int
    inputs: int
    outputs: int


def struct(
    library: Any,
    op: Moving,
    channels: int,
    layout: str,
    around: Shape,
    out: Shape,
    part: Part | None = None,
) -> Any:
    """Return the struct of a call, a `winogen_map`, and how many parts there are.

    ``channels`` are those that it reads; ``around`` and ``out`` the shapes of the buffers that
    input and output are channels of. ``part`` None: all of it.
    """
    high, wide = window_of(op)
    fields = {
        "kind": kind_of(op),
        "planar": int(layout == "NCHW"),
        "channels": channels,
        "kernel_h": high,
        "kernel_w": wide,
    }
    if isinstance(op, MaxPool):
        fields |= {"stride_h": op.stride[0], "stride_w": op.stride[1]}
        fields |= {"pad_top": op.padding[0], "pad_left": op.padding[2]}
    made = library.ffi.new("winogen_map *", fields)
    parts = library.lib.winogen_lay_map(made, around, out)
    if part is not None:
        made.batch, made.pad_top, made.height, made.out_height = 1, *part
        parts = made.out_channels if layout == "NCHW" else part.outputs
    return made, parts
