"""From a matrix to a short straight-line program, proven equal to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winogen.program.ir import Counts, Program, Statement, Term

if TYPE_CHECKING:
    from winogen.program.search.scaling import ShortTransforms, shortest_transforms
    from winogen.program.search.simplify import simplify

__all__ = [
    "Counts",
    "Program",
    "ShortTransforms",
    "Statement",
    "Term",
    "shortest_transforms",
    "simplify",
]


def __getattr__(name: str) -> object:
    # Loaded on first use: whoever only reads programs, as conv2d does, needs no search.
    if name == "simplify":
        from winogen.program.search.simplify import simplify

        return simplify
    if name in ("ShortTransforms", "shortest_transforms"):
        from winogen.program.search import scaling

        return getattr(scaling, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
