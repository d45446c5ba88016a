"""Whether others computed meanwhile: told by clocks and by the system's count of busy CPUs."""

import os

import pytest

from winogen.toolchain import disturbance
from winogen.toolchain.disturbance import Watch, _Counts

START = _Counts(10.0, 1.0, 2.0, 100.0)


@pytest.fixture
def ends(monkeypatch):
    """``ends(counts)``: the signs of a watch from START to these counts, on two CPUs."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)

    def ends(counts, start=START, **options):
        moments = [start, counts]
        monkeypatch.setattr(disturbance, "_counts", lambda: moments.pop(0))
        return Watch(**options).signs()

    return ends


def test_nothing_speaks_against_a_second_alone(ends):
    assert ends(_Counts(11.0, 1.95, 3.0, 101.1)) == ()


def test_a_thread_that_waits_for_a_cpu_was_not_alone(ends):
    after = _Counts(11.0, 1.5, 2.5, 100.6)
    assert ends(after) == ("it waited for a CPU 50 % of the time",)
    assert ends(after, alone=False) == ()  # threads of a team wait for each other


def test_others_count_wherever_they_run(ends):
    assert ends(_Counts(11.0, 2.0, 3.0, 101.9)) == ("others took 45 % of the CPUs",)
    assert ends(_Counts(11.0, 2.0, 3.9, 101.9)) == ()  # threads of this process are no others
    spent = iter((5.0, 5.9))
    assert ends(_Counts(11.0, 2.0, 3.0, 101.9), helpers=lambda: next(spent)) == ()


@pytest.mark.parametrize("text", (None, "", "cpu", "cpu 1 2 x 4 5 6 7 8", "intr 5\ncpu 1"))
def test_a_system_that_does_not_count_is_not_asked(ends, monkeypatch, tmp_path, text):
    monkeypatch.setattr(disturbance, "_STAT", tmp_path / "stat")
    if text is not None:
        (tmp_path / "stat").write_text(text)
    assert disturbance._all_cpus() is None
    start, after = (counts._replace(all=None) for counts in (START, _Counts(11.0, 2.0, 3.0, 0)))
    assert ends(after, start) == ()


def test_the_system_counts_all_but_idle_time(monkeypatch, tmp_path):
    monkeypatch.setattr(disturbance, "_STAT", tmp_path / "stat")
    monkeypatch.setattr(os, "sysconf", lambda name: 100)
    (tmp_path / "stat").write_text("cpu  100 20 3 9999 8888 400 5 60 7 7\ncpu0 1 1 1 1 1 1 1 1\n")
    assert disturbance._all_cpus() == pytest.approx(5.88)


def test_clocks_of_this_machine_go_forward():
    watch = Watch()
    sum(range(100_000))
    assert all(isinstance(sign, str) for sign in watch.signs())
    begin, end = watch._begin, disturbance._counts()
    assert end.wall > begin.wall and end.thread > begin.thread and end.process > begin.process
