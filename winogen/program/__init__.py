"""From a matrix to a short straight-line program, proven equal to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winogen.lazy import attribute_of
from winogen.program.ir import Counts, Program, Statement, Term

if TYPE_CHECKING:
    from winogen.program.search.adders.search import adder_program
    from winogen.program.search.adders.tiles import adder_program_2d
    from winogen.program.search.scaling import ShortTransforms, shortest_transforms
    from winogen.program.search.simplify import simplify

__all__ = [
    "Counts",
    "Program",
    "ShortTransforms",
    "Statement",
    "Term",
    "adder_program",
    "adder_program_2d",
    "shortest_transforms",
    "simplify",
]

# Loaded on first use: whoever only reads programs, as conv2d does, needs no search.
if not TYPE_CHECKING:
    __getattr__ = attribute_of(
        __name__,
        {
            "adder_program": "winogen.program.search.adders.search",
            "adder_program_2d": "winogen.program.search.adders.tiles",
            "simplify": "winogen.program.search.simplify",
            "ShortTransforms": "winogen.program.search.scaling",
            "shortest_transforms": "winogen.program.search.scaling",
        },
    )
