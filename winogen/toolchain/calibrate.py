"""The planner's picture of this machine, from measured limits."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

from winogen.records import Machine, Target, costs_of
from winogen.toolchain.host import host_target
from winogen.toolchain.limits import MEMORY_SAMPLE, Limits, measure_limits

# Levels of memory, the nearest first, and what a rate may be at least, as a part of the default
# machine's: slower ones were seen only where others computed meanwhile.
_RATES = ("l2_rate", "l3_rate", "memory_rate")
_LEAST = 1 / 4
_NEARER = 1.25  # how much slower than the next level one may seem to be
# Multiply-adds of vectors in a cycle: a core has one unit at least, and half of one if vectors are
# computed in halves.
_LEAST_FMAS = 0.45


class MeasuredMachine(NamedTuple):
    """A machine as it was measured; ``signs``: what speaks against it, in words, () if nothing."""

    machine: Machine
    signs: tuple[str, ...] = ()


def calibrated(
    target: Target | None = None,
    seconds: float = 0.2,
    most_bytes: int = MEMORY_SAMPLE,
    rounds: int = 5,
    doubts: bool = False,
) -> MeasuredMachine:
    """Return the machine as measured on one thread, about ``seconds`` for each rate.

    ``most_bytes``: of memory that the measurement may take. ``rounds``: in which the rates take
    turns. ``doubts``: whether rates that look wrong are disbelieved even if nothing else speaks for
    a disturbance. Raises BuildError if nothing can be compiled, and OutOfMemory.
    """
    target = target or host_target()
    limits = measure_limits(1, target, seconds, most_bytes, rounds=rounds)
    machine = machine_of(limits, target)
    if not (limits.signs or doubts):
        return MeasuredMachine(machine)
    machine, wrong = plausible(machine, limits.clock_ghz)
    return MeasuredMachine(machine, (*limits.signs, *wrong))


def machine_of(limits: Limits, target: Target) -> Machine:
    """Return the rates per cycle that measured limits amount to.

    The clock is what the FMA peak implies at two vector FMAs a cycle, so a core with one such unit
    counts as one of half the clock, and one with four as one of twice the clock: only ratios matter
    to the planner, and all work on vectors goes with the number of units. Rates are rounded to
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
        l2_rate=_rounded(l2_rate),
        l3_rate=_rounded(l3_rate),
        memory_rate=_rounded(memory_rate),
        costs=costs_of(target.core),
    )


def plausible(machine: Machine, clock_ghz: float = 0.0) -> tuple[Machine, tuple[str, ...]]:
    """Return the machine with possible rates, and in words the rates that were impossible.

    A rate is impossible below a quarter of the default machine's, or below the rate of the next
    level of memory. In its place comes the default's, times what the other rates are on average
    beside theirs. ``clock_ghz``: from dependent additions, if measured. It replaces a clock from
    multiply-adds if hardly any would fit into one of its cycles.

    >>> slow = Machine(l2_rate=64.0, l3_rate=16.0, memory_rate=0.5)
    >>> machine, signs = plausible(slow)
    >>> machine.memory_rate, signs
    (5.66, ('memory_rate 0.5 cannot be true',))
    """
    standard, wrong = Machine(), {}
    right: dict[str, Any] = {}
    if machine.clock_ghz * machine.vectors_per_cycle < _LEAST_FMAS * clock_ghz:
        wrong["clock_ghz"] = machine.clock_ghz
        for name in _RATES:
            right[name] = _rounded(getattr(machine, name) * machine.clock_ghz / clock_ghz)
        machine = replace(machine, clock_ghz=round(clock_ghz, 2), **right)
    for name, beyond in zip(_RATES, (*_RATES[1:], None)):
        rate = getattr(machine, name)
        # Where there is no third level, memory stands for it.
        like = "memory_rate" if rate == machine.memory_rate else name
        too_slow = rate < _LEAST * getattr(standard, like)
        if too_slow or (beyond and _NEARER * rate < getattr(machine, beyond)):
            wrong[name] = rate
    scales = [
        math.log(getattr(machine, name) / getattr(standard, name))
        for name in _RATES
        if name not in wrong
    ]
    scale = math.exp(sum(scales) / len(scales)) if scales else 1.0
    right = {name: _rounded(scale * getattr(standard, name)) for name in _RATES if name in wrong}
    signs = tuple(f"{name} {rate:.3g} cannot be true" for name, rate in wrong.items())
    return replace(machine, **right), signs


def fastest(one: Machine, other: Machine) -> Machine:
    """Return what two measurements show that the machine can do, with the constants of the first.

    >>> machine = fastest(Machine(l3_rate=8.0, memory_rate=9.0), Machine(clock_ghz=6.0))
    >>> machine.clock_ghz, machine.l3_rate, machine.memory_rate
    (6.0, 12.0, 4.5)
    """
    clock = max(one.clock_ghz, other.clock_ghz)
    best: dict[str, Any] = {
        name: round(max(getattr(m, name) * m.clock_ghz / clock for m in (one, other)), 2)
        for name in _RATES
    }
    for name in ("l2_bytes", "l3_bytes"):
        best[name] = max(getattr(one, name), getattr(other, name))
    return replace(one, clock_ghz=clock, **best)


def ratios(now: Machine, then: Machine) -> dict[str, float]:
    """Return how many times as large or fast each thing is now, in bytes and seconds.

    >>> ratios(Machine(clock_ghz=6.0), Machine())["l2_rate"]
    2.0
    """
    rates = {
        name: getattr(now, name) * now.clock_ghz / (getattr(then, name) * then.clock_ghz)
        for name in ("vectors_per_cycle", *_RATES)
    }
    sizes = {name: getattr(now, name) / getattr(then, name) for name in ("l2_bytes", "l3_bytes")}
    return {**rates, **sizes}


def _rounded(rate: float) -> float:
    return round(2 ** (round(4 * math.log2(rate)) / 4), 2)
