"""Candidates: programs with what they cost, and the objectives that compare them."""

from functools import cached_property

from winogen.errors import InvalidValue
from winogen.program.analysis import error_growth, is_exact
from winogen.program.search.lower import Lowered
from winogen.program.search.scales import size


class Candidate:
    """A program that computes what is wanted (up to scales, where those are free) and its costs."""

    def __init__(self, network, lowered):
        self.network, self.lowered = network, lowered
        self.program = lowered.program
        self.counts = self.program.counts()

    @classmethod
    def of(cls, program):
        """A candidate from a program that is there already."""
        return cls(None, Lowered(program, (), ()))

    @cached_property
    def growth(self):
        """:func:`winogen.program.analysis.error_growth`, to three digits: less is no difference."""
        return round(error_growth(self.program), 3)

    @cached_property
    def constants(self):
        """How many constants are rounded, and the size of all."""
        every = [t.coefficient for s in self.program.statements for t in s.terms if not t.is_unit]
        return sum(not is_exact(c) for c in every), round(size(every), 3)

    @cached_property
    def depth(self):
        """Statements on the critical path."""
        return self.program.depth()


# Objective -> what to compare, most important first. Registers are known after scheduling only.
OBJECTIVES = {
    "instructions": lambda c: (c.counts.instructions, c.growth, c.depth, c.counts.mul),
    "additions": lambda c: (c.counts.add, c.counts.instructions, c.growth, c.depth),
    "depth": lambda c: (c.depth, c.counts.instructions, c.growth),
    "registers": lambda c: (c.counts.registers, c.counts.instructions, c.growth),
    "error": lambda c: (c.growth, c.counts.instructions, c.depth),
}


def check_objective(objective):
    """Raise :class:`InvalidValue` for an unknown objective."""
    if objective not in OBJECTIVES:
        raise InvalidValue(f"objective: got {objective!r}; allowed: {', '.join(OBJECTIVES)}")
