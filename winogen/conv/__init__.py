"""conv: from a problem through a plan to a result."""

from typing import TYPE_CHECKING

from winogen.lazy import attribute_of

if TYPE_CHECKING:
    from winogen.conv.api import Conv2d, conv2d
    from winogen.conv.memory import OutOfMemory
    from winogen.conv.plan import Plan
    from winogen.conv.problem import Layer, Problem

__all__ = ["Conv2d", "Layer", "OutOfMemory", "Plan", "Problem", "conv2d"]

_PUBLIC = {
    "Conv2d": "winogen.conv.api",
    "Layer": "winogen.conv.problem",
    "OutOfMemory": "winogen.conv.memory",
    "Plan": "winogen.conv.plan",
    "Problem": "winogen.conv.problem",
    "conv2d": "winogen.conv.api",
}
__getattr__ = attribute_of("winogen.conv", _PUBLIC)
