"""What the planner believes about the machine, and where it keeps it."""

import errno
import json
import platform
import warnings
from dataclasses import asdict, replace
from datetime import timedelta

import pytest

from winogen.errors import OutOfMemory
from winogen.records import TARGETS, Costs, Machine
from winogen.records.machines import KNOWN
from winogen.toolchain import cache_dir, machine, machine_file, meters, prebuilt
from winogen.toolchain.calibrate import MeasuredMachine

MINE = Machine(l3_rate=7.5)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path))
    # Whatever CPU this is, and however large its caches are.
    monkeypatch.setattr(machine_file, "costs_of", lambda core: Costs())
    monkeypatch.setattr(machine, "levels", lambda threads, most: {"memory": min(most, 64 << 20)})
    machine._known.cache_clear()
    yield tmp_path
    machine._known.cache_clear()


@pytest.fixture
def later(monkeypatch):
    """``later(days)``: a process that starts so much later."""

    def later(days):
        moment = machine_file.now() + timedelta(days=days)
        for module in (machine, machine_file):
            monkeypatch.setattr(module, "now", lambda: moment)
        machine._known.cache_clear()

    return later


def measures(monkeypatch, *found, signs=()):
    """Measurements find these machines, one after the other; return the seconds of each."""
    left, asked = list(found), []

    def calibrated(seconds, **options):
        asked.append(seconds)
        return MeasuredMachine(left.pop(0), signs)

    monkeypatch.delenv("WINOGEN_CALIBRATE", raising=False)
    monkeypatch.setattr("winogen.toolchain.calibrate.calibrated", calibrated)
    return asked


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
    measures(monkeypatch, MINE)
    path = machine.save(Machine(), folder)
    path.write_text(path.read_text().replace("3.0", "NaN"))
    assert machine.current() == MINE == machine.stored(folder)


def test_constants_are_kept_where_they_were_fitted(folder):
    machine.save(Machine(), folder)
    (path,) = folder.glob("machine-*.json")
    assert "costs" not in path.read_text() and machine.stored(folder) == Machine()
    fitted = replace(Machine(), costs=Costs(provenance="here", residual=0.03, store=1.25))
    machine.save(fitted, folder)
    assert machine.stored(folder) == fitted


def test_each_instruction_set_has_a_record(folder, monkeypatch):
    """Rates and constants hold for vectors of one width: no record takes another's place."""
    monkeypatch.delenv("WINOGEN_ISA", raising=False)
    plain = Machine(l3_rate=8.5)
    own = machine.save(MINE, folder)
    monkeypatch.setenv("WINOGEN_ISA", "generic")
    assert machine.stored(folder) is None
    other = machine.save(plain, folder)
    assert machine.current() == plain and other.name.endswith("-generic.json")
    monkeypatch.delenv("WINOGEN_ISA")
    machine._known.cache_clear()
    assert machine.current() == MINE and own.exists() and own.name.count("-") == 1
    machine.forget(folder)
    assert other.exists()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names a CPU of x86-64")
def test_a_cpu_taken_for_another_has_a_record(folder, monkeypatch):
    """Its blocks and constants are another's, whatever the instruction set."""
    monkeypatch.setattr(machine_file, "host_target", lambda: TARGETS["sse2"])
    files = set()
    for name in ("", "nocona", "core2"):
        monkeypatch.setenv("WINOGEN_CPU", name)
        files.add(machine_file.file_in(folder).name)
    assert len(files) == 3


def test_what_computes_without_an_extension_has_a_record(folder, monkeypatch):
    """What bytes take is fitted to the instructions that multiply them."""
    monkeypatch.delenv("WINOGEN_ISA", raising=False)
    usual = replace(TARGETS["avx512"], extensions=frozenset({"vnni", "fp16"}))
    monkeypatch.setattr(machine_file, "host_targets", lambda: (usual, TARGETS["generic"]))
    names = []
    for target in (usual, usual.adjusted("-vnni"), TARGETS["generic"]):
        monkeypatch.setattr(machine_file, "host_target", lambda target=target: target)
        names.append(machine.save(MINE, folder).stem.split("-")[2:])
    assert names == [[], ["avx512", "vnni"], ["generic"]]


