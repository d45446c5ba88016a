"""Work behind calls: it begins once no call has come for a while, and gives way to later ones.

A thread that plans needs Python, as a call does. A call of many small operations would wait for it
at each of them.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from threading import Thread, get_ident, get_native_id

_QUIET = 0.05  # seconds without a call after which work begins
_LONGEST = 1.0  # that it waits for them: calls may come one behind the other for hours
_SHARE = 20.0  # seconds of calls that a second of work lets pass
_LOOK = 0.002  # seconds between two looks
_NICENESS = 15  # of 19, at which a thread gets hardly anything
_ENDING = 300.0  # seconds that the process's end waits for a piece of work, on the busiest machine

clock = time.monotonic
_running: set[int] = set()  # threads that run calls
_behind = threading.local()  # since when a thread has worked, if it gives way
_last = float("-inf")  # when the latest call began or ended
_ends = False  # whether the process does


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_running.clear)  # a child has none of these threads


class calling:
    """Within it this thread runs a call; no generator, since that takes a microsecond more."""

    __slots__ = ()

    def __enter__(self) -> None:
        _running.add(get_ident())

    def __exit__(self, *_: object) -> None:
        _running.discard(get_ident())
        note_call()


def note_call() -> None:
    """Say that there is a call, of which nobody will tell how long it takes."""
    global _last
    _last = clock()


def lower_priority() -> None:
    """Have this thread, and compilers that it starts, get what the threads of calls leave over.

    Where calls use every CPU, one that is taken away holds all of them up. Linux alone has
    priorities of threads.
    """
    if sys.platform == "linux":
        with suppress(OSError):
            thread = get_native_id()
            niceness = max(_NICENESS, os.getpriority(os.PRIO_PROCESS, thread))
            os.setpriority(os.PRIO_PROCESS, thread, niceness)


def _raise_priorities() -> None:
    """Give threads of this process the priority of its first, where the user may."""
    if sys.platform == "linux":
        niceness = os.getpriority(os.PRIO_PROCESS, os.getpid())
        for thread in Path("/proc/self/task").iterdir():
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, int(thread.name), niceness)


def work_behind_calls() -> None:
    """Let this thread `give_way` from now on; returns when no call has come for a while."""
    end = clock() + _LONGEST
    while (_running or clock() - _last < _QUIET) and clock() < end and not _ends:
        time.sleep(_LOOK)
    _behind.since = clock()


def give_way() -> None:
    """In a thread behind calls, wait until none runs; where they never end, in proportion.

    To be called between pieces of work, which take some ten milliseconds each. It ends the thread
    once `end` was called.
    """
    since = getattr(_behind, "since", None)
    if since is None:
        return
    now = clock()
    end = now + _SHARE * (now - since)
    while _running and clock() < end and not _ends:
        time.sleep(_LOOK)
    if _ends:
        raise SystemExit  # of this thread
    _behind.since = clock()


def end(threads: Iterable[Thread]) -> None:
    """Have threads behind calls end, and wait for them; to be called when the process ends.

    Python stops threads that are left wherever they are. Within C++ that aborts the process. Where
    others use every CPU, a thread of low priority takes long for the piece that it is at.
    """
    global _ends
    _ends = True
    alive = [thread for thread in threads if thread.is_alive()]
    if alive:
        _raise_priorities()
    for thread in alive:
        thread.join(_ENDING)
