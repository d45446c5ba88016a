"""Candidates: programs with what they cost, and the objectives that compare them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from winogen.errors import InvalidValue
from winogen.program.analysis import error_growth, is_exact
from winogen.program.search.lower import Lowered
from winogen.program.search.scales import size

if TYPE_CHECKING:
    from winogen.program.ir import Program
    from winogen.program.search.network import GateNetwork


class PricedProgram:
    """A program that computes the matrix (up to scales, where scales are free) and its costs."""

    def __init__(self, network: GateNetwork | None, lowered: Lowered) -> None:
        self._network, self.lowered = network, lowered
        self.program = lowered.program
        self.counts = self.program.counts()

    @classmethod
    def of(cls, program: Program) -> PricedProgram:
        """A candidate from a program that is there already, without a network."""
        return cls(None, Lowered(program, (), ()))

    @property
    def network(self) -> GateNetwork:
        """The network that the program was made from."""
        assert self._network is not None
        return self._network

    @cached_property
    def growth(self) -> float:
        """``winogen.program.analysis.error_growth``, to three digits: less is no difference."""
        return round(error_growth(self.program), 3)

    @cached_property
    def constants(self) -> tuple[int, float]:
        """How many constants are rounded, and the size of all."""
        every = [t.coefficient for s in self.program.statements for t in s.terms if not t.is_unit]
        return sum(not is_exact(c) for c in every), round(size(every), 3)

    @cached_property
    def depth(self) -> int:
        """Statements on the critical path."""
        return self.program.depth()


# Objective -> what to compare, most important first. Registers are known after scheduling only.
OBJECTIVES: dict[str, Callable[[PricedProgram], tuple[float, ...]]] = {
    "instructions": lambda c: (c.counts.instructions, c.growth, c.depth, c.counts.mul),
    "additions": lambda c: (c.counts.add, c.counts.instructions, c.growth, c.depth),
    "depth": lambda c: (c.depth, c.counts.instructions, c.growth),
    "registers": lambda c: (c.counts.registers, c.counts.instructions, c.growth),
    "error": lambda c: (c.growth, c.counts.instructions, c.depth),
}


def check_objective(objective: str) -> None:
    """Raise ``InvalidValue`` for an unknown objective."""
    if objective not in OBJECTIVES:
        raise InvalidValue(f"objective: got {objective!r}; allowed: {', '.join(OBJECTIVES)}")
