"""Progress on stderr: silent if work is soon done, alive if it takes long, never on stdout."""

import io
import threading
import time

import pytest

from winogen import progress


class Log(io.StringIO):
    """Tells when a line has been written."""

    def __init__(self):
        super().__init__()
        self.written = threading.Event()

    def flush(self):
        self.written.set()


def test_long_work_is_told_of_even_inside_a_step(monkeypatch):
    monkeypatch.setattr(progress, "_FIRST", 0.0)
    log = Log()
    with progress.lines("measuring", log) as step:
        assert log.written.wait(60)  # before any step is done
        log.written.clear()
        step(3, 17, "F(4,3)")
        while "3 of 17" not in log.getvalue():
            assert log.written.wait(60)
            log.written.clear()
    first, *_, last, end = log.getvalue().splitlines()
    assert end.startswith("measuring: done (")
    assert first.startswith("measuring ... (") and last.startswith("measuring: 3 of 17, F(4,3) (")
    assert not [thread for thread in threading.enumerate() if thread.name == "winogen-progress"]


def test_works_that_follow_one_another_are_one_silence(monkeypatch):
    monkeypatch.setattr(progress, "_FIRST", 50.0)
    monkeypatch.setattr(progress, "_CHAINED", 3600.0)
    monkeypatch.setattr(progress._Silence, "since", time.monotonic() - 49.9)
    monkeypatch.setattr(progress._Silence, "ended", time.monotonic())
    log = Log()
    with progress.lines("tracing", log):
        assert log.written.wait(40)
    assert log.getvalue().startswith("tracing ... (")


def test_a_note_is_told_at_once(capsys):
    progress.note("a run of the model takes 3 s, so this takes up to 40 s [seconds=30] " + "x" * 90)
    told = capsys.readouterr()
    assert told.out == "" and told.err.count("\n") == 1 and "[seconds=30]" in told.err


def test_short_work_is_silent_and_errors_pass(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_FIRST", 3600.0)
    with pytest.raises(ZeroDivisionError), progress.counting("counting") as step:
        step(1, 2, "one")
        raise ZeroDivisionError
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar(monkeypatch):
    from rich.console import Console

    screen = io.StringIO()
    monkeypatch.setattr(
        progress, "stderr", lambda: Console(file=screen, force_terminal=True, width=100)
    )
    with progress.counting("measuring") as step:
        step(3, 17, "F(4,3)")
    assert "measuring F(4,3)" in screen.getvalue() and "3/17" in screen.getvalue()


def test_work_without_steps_is_told_of_alike(monkeypatch, capsys):
    from rich.console import Console

    monkeypatch.setattr(progress, "_FIRST", 3600.0)
    with progress.working("searching"):
        pass
    assert capsys.readouterr() == ("", "")
    screen = io.StringIO()
    monkeypatch.setattr(
        progress, "stderr", lambda: Console(file=screen, force_terminal=True, width=100)
    )
    with progress.working("searching"):
        pass
    assert "searching" in screen.getvalue()


def test_only_the_innermost_work_is_told_of(monkeypatch):
    """No lines of two counters between each other, and of the outer again behind the inner."""
    monkeypatch.setattr(progress, "_FIRST", 0.0)
    monkeypatch.setattr(progress, "_LONGEST", 0.01)
    log = Log()
    with progress.lines("bundling", log):
        with progress.lines("measuring", log):
            while log.getvalue().count("measuring ...") < 3:
                log.written.wait(60)
        inner = log.getvalue()
        while "bundling ..." not in log.getvalue()[len(inner) :]:
            log.written.wait(60)
    first = inner.index("measuring")
    assert "bundling" not in inner[first:]
    assert not progress._shown


def test_what_ends_by_an_error_is_not_done(monkeypatch):
    monkeypatch.setattr(progress, "_FIRST", 0.0)
    log = Log()
    with pytest.raises(KeyboardInterrupt), progress.lines("measuring", log):
        assert log.written.wait(60)
        raise KeyboardInterrupt
    assert log.getvalue().splitlines()[-1].startswith("measuring: stopped (")


@pytest.mark.parametrize("outer", [progress.counting, progress.working, progress.telling])
@pytest.mark.parametrize("inner", [progress.counting, progress.working, progress.telling])
def test_one_display_within_another_on_a_terminal(outer, inner, monkeypatch):
    from rich.console import Console

    console = Console(file=io.StringIO(), force_terminal=True)
    monkeypatch.setattr(progress, "stderr", lambda: console)
    with outer("outer"), inner("inner"):
        assert len(progress._shown) == 2
    assert not progress._shown
