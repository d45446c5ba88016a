"""conv: from a problem through a plan to a result."""

from .api import Conv2d, conv2d
from .memory import OutOfMemory
from .plan import Plan
from .problem import Layer, Problem

__all__ = ["Conv2d", "Layer", "OutOfMemory", "Plan", "Problem", "conv2d"]
