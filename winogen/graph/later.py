"""Sizes not seen before: a thread plans for them and packs, and nobody waits for it.

Until it is done whoever asked computes by other means, as the framework does.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol
from weakref import ref

from winogen.graph.compiling import Background, compile_soon
from winogen.kernels.kind import Spec
from winogen.tasks.idle import note_call
from winogen.testing import is_every_layer
from winogen.toolchain.compiler import mode

_MOST_WAITING = 64  # sizes that come once each are not worth it
# Seconds after which a thread that wants to run Python may: those who answer calls wait little.
_TURN = 0.0005
# What one thread prepares, by process, since a forked one has none of the threads.
_planners: dict[int, Background[tuple[Any, ...]]] = {}
_waits: ContextVar[bool] = ContextVar("waits", default=False)


class Advancing(Protocol):
    """Who has something to prepare."""

    def advance(self, *arguments: Any) -> None:
        """Make the plan; when its kernels are there, make the rest."""


@contextmanager
def waiting() -> Iterator[None]:
    """Within it a call at a new size plans, packs and compiles what it lacks."""
    before = _waits.set(True)
    try:
        yield
    finally:
        _waits.reset(before)


def waits() -> bool:
    """Return whether a call at a new size waits for all that: `waiting`, or WINOGEN_COMPILE."""
    return _waits.get() or is_every_layer() or mode("background") != "background"


def go_on(owner: Advancing, arguments: tuple[Any, ...], specs: Iterable[Spec] | None) -> None:
    """Have a thread call ``owner.advance(*arguments)``, unless there is nothing to do yet.

    To be called until the work is done. ``specs``: the kernels of the plan, once it is there; they
    are compiled first. Raises what went wrong in the thread; who asks again and again has it tried
    again, ever more rarely.
    """
    note_call()
    planners = _planners.get(os.getpid())
    if planners is None:
        planners = _planners.setdefault(os.getpid(), Background(_advance, "winogen plans", 1))
        atexit.register(_end)
    work = (ref(owner), *arguments)
    if not planners.is_done([work]) or planners.unfinished >= _MOST_WAITING:
        return
    if specs is None or compile_soon(specs):
        planners.add([work])


def _end() -> None:
    """Wait for the thread of this process, as it may run torch; a forked one has none yet."""
    planners = _planners.get(os.getpid())
    if planners is not None:
        planners.end()


def _advance(work: tuple[Any, ...]) -> None:
    owner: Advancing | None = work[0]()
    if owner is None:
        return
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, _TURN))
    try:
        owner.advance(*work[1:])
    finally:
        sys.setswitchinterval(before)
