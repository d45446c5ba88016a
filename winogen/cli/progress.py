"""What a person sees while C compiles or headers are generated: one line, on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn


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
def counting(what: str) -> Iterator[Callable[[int, int, str], None]]:
    """Show a bar if a person looks on; yields ``step(done, total, name)``."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = stderr()
    silent = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=silent) as progress:
        task = progress.add_task(what, total=None)

        def step(done: int, total: int, name: str) -> None:
            progress.update(task, completed=done, total=total, description=f"{what} {name}")

        yield step
