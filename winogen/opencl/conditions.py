"""Conditions on parameters, as layout operations and devices set them."""

from __future__ import annotations

from dataclasses import dataclass

from winogen.codegen.devices.expressions import Expr, Number
from winogen.errors import InvalidValue
from winogen.opencl.indices import equal, names_in


@dataclass(frozen=True)
class PointCondition:
    """Something that has to be true of parameters.

    A divisor follows from what it divides: ``follows`` are names whose values are best decided
    after those of ``leads``, see `winogen.opencl.constraints`.
    """

    why: str
    holds: Expr
    leads: frozenset[str] = frozenset()
    follows: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """The names that it depends on."""
        return names_in(self.holds)

    def check(self) -> None:
        """Raise InvalidValue if it certainly does not hold."""
        if self.decided is False:
            raise InvalidValue(
                f"point: got one that does not satisfy: {self.why}; allowed: points of "
                "winogen.opencl.space.Points"
            )

    @property
    def decided(self) -> bool | None:
        """Whether it holds; None while that depends on a name."""
        return bool(self.holds.value) if isinstance(self.holds, Number) else None


def divisible(length: Expr, size: Expr, why: str) -> PointCondition:
    """Return the condition that a size is at least 1 and divides a length."""
    above, below = names_in(length), names_in(size)
    if isinstance(size, Number) and size.value < 1:
        return PointCondition(why, Number(0))
    rest = Number(0) if length == size else length % size
    holds = (size >= 1) & equal(rest, 0)
    return PointCondition(why, holds, above - below, below)


def at_least(value: Expr | int, limit: Expr | int, why: str) -> PointCondition:
    """Return the condition that a value does not fall below a limit."""
    return PointCondition(why, Number(0) + value >= limit)


def at_most(value: Expr | int, limit: Expr | int, why: str) -> PointCondition:
    """Return the condition that a value does not exceed a limit."""
    return PointCondition(why, Number(0) + value <= limit)


def same(value: Expr, other: Expr, why: str) -> PointCondition:
    """Return the condition that two are equal."""
    return PointCondition(why, Number(1) if value == other else equal(value, other))