def test_the_first_plan_measures_the_machine_and_keeps_it(folder, monkeypatch):
    monkeypatch.delenv("WINOGEN_CALIBRATE")
    measured = machine.current()
    assert machine.stored(folder) == measured
    machine._known.cache_clear()
    monkeypatch.setattr("winogen.toolchain.calibrate.calibrated", None)  # not measured again
    assert machine.current() == measured


def test_processes_that_measure_at_once_plan_for_the_same_machine(folder, monkeypatch):
    monkeypatch.delenv("WINOGEN_CALIBRATE")

    def calibrated(**options):
        machine.save(MINE, folder)  # by a faster process, meanwhile: a file system without locks
        return MeasuredMachine(Machine())

    monkeypatch.setattr("winogen.toolchain.calibrate.calibrated", calibrated)
    assert machine.current() == MINE == machine.stored(folder)
    assert [path.name[:8] for path in sorted(folder.iterdir())] == ["locks", "machine-"]


def test_a_machine_that_cannot_be_measured_is_the_default(folder, monkeypatch):
    monkeypatch.delenv("WINOGEN_CALIBRATE")
    monkeypatch.setenv("CC", "no-such-compiler")
    meters._library.cache_clear()
    with pytest.warns(RuntimeWarning, match="could not be measured.*no-such-compiler"):
        assert machine.current() == Machine() and machine.stored(folder) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it has been said
        assert machine.current() == Machine()


@pytest.fixture
def prebuilt_kernels(monkeypatch):
    """There are some: a first call need not compile."""
    monkeypatch.setattr("winogen.toolchain.prebuilt.archives", lambda target: ("an archive",))


def test_with_prebuilt_kernels_measuring_waits_for_a_call_that_is_slow(
    folder, monkeypatch, prebuilt_kernels
):
    seconds = measures(monkeypatch, MINE)
    monkeypatch.setattr(machine, "lineage", lambda: ("unheard-of", "unknown"))
    assert machine.current() == Machine() and machine.is_new() and not seconds
    assert "default, a middling server (this one waits for its measurement)" in machine.described()
    machine.settle()
    assert machine.current() == Machine() and len(seconds) == 1  # never another in a process
    machine._known.cache_clear()
    assert machine.current() == MINE and not machine.is_new()
    machine.settle()
    assert len(seconds) == 1


def test_what_is_slow_first_measures_first(folder, monkeypatch, prebuilt_kernels):
    measures(monkeypatch, MINE)
    machine.settle()
    assert machine.current() == MINE


def test_until_it_is_measured_a_known_kind_of_machine_is_planned_for(
    folder, monkeypatch, prebuilt_kernels
):
    measures(monkeypatch)
    monkeypatch.setattr(machine, "host_target", lambda: TARGETS["avx2"])
    monkeypatch.setattr(machine, "lineage", lambda: ("zen99", "zen3", "zen2"))
    assert machine.current() == KNOWN["zen3"].machine
    assert machine.described().startswith("as known of this kind of CPU (this one waits")


def test_a_bundle_brings_its_machine_for_a_cache_without_one(folder, tmp_path, monkeypatch):
    seconds = measures(monkeypatch)
    machine.save(MINE, tmp_path / "served")
    monkeypatch.setenv("WINOGEN_PREBUILT", str(tmp_path / "served"))
    with pytest.warns(RuntimeWarning, match="with kernels for nothing"):
        assert prebuilt.archives("generic") == ()
    assert machine.current() == MINE and not seconds and machine.stored(folder) is None
    machine.save(Machine(), folder)
    assert machine.current() == Machine()


def measuring(monkeypatch, available):
    """Measurements fail above ``available`` bytes; return the list of the samples tried."""
    tried = []

    def calibrated(seconds, most_bytes, **options):
        tried.append(most_bytes)
        if most_bytes > available:
            raise OutOfMemory("sample of memory")
        return MeasuredMachine(replace(Machine(), memory_rate=most_bytes / (64 << 20)))

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


def test_a_damaged_file_of_this_version_is_not_believed(folder):
    path = machine.save(MINE, folder)
    for name, value in (("measured", "soon"), ("signs", 3), ("rates", {}), ("checked", [1])):
        record = json.loads(path.read_text())
        path.write_text(json.dumps({**record, name: value}))
        assert machine.stored(folder) is None, name
        path.write_text(json.dumps(record))
    assert machine.stored(folder) == MINE
