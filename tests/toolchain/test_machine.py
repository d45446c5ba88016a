"""What the planner believes about the machine, and where it keeps it."""

import json
import warnings
from dataclasses import asdict, replace

import pytest

from winogen.errors import OutOfMemory
from winogen.records import Costs, Machine
from winogen.toolchain import cache_dir, limits, machine


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path))
    monkeypatch.setattr(machine, "costs_of", lambda core: Costs())  # whatever CPU this is
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


def test_a_saved_machine_is_whole(folder):
    """Plans are kept by machine: what comes from the file must compare and hash as saved."""
    mine = Machine(costs=replace(Costs(), provenance="here", call_of_one=20.5))
    machine.save(mine, folder)
    assert machine.stored(folder) == mine and hash(machine.stored(folder)) == hash(mine)


@pytest.mark.parametrize(
    "text",
    ("", "{", "[]", '{"clock_ghz": 3}', '{"clock_ghz": "fast"}', "\x00", "[" * 100_000, "7" * 5000),
    ids=range(8),
)
def test_a_damaged_file_means_the_default(folder, text):
    machine.save(Machine(), folder)
    (path,) = folder.glob("machine*")
    path.write_text(text)
    assert machine.stored(folder) is None and machine.current() == Machine()


@pytest.mark.parametrize(
    "field, value",
    [
        *(("clock_ghz", value) for value in ("NaN", "0", "-1", "1e999", "Infinity", '"x"', "null")),
        *(("l2_bytes", value) for value in ("Infinity", "NaN", "0", "-1", "9" * 400, "1e300")),
        ("l2_bytes", str(1 << 30)),  # more than l3_bytes
        *(("memory_rate", value) for value in ("NaN", "-0.5", "0.0")),
    ],
)
def test_a_machine_that_cannot_exist_is_not_believed(folder, field, value):
    path = machine.save(Machine(), folder)
    old = json.dumps(getattr(Machine(), field))
    text = path.read_text()
    assert f'"{field}": {old}' in text
    path.write_text(text.replace(f'"{field}": {old}', f'"{field}": {value}'))
    assert machine.stored(folder) is None and machine.current() == Machine()


def test_a_machine_that_cannot_exist_is_measured_anew(folder, monkeypatch):
    monkeypatch.delenv("WINOGEN_CALIBRATE")
    mine = replace(Machine(), l3_rate=7.5)
    monkeypatch.setattr("winogen.toolchain.calibrate.calibrated", lambda **options: mine)
    path = machine.save(Machine(), folder)
    path.write_text(path.read_text().replace("3.0", "NaN"))
    assert machine.current() == mine == machine.stored(folder)


def test_constants_are_kept_where_they_were_fitted(folder):
    machine.save(Machine(), folder)
    (path,) = folder.glob("machine-*.json")
    assert "costs" not in path.read_text() and machine.stored(folder) == Machine()
    fitted = replace(Machine(), costs=Costs(provenance="here", residual=0.03, store=1.25))
    machine.save(fitted, folder)
    assert machine.stored(folder) == fitted


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

    def calibrated(seconds, most_bytes):
        machine.save(others, folder)  # by a faster process, meanwhile
        return Machine()

    monkeypatch.setattr("winogen.toolchain.calibrate.calibrated", calibrated)
    assert machine.current() == others == machine.stored(folder)
    assert len(list(folder.iterdir())) == 1


def test_a_machine_that_cannot_be_measured_is_the_default(folder, monkeypatch):
    monkeypatch.delenv("WINOGEN_CALIBRATE")
    monkeypatch.setenv("CC", "no-such-compiler")
    limits._library.cache_clear()
    with pytest.warns(RuntimeWarning, match="could not be measured.*no-such-compiler"):
        assert machine.current() == Machine() and machine.stored(folder) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it has been said
        assert machine.current() == Machine()


def measuring(monkeypatch, available):
    """Measurements fail above ``available`` bytes; return the list of the samples tried."""
    tried = []

    def calibrated(seconds, most_bytes):
        tried.append(most_bytes)
        if most_bytes > available:
            raise OutOfMemory("sample of memory")
        return replace(Machine(), memory_rate=most_bytes / (64 << 20))

    monkeypatch.delenv("WINOGEN_CALIBRATE")
    monkeypatch.setattr("winogen.toolchain.calibrate.calibrated", calibrated)
    return tried


def test_nobody_asked_for_more_than_64_mib(folder, monkeypatch):
    tried = measuring(monkeypatch, available=1 << 40)
    monkeypatch.setattr(machine, "memory_left", lambda: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert machine.current().memory_rate == 1
    assert tried == [64 << 20]


def test_where_memory_is_short_a_quarter_is_tried_and_said(folder, monkeypatch):
    tried = measuring(monkeypatch, available=20 << 20)
    with pytest.warns(RuntimeWarning, match="measured in 16 MiB"):
        assert machine.current().memory_rate == 0.25
    assert tried == [64 << 20, 16 << 20]


def test_a_limit_of_memory_is_respected(folder, monkeypatch):
    tried = measuring(monkeypatch, available=1 << 40)
    monkeypatch.setattr(machine, "memory_left", lambda: 100 << 20)
    with pytest.warns(RuntimeWarning, match="measured in 16 MiB"):
        machine.current()
    assert tried == [16 << 20]


def test_without_memory_the_default_stands_and_this_is_said(folder, monkeypatch):
    measuring(monkeypatch, available=1 << 20)
    with pytest.warns(RuntimeWarning, match="could not be measured"):
        assert machine.current() == Machine()
    assert machine.stored(folder) is None


def test_what_was_measured_with_little_memory_gives_way_to_better(folder, monkeypatch):
    tried = measuring(monkeypatch, available=1 << 40)
    little, full = replace(Machine(), l3_rate=7.5), replace(Machine(), l3_rate=8.5)
    machine.save(little, folder, 16 << 20)
    monkeypatch.setattr(machine, "memory_left", lambda: 100 << 20)
    assert machine.current() == little and not tried  # no better can be had
    machine._known.cache_clear()
    monkeypatch.setattr(machine, "memory_left", lambda: None)
    assert machine.current().memory_rate == 1 and tried == [64 << 20]
    machine.save(full, folder)  # as `winogen calibrate` does
    assert machine.current() == full and tried == [64 << 20]


def test_a_machine_kept_by_an_earlier_version_holds(folder, monkeypatch):
    tried = measuring(monkeypatch, available=1 << 40)
    path = machine.save(Machine(), folder)
    record = {**asdict(Machine()), "l3_rate": 7.5}
    del record["costs"]
    path.write_text(json.dumps(record))
    assert machine.current().l3_rate == 7.5 and not tried
