"""conv: from a problem through a plan to a result."""

from typing import TYPE_CHECKING

from winogen.lazy import attribute_of

if TYPE_CHECKING:
    from winogen.conv.api import Conv1d, Conv2d, Conv3d, conv1d, conv2d, conv3d
    from winogen.conv.api_transposed import (
        ConvTranspose1d,
        ConvTranspose2d,
        ConvTranspose3d,
        conv_transpose1d,
        conv_transpose2d,
        conv_transpose3d,
    )
    from winogen.conv.memory import OutOfMemory
    from winogen.conv.plan import Plan
    from winogen.conv.problem import Layer, Problem

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Layer",
    "OutOfMemory",
    "Plan",
    "Problem",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
]

_PUBLIC = {
    "Conv1d": "winogen.conv.api",
    "Conv2d": "winogen.conv.api",
    "Conv3d": "winogen.conv.api",
    **{f"ConvTranspose{n}d": "winogen.conv.api_transposed" for n in (1, 2, 3)},
    "Layer": "winogen.conv.problem",
    "OutOfMemory": "winogen.conv.memory",
    "Plan": "winogen.conv.plan",
    "Problem": "winogen.conv.problem",
    "conv1d": "winogen.conv.api",
    "conv2d": "winogen.conv.api",
    "conv3d": "winogen.conv.api",
    **{f"conv_transpose{n}d": "winogen.conv.api_transposed" for n in (1, 2, 3)},
}
__getattr__ = attribute_of("winogen.conv", _PUBLIC)
