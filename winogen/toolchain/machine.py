"""What the planner believes about the machine: rates per clock cycle of one core, and cache sizes.

The first plan on a machine measures it, in about a second, and keeps the result in the cache folder,
from where later processes take it, so that their plans are the same; ``winogen calibrate`` measures
anew. Where that cannot be done (no compiler, no folder to write to) or is not wanted
(``WINOGEN_CALIBRATE=0``), and in code for another machine, the default stands: a middling server core.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path

import numpy as np

from winogen.errors import WinogenError

_MEASURING = 0.03  # seconds for each rate, when nobody asked


@dataclass(frozen=True)
class Machine:
    """Rates of one core. A cycle is that of the FMA units at full load.

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

    def read_rate(self, size):
        """Return the bytes per cycle at which ``size`` bytes are streamed again and again."""
        beyond = np.where(size <= self.l3_bytes, self.l3_rate, self.memory_rate)
        return np.where(size <= self.l2_bytes // 2, self.l2_rate, beyond)


def save(machine: Machine, folder: Path) -> Path:
    """Keep ``machine`` in ``folder`` for later processes; return the file."""
    from winogen.toolchain import write_whole

    path = _file(folder)
    write_whole(path, (json.dumps(asdict(machine), indent=2) + "\n").encode())
    _known.cache_clear()
    return path


def forget(folder: Path) -> None:
    """Remove the machine kept in ``folder``, if there is one."""
    _file(folder).unlink(missing_ok=True)
    _known.cache_clear()


def stored(folder: Path) -> Machine | None:
    """Return the machine kept in ``folder``; None if there is none or it is not readable as one."""
    try:
        known = json.loads(_file(folder).read_text())
        return Machine(
            **{field.name: type(field.default)(known[field.name]) for field in fields(Machine)}
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextmanager
def assumed(machine: Machine):
    """Plan for ``machine`` within the block, whatever this one is: for code that runs elsewhere."""
    token = _assumed.set(machine)
    try:
        yield
    finally:
        _assumed.reset(token)


def current() -> Machine:
    """Return the assumed machine, else this one as it was measured, else the default."""
    return _assumed.get() or _known()


_assumed: ContextVar[Machine | None] = ContextVar("assumed", default=None)


@cache
def _known() -> Machine:
    """This machine, measured if it has not been yet, or the default; the same all process long."""
    from winogen.toolchain import cache_dir

    folder = cache_dir()
    found = stored(folder)
    if found or os.environ.get("WINOGEN_CALIBRATE") == "0":
        return found or Machine()
    from winogen.toolchain.calibrate import calibrated

    try:
        measured = calibrated(seconds=_MEASURING)
        found = stored(folder)  # all use the same, if several began to measure at once
        if not found:
            found = measured
            save(found, folder)  # one that cannot be kept would differ from process to process
    except (WinogenError, OSError):
        return Machine()
    return found


def _file(folder: Path) -> Path:
    """Where this kind of CPU is described: machines may share a cache folder."""
    cpu = platform.machine() + platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu += next((line for line in lines if line.startswith("model name")), "")
    except OSError:
        pass
    return folder / f"machine-{hashlib.sha256(cpu.encode()).hexdigest()[:12]}.json"
