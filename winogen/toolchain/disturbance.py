"""Whether others computed on this machine while something was measured."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_STAT = Path("/proc/stat")
# Columns of user, nice, system, irq, softirq and stolen time: all but the time of idle CPUs.
_BUSY = (0, 1, 2, 5, 6, 7)
# How much longer than its CPU time a measurement may take, and the share of all CPUs that others
# may use meanwhile: ten times what happens on a machine where nobody computes.
_WAITED, _SHARED = 0.2, 0.2


class _Counts(NamedTuple):
    """Seconds since some time."""

    wall: float
    thread: float  # CPU time of this thread
    process: float  # ... and of this process
    all: float | None  # ... and of all processes on all CPUs; None if the system does not say


class Watch:
    """Looks on from its making.

    ``alone``: all is measured on the thread that it is made on. ``helpers``: returns the CPU
    seconds of other processes that take part and are no disturbance.
    """

    def __init__(self, alone: bool = True, helpers: Callable[[], float] = lambda: 0.0) -> None:
        self._alone = alone
        self._helpers, self._helped = helpers, helpers()
        self._begin = _counts()

    def signs(self) -> tuple[str, ...]:
        """Return what speaks for others having computed since then, in words; () if nothing."""
        begin, end = self._begin, _counts()
        wall, thread = end.wall - begin.wall, end.thread - begin.thread
        signs = []
        waited = 1 - thread / max(wall, 1e-9)
        if self._alone and waited > _WAITED:
            signs.append(f"it waited for a CPU {100 * waited:.0f} % of the time")
        if begin.all is not None and end.all is not None:
            ours = (end.process - begin.process) + (self._helpers() - self._helped)
            others = (end.all - begin.all) - ours
            others /= max(wall, 1e-9) * (os.cpu_count() or 1)
            if others > _SHARED:
                signs.append(f"others took {100 * others:.0f} % of the CPUs")
        return tuple(signs)


def _counts() -> _Counts:
    return _Counts(time.perf_counter(), time.thread_time(), time.process_time(), _all_cpus())


def _all_cpus() -> float | None:
    """Seconds that all CPUs have been busy."""
    try:
        _, *ticks = _STAT.read_text().split("\n", 1)[0].split()
        return sum(int(ticks[column]) for column in _BUSY) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
