"""The planner's picture of this machine, from measured limits."""

from __future__ import annotations

import math

from winogen.records import Machine, Target, costs_of
from winogen.toolchain.host import host_target
from winogen.toolchain.limits import MEMORY_SAMPLE, Limits, measure_limits


def calibrated(
    target: Target | None = None, seconds: float = 0.2, most_bytes: int = MEMORY_SAMPLE
) -> Machine:
    """Return the machine as measured on one thread, about ``seconds`` for each rate.

    ``most_bytes``: of memory that the measurement may take. Raises BuildError if nothing can be
    compiled, and OutOfMemory.
    """
    target = target or host_target()
    return machine_of(measure_limits(1, target, seconds, most_bytes), target)


def machine_of(limits: Limits, target: Target) -> Machine:
    """Return the rates per cycle that measured limits amount to.

    The clock is what the FMA peak implies at two vector FMAs a cycle, so that a core with one such
    unit counts as one of half the clock: only ratios matter to the planner. Rates are rounded to
    steps of a fifth, so that the noise of the measurement hardly ever changes a plan.

    >>> from winogen.records import TARGETS
    >>> limits = Limits(1, {1: 192.0}, (("L2", 1 << 20, 120.0), ("L3", 32 << 20, 30.0),
    ...                                 ("memory", 1 << 30, 9.0)))
    >>> machine = machine_of(limits, TARGETS["avx512"])
    >>> machine.clock_ghz, machine.l2_bytes, machine.l3_bytes
    (3.0, 2097152, 33554432)
    >>> machine.l2_rate, machine.l3_rate, machine.memory_rate
    (38.05, 9.51, 2.83)
    """
    standard = Machine()

    def rounded(rate: float) -> float:
        return round(2 ** (round(4 * math.log2(rate)) / 4), 2)

    clock = limits.peak / (2 * standard.vectors_per_cycle * target.lanes("float32"))
    levels = {level: (size, speed / clock) for level, size, speed in limits.read}
    memory_rate = levels["memory"][1]
    # The sample of the second level is half of it. Where there is no third, memory stands for it.
    l2_bytes, l2_rate = levels.get("L2", (standard.l2_bytes // 2, standard.l2_rate))
    l3_bytes, l3_rate = levels.get("L3", (2 * l2_bytes, memory_rate))
    return Machine(
        clock_ghz=round(clock, 2),
        vectors_per_cycle=standard.vectors_per_cycle,
        l2_bytes=2 * l2_bytes,
        l3_bytes=l3_bytes,
        l2_rate=rounded(l2_rate),
        l3_rate=rounded(l3_rate),
        memory_rate=rounded(memory_rate),
        costs=costs_of(target.core),
    )
