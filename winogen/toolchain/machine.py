"""The machine that the planner plans for: measured once, kept in the cache folder.

The first plan on a machine measures it, in about a second, and keeps the result in the cache
folder, from where later processes take it, so that their plans are the same; ``winogen calibrate``
measures anew. The default machine, a middling server core, is used where measuring fails (no
compiler, no folder to write to, no memory), where ``WINOGEN_CALIBRATE=0`` forbids it, and in code
for another machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import warnings
from contextlib import suppress
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from winogen.errors import OutOfMemory, WinogenError
from winogen.records import Costs, Machine, costs_of
from winogen.toolchain import calibrate, trust
from winogen.toolchain.cache import cache_root, write_whole
from winogen.toolchain.host import host_target
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
    if machine.costs in (Costs(), _unfitted()):  # later versions may know better
        del record["costs"]
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
        default = asdict(Machine(costs=_unfitted()))
        costs = default.pop("costs")
        rates = {name: type(value)(record[name]) for name, value in default.items()}
        costs = _costs(record.get("costs", costs))  # kept only where they were fitted
        machine = Machine(**rates, costs=costs).check()
        return _Record(machine, int(record.get("sample_bytes", MEMORY_SAMPLE)))
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _unfitted() -> Costs:
    """What the model counts with on this CPU until it is fitted."""
    return costs_of(host_target().core)


def _costs(record: dict[str, Any]) -> Costs:
    names = [field.name for field in fields(Costs) if field.name != "provenance"]
    numbers = {name: float(record[name]) for name in names}
    return Costs(provenance=str(record["provenance"]), **numbers)


def current() -> Machine:
    """Return this machine as it was measured, else the default."""
    return _known()


@cache
def _known() -> Machine:
    """This machine, measured if it has not been yet, or the default; the same all process long."""
    folder = cache_root()
    kept = _read(folder)
    if os.environ.get("WINOGEN_CALIBRATE") == "0":
        return kept.machine if kept else Machine(costs=_unfitted())
    samples = _samples()
    # A measurement where memory was short is replaced by a better one.
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
        return Machine(costs=_unfitted())
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


def cpu_name() -> str:
    """Return what this CPU calls itself, or at least its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _file(folder: Path) -> Path:
    """Where this kind of CPU is described: machines may share a cache folder."""
    cpu = platform.machine() + platform.processor() + cpu_name()
    return folder / f"machine-{hashlib.sha256(cpu.encode()).hexdigest()[:12]}.json"
