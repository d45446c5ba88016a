"""The machine's limits: that the work was really done, never how fast."""

import re
import shutil
import subprocess
import time
from types import SimpleNamespace

import numpy as np
import pytest

from winogen.errors import OutOfMemory
from winogen.toolchain import find_compiler, host_target, host_targets, limits, meters
from winogen.toolchain.limits import Limits
from winogen.toolchain.meters import WorkSkipped


@pytest.mark.parametrize("target", host_targets(), ids=lambda target: target.name)
def test_the_peak_is_measured_for_every_target(target):
    assert limits.fma_peak(1, target, seconds=0.001) > 0


def test_the_peak_on_two_threads():
    assert limits.fma_peak(2, seconds=0.001) > 0


def test_steps_left_out_are_noticed(monkeypatch):
    monkeypatch.setattr(meters, "_library", _tampered(meters._library, "limits_fma"))
    with pytest.raises(WorkSkipped):
        limits.fma_peak(1, seconds=0.001)


def memory(size, threads=1, target=None):
    return meters.MemoryMeter(size, threads, target or host_target())


@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("target", host_targets(), ids=lambda target: target.name)
@pytest.mark.parametrize("size, threads", [(1 << 14, 1), (1000, 3)])
def test_writing_checks_what_was_written(target, size, threads, past):
    assert meters.Writing(memory(size, threads, target), size, past).go_on(0.001) > 0


def test_writing_less_is_noticed(monkeypatch):
    monkeypatch.setattr(meters, "_library", _tampered(meters._library, "limits_write"))
    with pytest.raises(WorkSkipped):
        meters.Writing(memory(1 << 14), 1 << 14, False).go_on(0.001)


def test_reading_less_is_noticed(monkeypatch):
    monkeypatch.setattr(meters, "_library", _tampered(meters._library, "limits_read"))
    with pytest.raises(WorkSkipped):
        meters.Reading(memory(1 << 14), 1 << 14).go_on(0.001)


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
    assert meters.Reading(memory(size, threads), size).go_on(0.001) > 0


@pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump")
@pytest.mark.skipif(host_target().name not in ("avx512", "avx2"), reason="reads x86 FMAs")
def test_no_accumulator_was_merged_into_another():
    """Every chain of the measured loop keeps a register of its own."""
    path = meters._library(host_target()).path
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


@pytest.mark.parametrize("most", (4 << 20, 16 << 20, 64 << 20))
def test_no_sample_is_larger_than_allowed(monkeypatch, most):
    monkeypatch.setattr(limits, "_caches", lambda: {"L1": 32 << 10, "L2": 2 << 20, "L3": 256 << 20})
    sizes = list(limits.levels(1, most).values())
    assert sizes == sorted(set(sizes)) and sizes[-1] == most
    assert list(limits.levels(1)) == ["L1", "L2", "L3", "memory"]
    assert limits.levels(1)["memory"] == 512 << 20


def test_memory_that_is_not_there_is_an_error_of_ours():
    with pytest.raises(OutOfMemory, match="sample of memory"):
        memory(1 << 60)


def test_caches_are_guessed_where_the_system_is_silent(monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "_CACHES", tmp_path)
    assert list(limits.levels()) == ["L1", "L2", "L3", "memory"]
    (tmp_path / "index0").mkdir()
    for name, text in (("type", "Unified"), ("level", "2"), ("size", "2048K")):
        (tmp_path / "index0" / name).write_text(text)
    assert limits.levels() == {"L2": 1 << 20, "memory": 4 << 20}


def test_writing_has_levels_of_its_own():
    read, write = (("memory", 1 << 30, 20.0),), (("L2", 1 << 20, 40.0), ("memory", 1 << 30, 5.0))
    both = Limits(1, {1: 50.0}, read, write)
    assert [both.writing(size) for size in (1, 1 << 21)] == [("L2", 40.0), ("memory", 5.0)]
    assert both.to_dict()["write_gbytes_per_s"]["memory"]["gbytes_per_s"] == 5.0
    unknown = Limits(1, {1: 50.0}, read)
    assert unknown.writing(1) == ("memory", 20.0) and "write_gbytes_per_s" not in unknown.to_dict()


