"""Records of machines are looked at again: disturbed, outdated and wrong ones."""

import errno
import json
from dataclasses import asdict, replace

import pytest
from toolchain.machines import MINE, measures

from winogen.records import Costs, Machine
from winogen.toolchain import machine, machine_file


def test_a_machine_kept_by_an_earlier_version_is_measured_again(folder, monkeypatch):
    path = machine.save(Machine(), folder)
    record = asdict(Machine(memory_rate=0.5))
    del record["costs"]
    path.write_text(json.dumps(record))
    assert machine.described() == "measured by an earlier version"  # WINOGEN_CALIBRATE=0
    asked = measures(monkeypatch, MINE)
    machine._known.cache_clear()
    assert machine.current() == MINE == machine.stored(folder) and len(asked) == 1


@pytest.mark.parametrize("found, quick", [(Machine(), Machine()), (MINE, Machine(memory_rate=40))])
def test_constants_that_an_earlier_version_fitted_are_kept_while_they_hold(
    folder, monkeypatch, found, quick
):
    path = machine.save(Machine(), folder)
    fitted = Machine(costs=Costs(provenance="here", store=1.25))
    path.write_text(json.dumps(asdict(fitted)))
    measures(monkeypatch, replace(quick, l3_rate=found.l3_rate))
    assert machine.current() == (fitted if quick == Machine() else replace(quick, l3_rate=7.5))
    assert machine_file.read(folder).format == machine_file.FORMAT


def test_constants_that_an_earlier_version_did_not_have_are_not_fitted(folder):
    path = machine.save(Machine(costs=Costs(provenance="here", store=1.25, half_tap=7.5)), folder)
    record = json.loads(path.read_text())
    del record["costs"]["half_tap"]
    path.write_text(json.dumps(record))
    assert machine.stored(folder).costs == Costs(provenance="here", store=1.25)


def test_a_disturbed_machine_is_measured_until_nothing_disturbs(folder, monkeypatch, later):
    """Each rate is the fastest there was; the first quiet measurement replaces them all."""
    slow, other = Machine(memory_rate=2.0), Machine(l3_rate=6.0, memory_rate=3.0)
    measures(monkeypatch, slow, signs=("others took 80 % of the CPUs",))
    assert machine.current() == slow
    text = machine.described()
    assert text.startswith("provisional, measured ") and "others took 80 %" in text
    assert "(today)" in text and "`winogen calibrate`" in text
    asked = measures(monkeypatch)
    machine._known.cache_clear()
    assert machine.current() == slow and not asked  # not twice on one day
    later(days=1)
    asked = measures(monkeypatch, other, signs=("speeds varied by 60 %",))
    assert machine.current() == Machine(memory_rate=3.0) and len(asked) == 1
    assert "others took" not in machine.described() and "varied" in machine.described()
    later(days=2)
    measures(monkeypatch, other)
    assert machine.current() == other == machine.stored(folder)
    assert machine.described().startswith("measured ")
    asked = measures(monkeypatch)
    machine._known.cache_clear()
    assert machine.current() == other and not asked


RATES = ("clock_ghz", "l2_bytes", "l3_bytes", "l2_rate", "l3_rate", "memory_rate")
TRUE = Machine(l3_bytes=8 << 20)


def wrong(name, factor):
    """The machine with one number wrong, all others staying what they are by the second."""
    value = type(getattr(TRUE, name))(getattr(TRUE, name) * factor)
    return replace(TRUE, **{name: value}).check()


@pytest.mark.parametrize("factor", (4, 1 / 4))
@pytest.mark.parametrize("name", RATES)
def test_a_record_wrong_by_four_is_noticed_within_a_day(folder, monkeypatch, later, name, factor):
    machine.save(wrong(name, factor), folder)
    asked = measures(monkeypatch)
    assert machine.current() == wrong(name, factor) and not asked
    later(days=1)
    asked = measures(monkeypatch, TRUE, TRUE)
    assert machine.current() == TRUE == machine.stored(folder)
    assert asked == [machine._COMPARING, machine._MEASURING]


@pytest.mark.parametrize("name", RATES)
def test_what_is_faster_than_recorded_is_certain_and_what_is_slower_is_not(
    folder, monkeypatch, later, name
):
    """While others compute: they make memory and the shared cache slower, and nothing faster."""
    for factor in (4, 1 / 4):
        record = wrong(name, factor)
        machine.save(record, folder)
        later(days=1)
        measures(monkeypatch, TRUE, TRUE, signs=("others took 80 % of the CPUs",))
        uncertain = factor > 1 and name in machine._SHARED
        assert machine.current() == (record if uncertain else TRUE)
        assert machine_file.read(folder).is_provisional == (not uncertain)


@pytest.mark.parametrize("name", ("l3_bytes", "l3_rate", "memory_rate"))
def test_what_is_found_three_times_in_a_row_is_believed(folder, monkeypatch, later, name):
    """Where others compute for ever."""
    record = wrong(name, 4)
    machine.save(record, folder)
    for look, found in enumerate((TRUE, TRUE, record, TRUE, TRUE, TRUE)):
        later(days=1)
        measures(monkeypatch, found, found, signs=("others took 80 % of the CPUs",))
        assert machine.current() == (TRUE if look == 5 else record)
    assert machine_file.read(folder).is_provisional


