"""The machine that the planner plans for: measured once, kept in the cache folder.

The first plan on a machine measures it, in about a second, and keeps the result in the cache
folder, from where later processes take it, so that their plans are the same; ``winogen calibrate``
measures anew. Where that cannot be done (no compiler, no folder to write to, no memory) or is not
wanted (``WINOGEN_CALIBRATE=0``), and in code for another machine, the default stands: a middling
server core.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

from winogen.errors import OutOfMemory, WinogenError
from winogen.records import Machine
from winogen.toolchain import calibrate, trust
from winogen.toolchain.cache import cache_root, write_whole
from winogen.toolchain.limits import MEMORY_SAMPLE
from winogen.toolchain.room import memory_left

_MEASURING = 0.03  # seconds for each rate, when nobody asked
# Bytes that a measurement nobody asked for may take: the first where nothing speaks against it, and
# the others where memory is short. With less than the last, caches would pass for memory.
_SAMPLES = (64 << 20, 16 << 20, 4 << 20)


class _Record(NamedTuple):
    machine: Machine
    sample: int  # most bytes that the measurement was allowed


def save(machine: Machine, folder: Path, sample: int = MEMORY_SAMPLE) -> Path:
    """Keep ``machine``, measured in at most ``sample`` bytes, for later processes; return the file.

    Raises OSError if it cannot be written, Untrusted if others could change it.
    """
    trust.check_folder(folder)
    path = _file(folder)
    record = {**asdict(machine), "sample_bytes": sample}
    write_whole(path, (json.dumps(record, indent=2) + "\n").encode())
    _known.cache_clear()
    return path


def forget(folder: Path) -> None:
    """Remove the machine kept in ``folder``, if there is one."""
    _file(folder).unlink(missing_ok=True)
    _known.cache_clear()


def stored(folder: Path) -> Machine | None:
    """Return the machine kept in ``folder``; None if there is none that could exist."""
    record = _read(folder)
    return record.machine if record else None


def _read(folder: Path) -> _Record | None:
    try:
        record = json.loads(trust.read(_file(folder)))
        default = asdict(Machine())
        numbers = {name: type(value)(record[name]) for name, value in default.items()}
        return _Record(Machine(**numbers).check(), int(record.get("sample_bytes", MEMORY_SAMPLE)))
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


@contextmanager
def assumed(machine: Machine) -> Iterator[None]:
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
    folder = cache_root()
    kept = _read(folder)
    if os.environ.get("WINOGEN_CALIBRATE") == "0":
        return kept.machine if kept else Machine()
    samples = _samples()
    # What was measured where memory was short gives way to something better.
    if kept and not any(sample > kept.sample for sample in samples):
        return kept.machine
    try:
        record = _measure(samples)
        meanwhile = _read(folder)  # all use the same, if several began to measure at once
        if meanwhile and meanwhile.sample >= record.sample:
            record = meanwhile
        else:  # one that cannot be kept would differ from process to process
            save(record.machine, folder, record.sample)
    except (WinogenError, OSError, MemoryError) as reason:
        if kept:
            return kept.machine
        _warn(f"this machine could not be measured ({reason}): plans are for a middling server")
        return Machine()
    if record.sample < _SAMPLES[0]:
        _warn(
            f"this machine was measured in {record.sample >> 20} MiB of memory, since no more is "
            "allowed here: plans may be others than elsewhere"
        )
    return record.machine


def _samples() -> list[int]:
    """The sizes of samples that there is memory for now, largest first."""
    left = memory_left()
    return [size for size in _SAMPLES if left is None or size <= left // 4]


def _measure(samples: list[int]) -> _Record:
    for sample in samples:
        with suppress(OutOfMemory):
            return _Record(calibrate.calibrated(seconds=_MEASURING, most_bytes=sample), sample)
    raise OutOfMemory(f"sample of memory: could not take {_SAMPLES[-1]} bytes")


def _warn(problem: str) -> None:
    warnings.warn(
        f"{problem}; `winogen calibrate` measures again, WINOGEN_CALIBRATE=0 does without",
        RuntimeWarning,
        stacklevel=3,
    )


def _file(folder: Path) -> Path:
    """Where this kind of CPU is described: machines may share a cache folder."""
    cpu = platform.machine() + platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu += next((line for line in lines if line.startswith("model name")), "")
    except OSError:
        pass
    return folder / f"machine-{hashlib.sha256(cpu.encode()).hexdigest()[:12]}.json"
