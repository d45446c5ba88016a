"""Telling listeners when C is compiled, so that a person need not stare at nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_listeners: list[Callable[[CompileEvent], None]] = []


@dataclass(frozen=True)
class CompileEvent:
    """One step in the life of a build."""

    stage: str  # "wait" (another process builds it), "start", "finish" or "fail"
    name: str  # the name the caller gave the kernel
    target: str  # the instruction set
    seconds: float = 0.0  # time spent, known at "finish" and "fail"


@contextmanager
def on_compile(callback: Callable[[CompileEvent], None]) -> Iterator[None]:
    """Call ``callback(event)`` at each step of every build made inside the ``with`` block.

    Kernels found in the cache make no event. The callback runs in the thread that builds.

    >>> from winogen.toolchain import on_compile
    >>> with on_compile(lambda event: print(event.stage, event.name)):
    ...     pass
    """
    _listeners.append(callback)
    try:
        yield
    finally:
        _listeners.remove(callback)


def emit(event: CompileEvent) -> None:
    """Pass ``event`` on to every listener."""
    for callback in tuple(_listeners):
        callback(event)