def test_measure_limits_counts_threads(monkeypatch):
    monkeypatch.setattr(limits, "levels", lambda threads, most: {"L1": 4096, "memory": 1 << 16})
    found = limits.measure_limits(3, seconds=0.0)
    assert list(found.fma_gflops) == [1, 2, 3]
    assert [level for level, _, _ in found.read] == ["L1", "memory"]
    assert all(np.isfinite(speed) and speed > 0 for _, _, speed in found.read)
    assert found.write == ()
    found = limits.measure_limits(1, seconds=0.0, writes=True)
    assert [level for level, _, _ in found.write] == ["L1", "memory"]


class Bursts(meters.Meter):
    """A meter whose bursts take what they are told to; all other time stands still."""

    def __init__(self, *seconds):
        self.left, self.now = list(seconds), 0.0
        super().__init__(1)

    def burst(self):
        self.now += self.left.pop(0)
        return 1.0


def test_the_fastest_burst_counts_however_many_are_slow(monkeypatch):
    clock = SimpleNamespace(perf_counter=lambda: bursts.now, thread_time=lambda: bursts.now)
    monkeypatch.setattr(meters, "time", clock)
    bursts = Bursts(
        0.5, 0.1, 0.5, 0.0, 0.4, 0.8, 0.2, 1.0
    )  # a clock that stands still says nothing
    rates = [bursts.go_on(seconds) for seconds in (1.0, 1.0, 1.0)]
    assert rates == pytest.approx([10.0, 10.0, 10.0]) and not bursts.left
    assert bursts.rounds == pytest.approx([10.0, 2.5, 5.0]) and bursts.spread == pytest.approx(2.0)


def test_time_that_others_have_the_cpu_does_not_count(monkeypatch):
    """For one thread, that is; a team waits for its last one."""
    assert meters.Meter(1)._clock is time.thread_time
    assert meters.Meter(2)._clock is time.perf_counter


def test_rates_take_turns(monkeypatch):
    order = []
    go_on = meters.Meter.go_on

    def noted(meter, seconds):
        order.append((type(meter).__name__, getattr(meter, "size", 0)))
        assert seconds == 0.001 / 4
        return go_on(meter, seconds)

    monkeypatch.setattr(meters.Meter, "go_on", noted)
    monkeypatch.setattr(limits, "levels", lambda threads, most: {"L1": 4096, "memory": 1 << 16})
    found = limits.measure_limits(1, seconds=0.001, rounds=4)
    turn = [("Clock", 0), ("Peak", 0), ("Reading", 4096), ("Reading", 1 << 16)]
    assert order == 4 * turn and found.clock_ghz > 0


def test_what_varies_is_a_sign(monkeypatch):
    monkeypatch.setattr(limits, "levels", lambda threads, most: {"L1": 4096, "memory": 1 << 16})
    monkeypatch.setattr(limits.Watch, "signs", lambda watch: ("others took 80 % of the CPUs",))
    for spread, signs in ((1.1, 1), (1.5, 2)):
        monkeypatch.setattr(meters.Meter, "spread", spread)
        found = limits.measure_limits(1, seconds=0.0)
        assert len(found.signs) == signs
    assert found.signs[1] == "speeds varied by 50 %"


def test_bursts_go_on_where_the_last_one_ended(monkeypatch):
    """All of the sample is read, so that caches do not pass for memory."""
    target = host_target()
    monkeypatch.setattr(meters, "_WINDOW", 1 << 12)
    reading = meters.Reading(meters.MemoryMeter(10_000, 1, target), 10_000)
    read = []
    monkeypatch.setattr(reading, "_read", lambda place, vectors, passes: read.append(place))
    reading.prepare()
    for _ in range(4):
        reading.after(reading.burst() * 1e-12)
    window = (1 << 12) // target.vector_bytes
    assert read == [0, 0, window, 0, window] and reading._passes == 1


def test_additions_left_out_are_noticed(monkeypatch):
    monkeypatch.setattr(meters, "_library", _tampered(meters._library, "limits_cycles"))
    with pytest.raises(WorkSkipped, match="clock"):
        limits.measure_limits(1, seconds=0.0)


@pytest.mark.parametrize(
    "speeds, reached", [((9.0, 8.0, 7.0), 4), ((9.0, 8.0, 5.0), 2), ((9, 6, 9), 1)]
)
def test_the_shared_cache_reaches_as_far_as_it_is_fast(speeds, reached):
    samples = {"L2": 1 << 17, "L3": 4 << 20}  # from four times an L2 of 256 KiB on
    sizes = limits._reachable(samples)
    assert sizes == [1 << 20, 2 << 20, 4 << 20] and limits._reachable({"memory": 1 << 30}) == []
    assert limits._reach(samples, dict(zip(sizes, speeds))) == reached << 20
