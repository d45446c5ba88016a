"""What a person sees while C compiles."""

import threading

from winogen.build import host_target, load
from winogen.cli import progress
from winogen.cli.progress import compiling


def test_a_compile_is_reported_on_stderr_and_a_cached_kernel_is_not(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path))
    with compiling() as say:
        say("testing")
        for _ in range(2):
            load("int one(void) { return 1; }", "int one(void);", host_target(), name="one")
    captured = capsys.readouterr()
    assert captured.err.count(f"compiled one for {host_target().name} in ") == 1
    assert not captured.out


def test_long_work_is_announced_once_and_short_work_is_not(monkeypatch, capsys):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with progress.working("searching"):
        for timer in threading.enumerate():
            if isinstance(timer, threading.Timer):
                timer.join()
    assert capsys.readouterr().err == "searching ...\n"
    monkeypatch.setattr(progress, "PATIENCE", 1000.0)
    with progress.counting("deriving") as step:
        step(1, 2, "f2_3")
    captured = capsys.readouterr()
    assert not captured.err and not captured.out
