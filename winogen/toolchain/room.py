"""How much more memory this process may take, as far as the system tells."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_STATM = Path("/proc/self/statm")
_MEMINFO = Path("/proc/meminfo")
_CGROUPS = Path("/proc/self/cgroup")
_MOUNT = Path("/sys/fs/cgroup")
# What holds the limit, the bytes taken, and what of these the system would give back: v2 and v1.
_NAMES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def memory_left() -> int | None:
    """Return the bytes that this process may still take; None where nobody knows.

    Limits come from the address space (``ulimit -v``), from cgroups, as containers have them, and
    from what the machine has left for all.
    """
    limits = (*_address_space(), *_cgroups(), *_machine())
    return min((max(0, left) for left in limits), default=None)


def _address_space() -> Iterator[int]:
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY:
        taken = 0
        with suppress(OSError, ValueError):
            taken = int(_STATM.read_text().split()[0]) * resource.getpagesize()
        yield most - taken


def _machine() -> Iterator[int]:
    with suppress(OSError, ValueError, KeyError):
        lines = (line.split() for line in _MEMINFO.read_text().splitlines())
        yield 1024 * int({line[0]: line[1] for line in lines}["MemAvailable:"])


def _cgroups() -> Iterator[int]:
    try:
        lines = _CGROUPS.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "" or "memory" in controllers.split(","):
            mount = _MOUNT / "memory" if controllers else _MOUNT
            # A group is held to the limits of the groups above it. In a container only the topmost
            # may be in sight.
            group = mount / path.lstrip("/")
            for folder in (group, *group.parents):
                yield from _left(folder)
                if folder == mount:
                    break


def _left(folder: Path) -> Iterator[int]:
    for limit, usage, inactive in _NAMES:
        with suppress(OSError, ValueError):  # "max" is no limit
            most, taken = (int((folder / name).read_text()) for name in (limit, usage))
            stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            yield most - taken + int(stat.get(inactive, 0))
