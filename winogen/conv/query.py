"""What a planner is asked: a problem, what is wanted of it, and what is known of the machine."""

from __future__ import annotations

from typing import Any, NamedTuple

from winogen.conv import wisdom as measurements
from winogen.conv.request import Request
from winogen.conv.stock import Stock, stock_of
from winogen.conv.wisdom import NOTHING, Wisdom
from winogen.records import Machine, Target


class Query(NamedTuple):
    """All that the ranking of the ways to compute a problem follows from; hashable."""

    problem: Any  # a `Problem`, or one of another kind that has `shapes`
    request: Request
    target: Target
    machine: Machine
    wisdom: Wisdom = NOTHING  # what was measured
    stock: Stock | None = None  # the kernels that all ways must be in; None: any

    @classmethod
    def here(
        cls,
        problem: Any,
        request: Request,
        target: Target,
        machine: Machine,
        stock: Stock | None = None,
    ) -> Query:
        """Return it with what is known here; ``stock``: None for what can be used here."""
        known = measurements.current(target), stock or stock_of(target)
        return cls(problem, request, target, machine, *known)
