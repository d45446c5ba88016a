"""What a person sees while C compiles: one line, on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from winogen.progress import counting, stderr, telling, working

__all__ = ["compiling", "counting", "stderr", "telling", "working"]


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
