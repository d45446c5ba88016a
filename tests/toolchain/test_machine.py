"""What the planner believes about the machine, and where it keeps it."""

from dataclasses import replace

import pytest

from winogen.toolchain import limits, machine
from winogen.records import Machine
from winogen.toolchain import cache_dir


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path))
    machine._known.cache_clear()
    yield tmp_path
    machine._known.cache_clear()


def test_a_saved_machine_is_the_current_one(folder):
    mine = replace(Machine(), l3_rate=7.5, l2_bytes=123)
    assert machine.current() == Machine()
    machine.save(mine, cache_dir())
    assert machine.current() == mine
    machine.forget(cache_dir())
    assert machine.current() == Machine()
    machine.forget(cache_dir())  # nothing to forget is fine


@pytest.mark.parametrize(
    "text", ("", "{", "[]", '{"clock_ghz": 3}', '{"clock_ghz": "fast"}', "\x00")
)
def test_a_damaged_file_means_the_default(folder, text):
    machine.save(Machine(), folder)
    (path,) = folder.glob("machine*")
    path.write_text(text)
    assert machine.stored(folder) is None and machine.current() == Machine()


def test_an_assumed_machine_holds_within_its_block(folder):
    slow = replace(Machine(), memory_rate=0.5)
    with machine.assumed(slow):
        assert machine.current() == slow
    assert machine.current() == Machine()


def test_the_first_plan_measures_the_machine_and_keeps_it(folder, monkeypatch):
    monkeypatch.delenv("WINOGEN_CALIBRATE")
    measured = machine.current()
    assert machine.stored(folder) == measured
    machine._known.cache_clear()
    monkeypatch.setattr("winogen.toolchain.calibrate.calibrated", None)  # not measured again
    assert machine.current() == measured


def test_processes_that_measure_at_once_plan_for_the_same_machine(folder, monkeypatch):
    monkeypatch.delenv("WINOGEN_CALIBRATE")
    others = replace(Machine(), l3_rate=7.5)

    def calibrated(seconds):
        machine.save(others, folder)  # by a faster process, meanwhile
        return Machine()

    monkeypatch.setattr("winogen.toolchain.calibrate.calibrated", calibrated)
    assert machine.current() == others == machine.stored(folder)
    assert len(list(folder.iterdir())) == 1


def test_a_machine_that_cannot_be_measured_is_the_default(folder, monkeypatch):
    monkeypatch.delenv("WINOGEN_CALIBRATE")
    monkeypatch.setenv("CC", "no-such-compiler")
    limits._library.cache_clear()
    assert machine.current() == Machine() and machine.stored(folder) is None
