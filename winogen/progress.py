"""How far long work has come, on stderr: a bar where a person looks on, else some lines."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

Step = Callable[[int, int, str], None]  # (steps done, of how many, what was done or is being done)

_FIRST = 2.0  # seconds without a word before a line
_MINUTE = 60.0  # after which lines come ever more seldom
_LONGEST = 10.0  # between two lines
_HIDDEN = 0.1  # between two looks whether what hides a work has ended
_CHAINED = 0.5  # seconds between two works that are one for who waits
# What is shown, the outermost first: how it is hidden, and how it is shown again.
_shown: list[tuple[Callable[[], None], Callable[[], None]]] = []


class _Silence:
    """When the last line was printed, or the first work began of those without one."""

    since, ended = 0.0, -1.0


def stderr() -> Console:
    """Return a console on stderr, so that stdout holds results only."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


@contextmanager
def _alone(hide: Callable[[], None], show: Callable[[], None]) -> Iterator[None]:
    """Hide the progress of the work around the ``with`` block until that ends."""
    if _shown:
        _shown[-1][0]()
    _shown.append((hide, show))
    try:
        yield
    finally:
        _shown.pop()
        if _shown:
            _shown[-1][1]()


@contextmanager
def counting(what: str) -> Iterator[Step]:
    """Show how far the work inside the ``with`` block has come; yields ``step(done, total, name)``.

    Results should be printed behind the block: on a terminal a bar is there meanwhile.
    """
    console = stderr()
    if not console.is_terminal:
        with lines(what) as step:
            yield step
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    progress = Progress(*columns, console=console, transient=True)
    with _alone(progress.stop, progress.start), progress:
        task = progress.add_task(what, total=None)

        def step(done: int, total: int, name: str) -> None:
            progress.update(task, completed=done, total=total, description=f"{what} {name}")

        yield step


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show that something is being done, and for how long: "searching for F(8, 5)"."""
    console = stderr()
    if not console.is_terminal:
        with lines(what):
            yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    progress = Progress(*columns, console=console, transient=True)
    with _alone(progress.stop, progress.start), progress:
        progress.add_task(what, total=None)
        yield


@contextmanager
def telling(what: str) -> Iterator[Callable[[str], None]]:
    """Show what is being done at the moment; yields ``say(text)``."""
    console = stderr()
    if not console.is_terminal:
        with lines(what) as step:
            yield lambda text: step(0, 0, text)
        return
    status = console.status("")
    with _alone(status.stop, status.start), status:
        yield status.update


@contextmanager
def compiling() -> Iterator[Callable[[str], None]]:
    """Show each kernel that is compiled inside the ``with`` block, and how long it took.

    Yields ``say(text)``, which shows what else is going on.
    """
    from winogen.toolchain import CompileEvent, on_compile

    console = stderr()
    status = console.status("")
    said = ""

    def say(text: str) -> None:
        nonlocal said
        said = text
        status.update(text)
        status.start()

    def show(event: CompileEvent) -> None:
        kernel = f"{event.name} for {event.target}"
        doing = {"start": "compiling", "wait": "waiting for another process that compiles"}
        if event.stage in doing:
            status.update(": ".join(filter(None, (said, f"{doing[event.stage]} {kernel}"))))
            status.start()
            return
        done = "compiled" if event.stage == "finish" else "failed to compile"
        console.print(f"[dim]{done} {kernel} in {event.seconds:.1f} s[/]")
        if said:
            say(said)
        else:
            status.stop()

    try:
        with on_compile(show):
            yield say
    finally:
        status.stop()


def note(text: str) -> None:
    """Print a line on stderr at once, as that an announced work will take long."""
    _Silence.since = time.monotonic()
    stderr().print(text, markup=False, soft_wrap=True)


@contextmanager
def lines(what: str, stream: TextIO | None = None) -> Iterator[Step]:
    """Do the same in plain lines, for logs and pipes: nothing at all if the work is done soon.

    Lines come from a thread, so that a single long step is not silent. Announced work is also
    reported as done, or as stopped by an error or Ctrl-C, so that nobody takes later work for a
    part of it.
    """
    stream = stream or sys.stderr
    start, ended, hidden = time.monotonic(), threading.Event(), threading.Event()
    if not _shown and start - _Silence.ended > _CHAINED:
        _Silence.since = start
    latest: list[tuple[int, int, str]] = []
    told, lock = False, threading.Lock()

    def hide() -> None:
        with lock:  # no line is on its way
            hidden.set()

    def step(done: int, total: int, name: str) -> None:
        latest[:] = [(done, total, name)]

    def tell() -> None:
        nonlocal told
        pause = _FIRST
        while not ended.wait(max(0.0, _Silence.since + pause - time.monotonic())):
            if hidden.is_set():
                ended.wait(_HIDDEN)
                continue
            if time.monotonic() < _Silence.since + pause:
                continue  # somebody else has said something
            if time.monotonic() - start > _MINUTE:
                pause = min(2 * pause, _LONGEST)
            with lock:
                if not hidden.is_set():
                    told, _Silence.since = True, time.monotonic()
                    print(line(what, time.monotonic() - start, *latest), file=stream, flush=True)

    thread = threading.Thread(target=tell, name="winogen-progress", daemon=True)
    end = "stopped"
    with _alone(hide, hidden.clear):
        thread.start()
        try:
            yield step
            end = "done"
        finally:
            ended.set()
            thread.join()
            _Silence.ended = time.monotonic()
            if told:
                _Silence.since = _Silence.ended
                print(f"{what}: {end} ({time.monotonic() - start:.0f} s)", file=stream, flush=True)


def line(what: str, seconds: float, state: tuple[int, int, str] | None = None) -> str:
    """Return one line of `lines`.

    >>> line("measuring", 4.2, (3, 17, "F(4,3)")), line("measuring", 2.0)
    ('measuring: 3 of 17, F(4,3) (4 s)', 'measuring ... (2 s)')
    >>> line("measuring", 4.2, (0, 0, "unet: preparing torch"))  # of nobody knows how many
    'measuring: unet: preparing torch (4 s)'
    """
    if state is None:
        return f"{what} ... ({seconds:.0f} s)"
    done, total, name = state
    if not total:
        return f"{what}: {name} ({seconds:.0f} s)"
    return f"{what}: {done} of {total}{f', {name}' if name else ''} ({seconds:.0f} s)"
