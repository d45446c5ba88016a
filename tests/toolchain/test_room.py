"""Limits of memory, as the system words them."""

import resource

import pytest

from winogen.toolchain import room

MIB = 1 << 20


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A system without limits, to which ``system(path, text)`` adds files below /sys/fs/cgroup."""
    monkeypatch.setattr(room, "_CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(room, "_MOUNT", tmp_path / "mount")
    monkeypatch.setattr(room, "_STATM", tmp_path / "statm")
    monkeypatch.setattr(room, "_MEMINFO", tmp_path / "meminfo")
    (tmp_path / "statm").write_text(f"{10 * MIB // resource.getpagesize()} 5 1 1 0 1 0\n")
    limit = [resource.RLIM_INFINITY]
    monkeypatch.setattr(room.resource, "getrlimit", lambda which: (limit[0], limit[0]))

    def write(path: str, text: str) -> None:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    write.limit = limit
    return write


def test_without_limits_there_is_none(system):
    assert room.memory_left() is None
    system("cgroup", "0::/a/b\n")
    system("mount/a/b/memory.max", "max\n")
    assert room.memory_left() is None


def test_what_the_machine_has_left_counts(system):
    system("meminfo", "MemTotal:  9000 kB\nMemFree:  50 kB\nMemAvailable:   700 kB\n")
    assert room.memory_left() == 700 << 10
    system.limit[0] = 5 * MIB
    assert room.memory_left() == 0
    system("meminfo", "MemTotal:  9000 kB\n")  # as old systems say it
    system.limit[0] = resource.RLIM_INFINITY
    assert room.memory_left() is None


def test_the_address_space_counts_without_what_is_taken(system):
    system.limit[0] = 100 * MIB
    assert room.memory_left() == 90 * MIB
    system.limit[0] = 5 * MIB
    assert room.memory_left() == 0


def test_the_tightest_group_above_counts(system):
    system("cgroup", "1:name=systemd:/x\n0::/a/b\n")
    for path, most, taken in (("a", 300, 200), ("a/b", 900, 100), (".", 800, 100)):
        system(f"mount/{path}/memory.max", f"{most * MIB}\n")
        system(f"mount/{path}/memory.current", f"{taken * MIB}\n")
        system(f"mount/{path}/memory.stat", f"anon 1\ninactive_file {20 * MIB}\n")
    assert room.memory_left() == 120 * MIB


def test_the_older_names_are_read_too_where_only_the_topmost_is_in_sight(system):
    system("cgroup", "4:memory:/outside/of/the/container\n5:cpu:/y\n")
    system("mount/memory/memory.limit_in_bytes", f"{512 * MIB}")
    system("mount/memory/memory.usage_in_bytes", f"{112 * MIB}")
    system("mount/memory/memory.stat", "total_inactive_file 0")
    assert room.memory_left() == 400 * MIB
