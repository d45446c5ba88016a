"""A machine by the cycles of its clock, and the machine that files are planned for.

A machine's record counts vectors of whole width, two in a cycle. Where these pass in halves, such a
cycle is two of the clock's.
"""

from __future__ import annotations

from dataclasses import replace

from winogen.kernels import costs
from winogen.records import Machine, Target

_MOVING = ("l2_rate", "l3_rate", "memory_rate")


def in_clock_cycles(machine: Machine, target: Target) -> Machine:
    """Return the same machine by the cycles of its clock."""
    return _by(machine, costs.clocks(machine, target), (*_MOVING, "vectors_per_cycle"))


def unmeasured(target: Target, waits: bool = True) -> Machine:
    """Return the machine that files are planned for: the same wherever that is done.

    ``waits``: whether threads wait for each other, as ours do.
    """
    machine = Machine() if waits else Machine().without_barriers
    return _by(machine, 1 / costs.clocks(machine, target), _MOVING)


def _by(machine: Machine, factor: float, rates: tuple[str, ...]) -> Machine:
    """A machine with another clock, whose rates are the same in a second."""
    scaled = {name: getattr(machine, name) / factor for name in rates}
    return replace(machine, clock_ghz=factor * machine.clock_ghz, **scaled)
