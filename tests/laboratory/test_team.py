"""Contestants in processes of their own: turns, errors, deaths."""

import os
import signal
import sys
import time
import venv
from pathlib import Path

import numpy as np
import pytest

import winogen
from winogen.toolchain import host_targets
from winogen_lab.bench import reference
from winogen_lab.bench.team import Contestant, ContestantFailed
from winogen_lab.bench.worker import Worker
from winogen_lab.peers import Way


@pytest.fixture
def contestant(fakes):
    with Contestant("fake", threads=1) as it:
        yield it


@pytest.fixture
def prepare(contestant, tiny, tmp_path):
    """``prepare("exact", ...)`` lets the contestant build these ways; returns its answer."""
    for name, array in zip("xw", tiny.data()):
        np.save(tmp_path / f"{name}.npy", array)

    def ask(*which, it=contestant):
        options = {"which": which}
        return it.ask("prepare", "fake_rivals:ways", tiny.to_dict(), str(tmp_path), 1, options)

    return ask


def test_a_turn(contestant, prepare, tiny):
    answers = prepare("exact")
    assert answers["exact"]["facts"] == {"kind": "numpy"} and answers["exact"]["seconds"] > 0
    y64 = reference.exact(tiny, *tiny.data())
    assert reference.relative_error(np.load(answers["exact"]["output"]), y64) < 1e-5
    contestant.ask("keep", ["exact"])
    seconds, cores, preempted = contestant.ask("turn", "exact", 7)
    assert 1 <= len(seconds) <= 7 and min(seconds) > 0
    assert cores > 0 and 0 <= preempted <= 1
    peak = contestant.ask("finish")
    assert peak is None or peak > 10 << 20  # Python and numpy
    with pytest.raises(ContestantFailed, match="KeyError"):
        contestant.ask("turn", "exact", 1)


def test_preempted_calls_count_only_where_there_are_no_others(monkeypatch):
    worker, slow = Worker(), iter([0.0, 0.0, 0.2, 0.0, 0.2])
    worker.ways["a"] = Way(lambda: time.sleep(next(slow)), lambda y: y)
    # Read before and after each call: the second and the fourth were interrupted.
    switches = iter([5, 5, 5, 9, 9, 9, 9, 10, 0, 1])
    monkeypatch.setattr("winogen_lab.bench.worker._preemptions", lambda: next(switches))
    seconds, _, preempted = worker.turn("a", 4)
    assert len(seconds) == 2 and max(seconds) < 0.2 and preempted == 0.5
    worker.ways["a"] = Way(lambda: None, lambda y: y)
    seconds, _, preempted = worker.turn("a", 1)
    assert len(seconds) == 1 and preempted == 1.0


def test_ways_fail_one_by_one(prepare):
    answers = prepare("exact", "failing", "crooked")
    assert "error" not in answers["exact"]
    assert answers["failing"] == {"error": "RuntimeError: no such primitive"}
    assert answers["crooked"]["error"].startswith("ValueError: gave float32 (1, 16, 8, 11)")


def test_only_what_is_kept_can_run(contestant, prepare):
    prepare("exact", "slow")
    contestant.ask("keep", ["exact"])
    with pytest.raises(ContestantFailed, match="slow"):
        contestant.ask("turn", "slow", 1)


def test_an_adapter_that_is_not_there(contestant, tiny, tmp_path):
    for name in "xw":
        np.save(tmp_path / f"{name}.npy", np.zeros(1))
    with pytest.raises(ContestantFailed, match="ModuleNotFoundError: .*no_such_adapter"):
        contestant.ask("prepare", "no_such_adapter:ways", tiny.to_dict(), str(tmp_path), 1, {})


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_it_stands_still_between_turns(contestant, prepare):
    prepare("exact")
    stat = Path(f"/proc/{contestant._running.process.pid}/stat")

    def state():
        return stat.read_text().rsplit(")", 1)[1].split()[0]

    for _ in range(3000):  # the signal takes a moment to arrive
        if state() == "T":
            break
        time.sleep(0.01)
    assert state() == "T"
    assert contestant.ask("turn", "exact", 1)


