"""The machine's limits: that the work was really done, never how fast."""

import re
import shutil
import subprocess

import numpy as np
import pytest

from winogen.build import find_compiler, host_target, host_targets
from winogen.conv import limits
from winogen.conv.limits import Limits, WorkSkipped


@pytest.mark.parametrize("target", host_targets(), ids=lambda target: target.name)
def test_the_peak_is_measured_for_every_target(target):
    assert limits.fma_peak(1, target, seconds=0.001) > 0


def test_the_peak_on_two_threads():
    assert limits.fma_peak(2, seconds=0.001) > 0


def test_steps_left_out_are_noticed(monkeypatch):
    monkeypatch.setattr(limits, "_library", _tampered(limits._library, "limits_fma"))
    with pytest.raises(WorkSkipped):
        limits.fma_peak(1, seconds=0.001)


def test_reading_less_is_noticed(monkeypatch):
    monkeypatch.setattr(limits, "_library", _tampered(limits._library, "limits_read"))
    with pytest.raises(WorkSkipped):
        limits.read_speed(1 << 14, seconds=0.001)


def _tampered(library, name):
    """The library, one function of which does nothing."""

    class Lazy:
        def __getattr__(self, asked):
            if asked == name:
                return lambda *arguments: 0
            return getattr(library(host_target()).lib, asked)

    class Tampered:
        ffi, lib = library(host_target()).ffi, Lazy()

    return lambda target: Tampered


@pytest.mark.parametrize("size, threads", [(1 << 14, 1), (1 << 16, 2), (1000, 3)])
def test_reading_checks_its_sum(size, threads):
    assert limits.read_speed(size, threads, seconds=0.001) > 0


@pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump")
@pytest.mark.skipif(host_target().name not in ("avx512", "avx2"), reason="reads x86 FMAs")
def test_no_accumulator_was_merged_into_another():
    """Every chain of the measured loop keeps a register of its own."""
    path = limits._library(host_target()).path
    text = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True
    ).stdout
    registers = re.findall(r"vfmadd\d+ps\s.*%([xyz]mm\d+)$", text, re.MULTILINE)
    unrolled = 1 if find_compiler().family == "gcc" else None
    assert len(set(registers)) >= 12
    if unrolled:
        assert len(registers) % 12 == 0


def test_limits_know_their_levels():
    sizes = list(limits.levels(2).values())
    assert sizes == sorted(sizes) and len(sizes) >= 2
    found = Limits(2, {1: 50.0, 2: 100.0}, (("L2", 1 << 20, 90.0), ("memory", 1 << 30, 20.0)))
    assert found.peak == 100.0
    assert [found.reading(size)[0] for size in (1, 1 << 20, (1 << 20) + 1, 1 << 40)] == [
        *("L2", "L2", "memory", "memory")
    ]
    assert found.to_dict()["fma_peak_gflops_by_threads"] == {"1": 50.0, "2": 100.0}
    assert found.to_dict()["read_gbytes_per_s"]["L2"] == {"bytes": 1 << 20, "gbytes_per_s": 90.0}


def test_caches_are_guessed_where_the_system_is_silent(monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "_CACHES", tmp_path)
    assert list(limits.levels()) == ["L1", "L2", "L3", "memory"]
    (tmp_path / "index0").mkdir()
    for name, text in (("type", "Unified"), ("level", "2"), ("size", "2048K")):
        (tmp_path / "index0" / name).write_text(text)
    assert limits.levels() == {"L2": 1 << 20, "memory": 4 << 20}


def test_measure_limits_counts_threads(monkeypatch):
    monkeypatch.setattr(limits, "levels", lambda threads: {"L1": 4096, "memory": 1 << 16})
    found = limits.measure_limits(3, seconds=0.0)
    assert list(found.fma_gflops) == [1, 2, 3]
    assert [level for level, _, _ in found.read] == ["L1", "memory"]
    assert all(np.isfinite(speed) and speed > 0 for _, _, speed in found.read)
