"""The file in the cache folder that describes this kind of CPU, and what is known of its origin.

Rates and constants are those of an instruction set: one that WINOGEN_ISA asks for has a file of its
own.
"""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from winogen import environment
from winogen.records import Costs, Machine, costs_of
from winogen.toolchain import trust
from winogen.toolchain.cache import write_whole
from winogen.toolchain.host import host_target, host_targets
from winogen.toolchain.limits import MEMORY_SAMPLE

FORMAT = 2  # of the file; the first one measured what others left of the machine


class Record(NamedTuple):
    """A machine, and what is known of its measurement."""

    machine: Machine
    sample: int = MEMORY_SAMPLE  # most bytes that the measurement was allowed
    measured: datetime | None = None  # None: an earlier version did not say
    checked: datetime | None = None  # when somebody last compared it with the machine
    signs: tuple[str, ...] = ()  # what speaks against it, in words
    rates: Machine | None = None  # as measured, where constants and rates were fitted
    slower: int = 0  # looks in a row that found less, though others computed
    format: int = FORMAT

    @property
    def is_fitted(self) -> bool:
        """Whether ``winogen calibrate`` fitted the constants, which takes a minute."""
        return self.machine.costs not in (Costs(), unfitted())

    @property
    def is_provisional(self) -> bool:
        """Whether the machine is measured again until nothing speaks against the result.

        What was fitted is not, since measuring rates would be to throw away more than is gained.
        """
        return bool(self.signs) and not self.is_fitted

    @property
    def as_measured(self) -> Machine:
        """The machine before anything was fitted."""
        return self.rates or self.machine


def write(record: Record, folder: Path) -> Path:
    """Keep a record for later processes; return the file.

    Raises OSError if it cannot be written, Untrusted if others could change it.
    """
    trust.check_folder(folder)
    path = file_in(folder)
    values: dict[str, Any] = {**asdict(record.machine), "sample_bytes": record.sample}
    if not record.is_fitted:  # later versions may know better
        del values["costs"]
    values["format"], values["signs"] = record.format, list(record.signs)
    values["slower"] = record.slower
    for name in ("measured", "checked"):
        moment: datetime | None = getattr(record, name)
        values[name] = moment and moment.isoformat(timespec="seconds")
    if record.rates:
        values["rates"] = asdict(record.rates)
        del values["rates"]["costs"]
    write_whole(path, (json.dumps(values, indent=2) + "\n").encode())
    return path


def read(folder: Path) -> Record | None:
    """Return the record kept in ``folder``; None if there is none that could be true."""
    try:
        values = json.loads(trust.read(file_in(folder)))
        costs = _costs(values["costs"]) if "costs" in values else unfitted()
        rates = _machine(values["rates"], unfitted()) if "rates" in values else None
        return Record(
            _machine(values, costs),
            int(values.get("sample_bytes", MEMORY_SAMPLE)),
            _moment(values.get("measured")),
            _moment(values.get("checked")),
            tuple(map(str, values.get("signs", ()))),
            rates,
            int(values.get("slower", 0)),
            int(values.get("format", 1)),
        )
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def remove(folder: Path) -> None:
    """Remove the record kept in ``folder``, if there is one."""
    file_in(folder).unlink(missing_ok=True)


def unfitted() -> Costs:
    """Return what the model counts with on this CPU until it is fitted."""
    return costs_of(host_target().core)


def now() -> datetime:
    """Return the time, to the second."""
    return datetime.now(timezone.utc).replace(microsecond=0)


def cpu_name() -> str:
    """Return what this CPU calls itself, or at least its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _machine(values: dict[str, Any], costs: Costs) -> Machine:
    default = asdict(Machine())
    del default["costs"]
    rates = {name: type(value)(values[name]) for name, value in default.items()}
    return Machine(**rates, costs=costs).check()


def _costs(values: dict[str, Any]) -> Costs:
    """The constants of a file; constants younger than its version of winogen are not fitted."""
    usual = asdict(unfitted())
    numbers = {name: float(values.get(name, usual[name])) for name in usual.keys() - {"provenance"}}
    return Costs(provenance=str(values["provenance"]), **numbers)


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def file_in(folder: Path) -> Path:
    """Return where this kind of CPU is described: machines may share a cache folder.

    The name of the file says what the CPU is taken for, which instruction set it is for, and which
    extensions are left out, unless it is the CPU's own.
    """
    cpu = platform.machine() + platform.processor() + cpu_name()
    target, known = host_target(), host_targets()
    whole = next(one for one in known if one.name == target.name)
    words = [target.name, *sorted(whole.extensions - target.extensions)]
    taken_for = environment.value("WINOGEN_CPU")
    if taken_for or words != [known[0].name]:
        words = ["", *filter(None, [taken_for]), *words]
    else:
        words = []
    suffix = "-".join(words)
    return folder / f"machine-{hashlib.sha256(cpu.encode()).hexdigest()[:12]}{suffix}.json"
