"""What a person sees while C compiles or headers are generated: one line, on stderr.

A terminal gets a line that moves. A file gets one plain line, and only from work that takes longer
than `PATIENCE` seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)


PATIENCE = 2.0


def stderr() -> Console:
    """Return a console on stderr, so that stdout holds results only."""
    return Console(stderr=True, highlight=False)


@contextmanager
def compiling() -> Iterator[Callable[[str], None]]:
    """Show each kernel that is compiled inside the ``with`` block, and how long it took.

    Yields ``say(text)``, which shows what else is going on.
    """
    from winogen.build import CompileEvent, on_compile

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


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show that something is being done, and for how long: "searching for F(8, 5)"."""
    console = stderr()
    if console.is_terminal:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            progress.add_task(what, total=None)
            yield
        return
    with _announced(console, what):
        yield


@contextmanager
def _announced(console: Console, what: str) -> Iterator[None]:
    """Print one line unless the block ends within `PATIENCE`."""
    timer = threading.Timer(PATIENCE, console.print, [f"{what} ..."], {"soft_wrap": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def counting(what: str) -> Iterator:
    """Show how much of some work is done; yields ``step(done, total, name)``."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = stderr()
    if not console.is_terminal:
        with _announced(console, what):
            yield lambda done, total, name: None
        return
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=None)

        def step(done: int, total: int, name: str) -> None:
            progress.update(task, completed=done, total=total, description=f"{what} {name}")

        yield step