def test_a_machine_that_is_about_what_was_recorded_stays_and_is_looked_at_once_a_day(
    folder, monkeypatch, later
):
    machine.save(TRUE, folder)
    later(days=1)
    asked = measures(monkeypatch, replace(TRUE, memory_rate=2.0, l3_rate=24.0))
    assert machine.current() == TRUE and asked == [machine._COMPARING]
    asked = measures(monkeypatch)
    machine._known.cache_clear()
    assert machine.current() == TRUE and not asked
    assert machine.described() == machine.described(folder)
    assert "(1 day ago)" in machine.described()  # when it was measured, not when compared


def test_a_look_that_finds_otherwise_by_mistake_changes_nothing(folder, monkeypatch, later):
    machine.save(TRUE, folder)
    later(days=1)
    asked = measures(monkeypatch, replace(TRUE, memory_rate=0.5), TRUE)
    assert machine.current() == TRUE and len(asked) == 2


def test_what_was_fitted_is_compared_with_what_was_measured_before(folder, monkeypatch, later):
    """A fit moves the rates, too, by up to a factor of four."""
    fitted = replace(TRUE, memory_rate=1.2, costs=Costs(provenance="here", store=1.25))
    machine.save(fitted, folder, signs=("speeds varied by 60 %",), rates=TRUE)
    later(days=1)
    asked = measures(monkeypatch, TRUE)
    assert machine.current() == fitted and asked == [machine._COMPARING]
    assert machine.described().startswith("calibrated ") and "varied" in machine.described()
    later(days=2)
    moved = replace(TRUE, l2_rate=160.0)
    measures(monkeypatch, moved, moved)
    assert machine.current() == moved  # the constants went with the rates


def test_caches_do_not_pass_for_memory_where_a_look_takes_less(folder, monkeypatch, later):
    machine.save(TRUE, folder, 1 << 30)
    monkeypatch.setattr(machine, "levels", lambda threads, most: {"memory": min(most, 256 << 20)})
    later(days=1)
    asked = measures(monkeypatch, replace(TRUE, memory_rate=12.0, l3_rate=40.0))
    assert machine.current() == TRUE and len(asked) == 1


def test_less_memory_than_before_is_no_reason_to_look(folder, monkeypatch, later):
    machine.save(TRUE, folder, 64 << 20)
    monkeypatch.setattr(machine, "memory_left", lambda: 100 << 20)
    later(days=1)
    asked = measures(monkeypatch)
    assert machine.current() == TRUE and not asked


@pytest.mark.parametrize("number", (errno.EROFS, errno.ENOSPC, errno.EACCES))
@pytest.mark.parametrize("kept", (True, False))
def test_a_folder_that_takes_no_files_costs_no_time(folder, monkeypatch, later, number, kept):
    """What cannot be kept would differ from process to process, and be measured in each."""
    if kept:
        machine.save(wrong("memory_rate", 1 / 4), folder)
        later(days=1)

    def refuse(path, data):
        raise OSError(number, "no")

    monkeypatch.setattr(machine_file, "write_whole", refuse)
    asked = measures(monkeypatch, *[TRUE] * 2)
    if kept:
        assert machine.current() == wrong("memory_rate", 1 / 4) and not asked
    else:
        with pytest.warns(RuntimeWarning, match="could not be measured"):
            assert machine.current() == Machine()
        assert "default" in machine.described() and "could not" in machine.described()


def test_without_calibration_nothing_is_measured_or_compared(folder, monkeypatch, later):
    assert "WINOGEN_CALIBRATE=0" in machine.described()
    machine.save(wrong("memory_rate", 1 / 4), folder, signs=("speeds varied by 60 %",))
    later(days=9)
    monkeypatch.setattr("winogen.toolchain.calibrate.calibrated", None)
    assert machine.current() == wrong("memory_rate", 1 / 4)
    assert machine.described().startswith("provisional, measured ")


PLANNED = """
from winogen.toolchain import machine
print(machine.current())
"""


def test_processes_that_start_at_once_plan_for_one_machine(folder, python):
    """For real: one of them measures, the others wait."""
    environment = {"WINOGEN_CALIBRATE": "", "WINOGEN_CACHE": str(folder)}
    processes = [python(PLANNED, **environment) for _ in range(3)]
    assert len({process.finish() for process in processes}) == 1


def test_a_record_wrong_by_four_is_replaced_for_real(folder, monkeypatch, later):
    monkeypatch.delenv("WINOGEN_CALIBRATE")
    truth = machine.current()
    machine.save(replace(truth, memory_rate=truth.memory_rate / 4, clock_ghz=1.0), folder)
    later(days=1)
    assert machine.current().memory_rate > truth.memory_rate / 2.5
    assert machine.current().clock_ghz > truth.clock_ghz / 2
