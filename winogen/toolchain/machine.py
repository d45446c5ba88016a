"""The machine that the planner plans for: measured once, kept in the cache folder.

The first plan on a machine measures it, in half a second, and keeps the result in the cache folder,
from where later processes take it, so that their plans are the same. ``winogen calibrate`` measures
anew. Where prebuilt kernels make the first call quick, measuring waits for one that is slow anyway,
as it compiles or optimizes; until then plans are for the machine that is known of this kind of CPU.
With the kernels of a bundle comes the record of the machine that made it, for CPUs of its name.
The default machine, a middling server core, is used where none is known, where measuring fails (no
compiler, no folder to write to, no memory), where ``WINOGEN_CALIBRATE=0`` forbids it, and in code
for another machine.

A first measurement may have been disturbed, and a virtual machine may move to another host. So a
record is looked at again, by the first plan of a process and at most once a day:

- One that others disturbed is provisional. The machine is measured again, and each rate is the
  fastest of all measurements, until nothing disturbs one: then this one takes their place.
- Any other is compared with a measurement of a few milliseconds. What differs by a factor is
  measured properly. Faster than recorded proves the record wrong, and so do a slower core and
  second level, since other programs hardly touch them. A slower third level or memory counts if
  nothing disturbed the new measurement, or if it is found three times in a row.

Within a process the machine never changes.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import NamedTuple

from winogen import environment
from winogen.errors import OutOfMemory, WinogenError
from winogen.records import Machine
from winogen.records.machines import KNOWN, known_machine
from winogen.toolchain import calibrate, machine_file, prebuilt
from winogen.toolchain.cache import KernelStore, cache_root
from winogen.toolchain.host import host_target, lineage
from winogen.toolchain.limits import MEMORY_SAMPLE, levels
from winogen.toolchain.machine_file import FORMAT, Record, now, unfitted
from winogen.toolchain.room import memory_left

_MEASURING, _COMPARING = 0.03, 0.004  # seconds for each rate, when nobody asked
# Bytes that a measurement nobody asked for may take: the first where nothing speaks against it, and
# the others where memory is short. With less than the last, caches would pass for memory.
_SAMPLES = (64 << 20, 16 << 20, 4 << 20)
_DAY = timedelta(days=1)
# By what factor a rate or size must differ to be another one: well above what noise does.
_CHANGED = 2.5
_SHARED = ("l3_bytes", "l3_rate", "memory_rate")  # what others make slower while they compute
_LOOKS = 3  # in a row that find these slower, and are believed


class _Known(NamedTuple):
    """The machine of this process: the recorded one, or the default for a reason."""

    machine: Machine
    record: Record | None
    reason: str = ""
    waits: bool = False  # for its measurement


def save(
    machine: Machine,
    folder: Path,
    sample: int = MEMORY_SAMPLE,
    signs: tuple[str, ...] = (),
    rates: Machine | None = None,
) -> Path:
    """Keep ``machine``, measured in at most ``sample`` bytes, for later processes; return the file.

    ``signs``: what speaks against the measurement, in words. ``rates``: the machine before it was
    fitted, if it was. Raises OSError if it cannot be written, Untrusted if others could change it.
    """
    path = machine_file.write(Record(machine, sample, now(), now(), signs, rates), folder)
    _known.cache_clear()
    return path


def forget(folder: Path) -> None:
    """Remove the machine kept in ``folder``, if there is one."""
    machine_file.remove(folder)
    _known.cache_clear()


def stored(folder: Path) -> Machine | None:
    """Return the machine kept in ``folder``; None if there is none that could exist."""
    record = machine_file.read(folder)
    return record.machine if record else None


def current() -> Machine:
    """Return this machine as it was measured, else the default."""
    return _known().machine


def changes(folder: Path) -> dict[str, float] | None:
    """Return how many times as fast or large as recorded this machine is found to be, by name.

    Only what differs by a factor is returned, by a measurement of milliseconds. None where
    ``folder`` has no record, or where memory is short. Raises BuildError and OutOfMemory.
    """
    record, samples = machine_file.read(folder), _samples()
    return _look(record, min(samples[0], record.sample)) if record and samples else None


def described(folder: Path | None = None) -> str:
    """Return in one line which machine this process plans for, how old its record is, and a cure.

    ``folder``: the folder of another record to describe, without measuring anything.

    >>> described(Path("nowhere")).startswith("none")
    True
    """
    if folder is not None:
        record = machine_file.read(folder)
        if record:
            return _text(record)
        if not may_measure():
            return "none, and WINOGEN_CALIBRATE=0 forbids to measure one"
        return "none yet: the first plan measures this machine"
    state = _known()
    if state.record:
        return _text(state.record)
    default = state.machine == Machine(costs=unfitted())
    what = "default, a middling server" if default else "as known of this kind of CPU"
    return f"{what} ({state.reason}); `winogen calibrate` measures this one"


def _text(record: Record) -> str:
    signs = f": {', '.join(record.signs)}" if record.signs else ""
    when = "by an earlier version"
    if record.measured:
        days = max(0, (now() - record.measured).days)
        age = "today" if days == 0 else f"{days} day{'s' * (days > 1)} ago"
        when = f"{record.measured.date().isoformat()} ({age})"
    if record.is_provisional:
        return f"provisional, measured {when}{signs}; `winogen calibrate` settles it"
    return f"{'calibrated' if record.is_fitted else 'measured'} {when}{signs}"


def settle() -> None:
    """Measure the machine if that has waited so far, for callers that take their time anyway.

    This process plans by the result if nobody has asked for the machine before.
    """
    if may_measure() and machine_file.read(cache_root()) is None:
        _looked(None)


def is_new() -> bool:
    """Whether this machine waits for its measurement."""
    return _known().waits


def may_measure() -> bool:
    """Whether plans may depend on what is measured here: unless ``WINOGEN_CALIBRATE=0``."""
    return environment.value("WINOGEN_CALIBRATE") != "0"


@cache
def _known() -> _Known:
    """This machine, measured if it has not been yet, or the default; the same all process long."""
    folder = cache_root()
    kept = machine_file.read(folder)
    for bundled in () if kept else map(machine_file.read, prebuilt.folders()):
        if bundled:
            return _Known(bundled.machine, bundled)
    if not may_measure():
        default = Machine(costs=unfitted())
        return _Known(kept.machine, kept) if kept else _Known(default, None, "WINOGEN_CALIBRATE=0")
    if not kept and prebuilt.archives(host_target().name):
        name = next((name for name in lineage() if name in KNOWN), "")
        wide, core = host_target().vector_bytes, host_target().core
        shipped = known_machine(name, wide, core) or Machine(costs=unfitted())
        return _Known(shipped, None, "this one waits for its measurement", True)
    return _looked(kept)


def _looked(kept: Record | None) -> _Known:
    """This machine after a look at it, unless that is not due."""
    folder, samples = cache_root(), _samples()
    if kept and not _is_due(kept, samples):
        return _Known(kept.machine, kept)
    try:
        record = _renewed(folder, kept, samples)
    except (WinogenError, OSError, MemoryError) as reason:
        if kept:  # what cannot be kept would differ from process to process
            return _Known(kept.machine, kept)
        _warn(f"this machine could not be measured ({reason}): plans are for a middling server")
        return _Known(Machine(costs=unfitted()), None, "this one could not be measured")
    if record.sample < _SAMPLES[0] and record != kept:
        _warn(
            f"this machine was measured in {record.sample >> 20} MiB of memory, since no more is "
            "allowed here: plans may be others than elsewhere"
        )
    return _Known(record.machine, record)


def _is_due(record: Record, samples: list[int]) -> bool:
    """Whether a record must be looked at again.

    It is so after a day, at once for a record of an earlier version, and if there is more memory
    now than at the measurement.
    """
    if any(sample > record.sample for sample in samples):
        return True
    return record.checked is None or not timedelta(0) <= now() - record.checked < _DAY


def _renewed(folder: Path, kept: Record | None, samples: list[int]) -> Record:
    """The record after a look at the machine, kept in the folder; raises what prevents that.

    Processes that look at once would disturb each other, and so they wait.
    """
    with KernelStore(folder).lock("machine", on_wait=lambda: None):
        latest = machine_file.read(folder)
        if latest and latest != kept and not _is_due(latest, samples):
            return latest
        if latest:
            # Before anything is measured: a folder that takes no files costs no time.
            latest = latest._replace(checked=now())
            machine_file.write(latest, folder)
            if samples and samples[0] < min(latest.sample, _SAMPLES[0]):
                return latest  # which was measured in more memory than there is now
            is_settled = latest.format == FORMAT and not latest.is_provisional
            if is_settled and samples and samples[0] <= latest.sample and _fits(latest, samples[0]):
                if latest.slower:
                    latest = latest._replace(slower=0)
                    machine_file.write(latest, folder)
                return latest
        measurement = _measured(samples)
        record = _better(latest, measurement) if latest else measurement
        # Without the lock another process may have measured meanwhile. All take what it kept.
        others = machine_file.read(folder)
        if others and others != latest and others.sample >= record.sample and not others.signs:
            return others
        machine_file.write(record, folder)
        return record


def _better(kept: Record, found: Record) -> Record:
    """Which of two measurements to believe, or what both show together."""
    if kept.sample < found.sample or (kept.format < FORMAT and not kept.is_fitted):
        return found
    if kept.is_provisional:
        together = calibrate.fastest(found.machine, kept.machine)
        return found._replace(machine=together) if found.signs else found
    changes = _changes(found.machine, found.sample, kept)
    slower = [name for name, change in changes.items() if change < 1]
    again = slower and kept.slower + 1 == _LOOKS
    if again or set(slower) - set(_SHARED) or (changes and not found.signs):
        return found
    if len(slower) < len(changes):
        return found._replace(machine=calibrate.fastest(found.machine, kept.as_measured))
    return kept._replace(format=FORMAT, slower=kept.slower + 1 if slower else 0)


def _fits(record: Record, sample: int) -> bool:
    """Whether the machine is about what the record says, by a quick measurement."""
    return not _look(record, sample)


def _look(record: Record, sample: int) -> dict[str, float]:
    measurement = calibrate.calibrated(seconds=_COMPARING, most_bytes=sample, rounds=1)
    return _changes(measurement.machine, sample, record)


def _changes(machine: Machine, sample: int, record: Record) -> dict[str, float]:
    """How many times as fast or large are rates and sizes that differ from a record by a factor."""
    ratios = calibrate.ratios(machine, record.as_measured)
    if levels(1, sample)["memory"] < levels(1, record.sample)["memory"]:
        for name in _SHARED:  # caches may pass for memory
            del ratios[name]
    return {name: ratio for name, ratio in ratios.items() if max(ratio, 1 / ratio) > _CHANGED}


def _samples() -> list[int]:
    """The sizes of samples that there is memory for now, largest first."""
    left = memory_left()
    return [size for size in _SAMPLES if left is None or size <= left // 4]


def _measured(samples: list[int]) -> Record:
    for sample in samples:
        with suppress(OutOfMemory):
            measurement = calibrate.calibrated(seconds=_MEASURING, most_bytes=sample, doubts=True)
            return Record(measurement.machine, sample, now(), now(), measurement.signs)
    raise OutOfMemory(f"sample of memory: could not take {_SAMPLES[-1]} bytes")


def _warn(problem: str) -> None:
    warnings.warn(
        f"{problem}; `winogen calibrate` measures again, WINOGEN_CALIBRATE=0 does without",
        RuntimeWarning,
        stacklevel=3,
    )
