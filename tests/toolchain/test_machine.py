"""What the planner believes about the machine, and where it keeps it."""

import json
import platform
import warnings
from dataclasses import replace

import pytest
from toolchain.machines import MINE, measures

from winogen.errors import OutOfMemory
from winogen.records import TARGETS, Costs, Machine
from winogen.records.machines import KNOWN
from winogen.toolchain import cache_dir, machine, machine_file, meters, prebuilt
from winogen.toolchain.calibrate import MeasuredMachine


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


def test_a_damaged_file_of_this_version_is_not_believed(folder):
    path = machine.save(MINE, folder)
    for name, value in (("measured", "soon"), ("signs", 3), ("rates", {}), ("checked", [1])):
        record = json.loads(path.read_text())
        path.write_text(json.dumps({**record, name: value}))
        assert machine.stored(folder) is None, name
        path.write_text(json.dumps(record))
    assert machine.stored(folder) == MINE
