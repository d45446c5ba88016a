"""conv: from a problem through a plan to a result."""

from winogen.conv.api import Conv2d, conv2d
from winogen.conv.memory import OutOfMemory
from winogen.conv.plan import Plan
from winogen.conv.problem import Layer, Problem

__all__ = ["Conv2d", "Layer", "OutOfMemory", "Plan", "Problem", "conv2d"]
