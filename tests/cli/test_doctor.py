"""`winogen doctor`: a line and a cure for each lack; no line that takes others with it."""

import json
import os
import sys

import pytest

from winogen import extras
from winogen.cli import findings, probe
from winogen.records import Machine
from winogen.toolchain import machine, prebuilt, threads

ABORTS = "import os; os.abort()"


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """The cache of these tests, in which the layer of the trial is compiled once."""
    return tmp_path_factory.mktemp("ann") / "cache"


@pytest.fixture(autouse=True)
def here(kernels, tmp_path, monkeypatch):
    """A user ann with a cache; torch and onnxruntime are there, and small."""
    monkeypatch.setenv("HOME", str(kernels.parent))
    monkeypatch.setenv("WINOGEN_CACHE", str(kernels))
    for name in ("WINOGEN_ISA", "WINOGEN_CPU", "WINOGEN_CACHE_LIMIT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(extras, "_version", lambda package: "999")
    for package in ("torch", "onnxruntime"):
        (tmp_path / f"{package}.py").write_text("")
    return tmp_path


@pytest.fixture
def found(winogen):
    """Run the command; return its findings by topic, and check what holds for every run."""

    def run(status: int = 0) -> dict[str, list[dict]]:
        result = winogen("doctor", "--json")
        assert result.exit_code == status, result.output
        document = json.loads(result.stdout)
        assert document["stops"] == bool(status)
        by_topic = {}
        for one in document["findings"]:
            assert one["state"] in findings.STATES
            assert bool(one["cure"]) <= (one["state"] != "ok"), one
            by_topic.setdefault(one["topic"], []).append(one)
        assert set(findings._LOOKS) - {"trial"} <= set(by_topic)
        assert os.environ["HOME"] not in result.stdout
        return by_topic

    return run


def states(found: dict) -> dict[str, str]:
    """The state of each line but those of extras."""
    return {topic: ones[-1]["state"] for topic, ones in found.items() if "extra" not in topic}


def test_where_all_is_well_every_line_says_so(found, winogen):
    by_topic = found()
    assert set(states(by_topic).values()) <= {"ok", "absent"}  # archives come with wheels
    assert "computed right" in by_topic["a layer"][0]["text"]
    assert by_topic["cache"][0]["text"].startswith("~/cache: ")
    lines = winogen("doctor").stdout.splitlines()
    assert lines[0].startswith("  winogen ") and lines[-1] == "nothing stops winogen"


@pytest.mark.parametrize(
    "name, value, topic",
    [
        ("WINOGEN_ISA", "mmx", "instructions"),
        ("WINOGEN_CACHE_LIMIT", "many", "cache"),
        ("WINOGEN_COMPILE", "often", "compiler"),
        ("WINOGEN_PREBUILT", "~nobody-here/x", "prebuilt"),
    ],
)
def test_what_stops_winogen_is_the_exit_status(found, monkeypatch, name, value, topic):
    monkeypatch.setenv(name, value)
    by_topic = found(status=1)
    for line in (by_topic[topic][0], by_topic["a layer"][0]):
        assert (line["state"], line["cure"]) == ("wrong", "correct the variable, or unset it")
    assert f"{name}: got '{value}'" in by_topic[topic][0]["text"]
    assert f"{name}={value}" in by_topic["environment"][0]["text"]


def test_a_variable_that_nobody_reads_is_taken_for_a_slip(found, monkeypatch):
    monkeypatch.setenv("WINOGEN_ISSA", "avx2")
    monkeypatch.setenv("WINOGEN_OF_SOMEBODY_ELSE", "1")
    _, line = found()["environment"]
    assert line["text"] == "WINOGEN_ISSA is set, which winogen does not read"
    assert line["cure"] == "perhaps WINOGEN_ISA is meant: the instruction set of kernels"


def test_without_a_compiler_and_kernels_a_cure_is_named(found, here, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setenv("WINOGEN_CACHE", str(here / "cache"))
    (compiler,) = found(status=1)["compiler"]
    assert compiler["text"] == "CC: got 'no-such-compiler', which is not a program"
    assert "apt install gcc" in compiler["cure"]


def test_kernels_at_hand_need_no_compiler(found, monkeypatch, tmp_path):
    found()
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    by_topic = found()
    assert by_topic["compiler"][0]["state"] == "lacks"
    assert by_topic["a layer"][0]["text"].endswith("by a kernel that was there")


def test_archives_are_listed_and_damaged_ones_told(found, here, monkeypatch):
    monkeypatch.setenv("WINOGEN_PREBUILT", str(here))
    item = prebuilt.ArchiveItem("0" * 32, "kernel", b"library")
    prebuilt.write(here / "generic.kernels", [item], compiler="gcc 12")
    (line,) = (one for one in found()["prebuilt"] if "generic" in one["text"])
    assert line["text"].startswith("1 in ") and line["text"].endswith(" gcc 12")
    (here / "generic.kernels").write_bytes(b"WINOGEN")
    prebuilt.forget()
    assert "is not used" in found()["prebuilt"][-1]["text"]


def test_a_folder_of_kernels_that_is_not_there_is_what_is_told(found, monkeypatch):
    monkeypatch.setenv("WINOGEN_PREBUILT", "/does/not/exist")
    (line,) = (one for one in found()["prebuilt"] if one["state"] == "lacks")
    assert line["text"].startswith("WINOGEN_PREBUILT: got /does/not/exist, which does not exist; ")


@pytest.mark.thorough
def test_a_cache_open_to_others_or_closed_to_us_is_told(found, here, monkeypatch):
    folder = here / "open"
    folder.mkdir()
    (folder / "letter").touch()
    folder.chmod(0o777)
    monkeypatch.setenv("WINOGEN_CACHE", str(folder))
    told = found()["cache"]
    assert told[-1]["state"] == "lacks" and "can be written by others" in told[-1]["text"]
    folder.chmod(0o700)
    monkeypatch.setattr(findings.os, "access", lambda *_: False)
    assert "nothing that is compiled is kept" in found()["cache"][-1]["text"]


def test_a_line_that_fails_takes_no_other_with_it(found, monkeypatch):
    def fails():
        raise RuntimeError("/home/bob/x is odd")

    monkeypatch.setitem(findings._LOOKS, "wisdom", fails)
    by_topic = found()
    assert by_topic["wisdom"][0]["text"] == "RuntimeError: /home/.../x is odd"
    assert by_topic["a layer"][0]["state"] == "ok"


def test_a_user_without_a_home_is_told_all(monkeypatch):
    """As in a container that runs as a number."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])
    assert findings.masked("/home/ann/y") == "/home/.../y"


def test_packages_that_break_or_end_the_process_are_told(found, here):
    (here / "torch.py").write_text("raise ImportError('libtorch.so: cannot open')")
    by_topic = found()
    assert by_topic["torch"][0]["text"] == "ImportError: libtorch.so: cannot open"
    assert states(by_topic)["OpenMP"] == "ok"
    (here / "torch.py").write_text(ABORTS)
    by_topic = found()
    assert by_topic["trial"][0]["text"].startswith("what came next ended with status -6")
    assert states(by_topic)["a layer"] == "ok" and "OpenMP" not in by_topic


def test_a_layer_that_ends_the_process_stops_winogen(found, here):
    (here / "numpy.py").write_text(ABORTS)
    assert states(found(status=1))["trial"] == "wrong"


def test_a_record_is_doubted(found, kernels, monkeypatch):
    path = machine.save(Machine(), kernels, signs=("others computed",))
    (line,) = found()["machine"]
    assert line["state"] == "lacks" and "`winogen calibrate` settles it" in line["text"]
    path.write_text("{")
    assert "its record is damaged" in found()["machine"][0]["text"]
    path.unlink()
    monkeypatch.setattr(machine, "changes", lambda folder: {"memory_rate": 0.25})
    assert probe._look()["text"] == "a look just now found memory_rate 0.25 times the record"


def test_two_runtimes_in_one_process_are_told(here, monkeypatch):
    found = []
    monkeypatch.setattr(threads, "runtimes", lambda: found)
    assert probe._runtimes()["text"] == "none: kernels run on threads of winogen's own"
    found.append("/x/site-packages/torch/lib/libgomp.so.1")
    assert probe._runtimes()["text"] == "kernels run on the threads of torch/lib/libgomp.so.1"
    found.append("/x/site-packages/mkl/libiomp5.so")
    told = probe._runtimes()
    assert told["state"] == "lacks" and told["text"].endswith("; also mkl/libiomp5.so")


def test_versions_that_are_missing_or_too_old_are_told(found, monkeypatch):
    have = {"torch": "2.1.0+cpu", "numpy": "1.2"}
    monkeypatch.setattr(extras, "_version", have.get)
    by_topic = found()
    (own,), (torch,), (rest,) = (by_topic[t] for t in ("packages", "extra torch", "extras"))
    assert own["state"] == "lacks" and "numpy 1.2 (needs 1.24)" in own["text"]
    assert torch["text"] == "torch 2.1.0+cpu (needs 2.6)" and torch["state"] == "lacks"
    assert rest["state"] == "absent" and "plot, " in rest["text"] and "torch" not in rest["text"]
    assert rest["cure"].startswith("pip install 'winogen[compiler]'")


def test_versions_are_compared_as_numbers():
    assert extras.Requirement("x", "2.6", "2.15.0+cpu").is_met
    assert not extras.Requirement("x", "2.6", "2.5.9").is_met
    assert sys.version_info[:2] < (3, 11) or not any(
        one.package == "tomli" for one in extras.requirements()[""]
    )
