"""A machine as the planner sees it: rates per clock cycle of one core, and cache sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from winogen.errors import InvalidValue
from winogen.records.costs import Costs

# Bytes of a cache line, and of the widest vector there is: where arrays and buffers begin.
LINE = 64
# The first cache of a core: planners see it in no other place, and it hardly differs.
L1_BYTES = 32 << 10
_LARGEST = 1 << 50  # bytes of a cache, and any rate: numbers above it are mistakes


@dataclass(frozen=True)
class Machine:
    """Rates of one core. A cycle is a cycle of the FMA units at full load.

    The default is a middling server core.

    >>> machine = Machine()
    >>> bool(machine.read_rate(256 << 10) > machine.read_rate(8 << 20) > machine.read_rate(1 << 30))
    True
    """

    clock_ghz: float = 3.0
    vectors_per_cycle: float = 2.0  # FMAs (or additions) of full vectors
    l2_bytes: int = 1 << 20  # of one core
    l3_bytes: int = 16 << 20  # what one core can count on of the last cache
    l2_rate: float = 40.0  # bytes per cycle, streamed
    l3_rate: float = 12.0
    memory_rate: float = 4.0
    costs: Costs = Costs()  # what the model of the kernels counts with

    @property
    def l2_room(self) -> float:
        """Bytes of L2 to count on: a quarter is lost to addresses that fall into the same sets."""
        return self.l2_bytes * 3 / 4

    @property
    def without_barriers(self) -> Machine:
        """The same for threads that cannot wait for each other: each makes what all of them read.

        >>> Machine().without_barriers.costs.barrier
        inf
        """
        return replace(self, costs=replace(self.costs, barrier=math.inf))

    def among(self, filters: float) -> Machine:
        """The same for layers of a net with so many bytes of filters.

        Where these have no room in the last cache, each layer reads its own from memory: until its
        next call all others have taken their place.

        >>> Machine().among(100 << 20).costs.filters_displaced
        inf
        """
        if filters <= self.l3_bytes:
            return self
        return replace(self, costs=replace(self.costs, filters_displaced=math.inf))

    def read_rate(self, size: npt.ArrayLike) -> np.ndarray:
        """Return the bytes per cycle at which ``size`` bytes are streamed again and again."""
        beyond = np.where(np.asarray(size) <= self.l3_bytes, self.l3_rate, self.memory_rate)
        return np.where(np.asarray(size) <= self.l2_bytes // 2, self.l2_rate, beyond)

    def check(self) -> Machine:
        """Return this machine; raises InvalidValue unless one like it could exist.

        >>> Machine(l3_rate=float("nan")).check()
        Traceback (most recent call last):
        winogen.errors.InvalidValue: l3_rate: got nan; allowed: a finite number above 0
        """
        for field in fields(self):
            if field.name == "costs":
                continue
            value = getattr(self, field.name)
            if not (math.isfinite(value) and 0 < value <= _LARGEST):
                raise InvalidValue(f"{field.name}: got {value}; allowed: a finite number above 0")
        if self.l2_bytes > self.l3_bytes:
            raise InvalidValue(f"l2_bytes: got {self.l2_bytes}; allowed: at most l3_bytes")
        return self
