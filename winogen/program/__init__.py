"""From a matrix to a short straight-line program, proven equal to it."""

from winogen.program.ir import Counts, Program, Statement, Term
from winogen.program.scaling import ShortTransforms, shortest_transforms
from winogen.program.simplify import simplify

__all__ = [
    "Counts",
    "Program",
    "ShortTransforms",
    "Statement",
    "Term",
    "shortest_transforms",
    "simplify",
]
