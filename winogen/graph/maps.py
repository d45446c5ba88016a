"""What moves numbers between convolutions: pooling, repeated pixels, channels spread over pixels.

Computed by ``csrc/runtime/maps.c``.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from winogen.graph import runtime
from winogen.graph.ir import MaxPool, Moving, Repeat, Spread
from winogen.graph.shapes import Shape
from winogen.records import Strides, Target
from winogen.toolchain import Library

_REALS = {"float32": "float", "float64": "double"}


def library(dtype: str, target: Target) -> Library:
    """Return the compiled functions for numbers of a type."""
    return runtime.library("maps", target, real=_REALS[dtype])


def struct(
    library: Library, op: Moving, shape: Shape, layout: str, around: Shape, out: Shape
) -> tuple[Any, str, int]:
    """Return the struct of a call, the function's name, and how many parts there are.

    ``shape`` is that of the input; ``around`` and ``out`` those of the buffers that input and
    output are channels of.
    """
    batch, channels, height, width = shape
    _, _, out_height, out_width = out
    fields = {
        "planar": int(layout == "NCHW"),
        "batch": batch,
        "channels": channels,
        "height": height,
        "width": width,
        "out_height": out_height,
        "out_width": out_width,
    }
    if isinstance(op, MaxPool):
        name = "winogen_pool"
        fields |= {"kernel_h": op.kernel[0], "kernel_w": op.kernel[1]}
        fields |= {"stride_h": op.stride[0], "stride_w": op.stride[1]}
        fields |= {"pad_top": op.padding[0], "pad_left": op.padding[2]}
    else:
        high, wide = op.factor
        fields |= {"kernel_h": high, "kernel_w": wide}
        name = "winogen_repeat" if isinstance(op, Repeat) else "winogen_spread"
        if isinstance(op, Spread):
            channels = fields["channels"] = channels // (high * wide)
            apart = op.order == "channels"
            steps = (high * wide, wide, 1) if apart else (1, wide * channels, channels)
            fields |= dict(zip(("step_channel", "step_row", "step_col"), steps))
    for prefix, buffer in (("in", around), ("out", out)):
        strides = Strides.of(layout, buffer[1], *buffer[2:])
        fields |= {f"{prefix}_{key}": value for key, value in asdict(strides).items()}
    parts = batch * (out_height if layout == "NHWC" else channels)
    return library.ffi.new("winogen_map *", fields), name, parts
