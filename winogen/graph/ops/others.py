"""What is computed elsewhere: by a framework, or by loops over arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from winogen.graph.ops.base import ANY_NUMBER, Misfit, Operator, Shape


@dataclass(frozen=True, eq=False)
class Opaque(Operator):
    """What the framework keeps: passes and segments stop at it. ``payload`` is the framework's.

    It has any number of outputs, and its values may be anything.
    """

    inputs = range(ANY_NUMBER)
    in_segments = False
    is_opaque = True

    name: str
    payload: Any = None

    def __str__(self) -> str:
        return self.name

    def output(self, inputs: Sequence[Shape]) -> Shape:
        raise Misfit("Opaque", "what winogen computes")


@dataclass(frozen=True, eq=False)
class Plain(Operator):
    """What loops over arrays of any number of axes compute, which passes and planners leave alone.

    ``made``: the shape of its output as a map. ``loops`` say what is computed, to who asked for it.
    """

    inputs = range(1, ANY_NUMBER)

    name: str
    made: Shape
    loops: Any = None

    def __str__(self) -> str:
        return self.name

    def output(self, inputs: Sequence[Shape]) -> Shape:
        return self.made