def test_it_runs_with_the_threads_it_was_given(fakes):
    with Contestant("fake", threads=3) as it:
        it.ask("keep", [])
        if sys.platform == "linux":
            environment = Path(f"/proc/{it._running.process.pid}/environ").read_bytes().split(b"\0")
            assert b"OMP_NUM_THREADS=3" in environment


def test_a_death_is_reported_and_survived(contestant, prepare):
    with pytest.raises(ContestantFailed, match="died of SIGSEGV: about to fall"):
        prepare("dying")
    assert "error" not in prepare("exact")["exact"]


def test_three_deaths_are_enough(contestant, prepare):
    for _ in range(3):
        with pytest.raises(ContestantFailed, match="SIGSEGV"):
            prepare("dying")
    with pytest.raises(ContestantFailed, match="not started again after it died 3 times"):
        prepare("exact")


def test_a_contestant_that_hangs_is_ended(fakes, prepare):
    with Contestant("fake", threads=1, patience=20) as it:
        prepare("exact", it=it)
        it._patience, pid = 0.3, it._running.process.pid
        with pytest.raises(ContestantFailed, match="no answer to 'prepare' in 0 s"):
            prepare("hanging", it=it)
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_an_interrupt_ends_the_process(contestant, prepare, monkeypatch):
    prepare("exact")
    pid = contestant._running.process.pid

    def interrupted(patience):
        raise KeyboardInterrupt

    monkeypatch.setattr(contestant._running.connection, "poll", interrupted, raising=False)
    with pytest.raises(KeyboardInterrupt):
        contestant.ask("turn", "exact", 1)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    contestant.close()  # nothing left to do


def test_a_contestant_killed_from_outside(contestant, prepare):
    prepare("exact")
    os.kill(contestant._running.process.pid, signal.SIGKILL)
    with pytest.raises(ContestantFailed, match="died of SIGKILL"):
        contestant.ask("turn", "exact", 1)


def test_another_interpreter_has_its_own_winogen_only(tmp_path, monkeypatch):
    """Neither that of the folder nor that of PYTHONPATH."""
    (tmp_path / "winogen").mkdir()
    (tmp_path / "winogen" / "__init__.py").write_text("raise ImportError('of the folder')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Contestant("other", threads=1, python=sys.executable) as other:
        assert other.ask("about")["winogen"] == str(Path(winogen.__file__).parent)


def test_another_winogen_is_measured_by_this_laboratory(tiny, tmp_path):
    """An earlier one, which has another laboratory and lacks what ours imports."""
    here, other = Path(winogen.__file__).parent, tmp_path / "winogen"
    other.mkdir()
    for part in here.iterdir():
        if part.name not in ("tuning", "typing.py", "__pycache__"):
            (other / part.name).symlink_to(part)
    (tmp_path / "winogen_lab").mkdir()
    (tmp_path / "winogen_lab" / "__init__.py").write_text("raise ImportError('of the other')")
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    (packages,) = (tmp_path / "venv" / "lib").glob("*/site-packages")
    (packages / "other.pth").write_text(f"{tmp_path}\n{Path(np.__file__).parents[1]}\n")
    for name, array in zip("xw", tiny.data()):
        np.save(tmp_path / f"{name}.npy", array)
    with Contestant("other", threads=1, python=str(python)) as contestant:
        assert contestant.ask("about")["winogen"] == str(other)
        assert contestant.ask("lack", ("numpy", "no_such_module")) == "no_such_module"
        options = {"variants": {"it": {"algorithm": "direct"}}}
        adapter, where = "winogen_lab.peers.ours:layer", (tiny.to_dict(), str(tmp_path), 1)
        answers = contestant.ask("prepare", adapter, *where, options)
    assert answers["it"]["facts"]["algorithm"] == "direct"


def test_a_contestant_has_its_own_instruction_set():
    name = host_targets()[-1].name
    with Contestant("other", threads=1, environment={"WINOGEN_ISA": name}) as other:
        assert other.ask("about")["isa"] == name
