"""Libraries compiled by another process, for processes to come: this one waits for nothing.

The other process gets what is to be built by a pipe, builds one after the other at the lowest
priority, and outlives this one until all is done.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import pickle
import sys
from collections.abc import Iterable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

from winogen.errors import WinogenError
from winogen.toolchain.fork import Lock

if TYPE_CHECKING:
    import subprocess

    from winogen.toolchain.loader import Build

_PROGRAM = """
import pickle, sys
sys.path[:] = pickle.load(sys.stdin.buffer)
from winogen.toolchain.background import work
work()
"""

# Bytes of a pipe that holds all kernels of a net, so that nobody waits until they can be read.
_PIPE = 1 << 20

_lock = Lock()
_workers: dict[int, subprocess.Popen[bytes]] = {}  # by process: a forked one has its own


def compile(builds: Iterable[Build]) -> None:
    """Have libraries compiled soon, unless no process can be started."""
    wanted = list(builds)
    if not wanted:
        return
    with _lock, suppress(OSError, RuntimeError):  # no processes from isolated subinterpreters
        worker = _workers.get(os.getpid())
        if worker is None or worker.poll() is not None:
            worker = _workers[os.getpid()] = _started()
        assert worker.stdin is not None
        for build in wanted:
            pickle.dump(build, worker.stdin)
        worker.stdin.flush()


def finish() -> None:
    """Wait until all is compiled that this process has asked for."""
    with _lock:
        worker = _workers.pop(os.getpid(), None)
        if worker is not None:
            worker.communicate()


@atexit.register
def _leave() -> None:
    """Let the others go on: Python would warn of each that it leaves behind."""
    for worker in _workers.values():
        worker.returncode = 0
        with suppress(OSError):  # it has ended, and what was asked for last is lost
            if worker.stdin is not None:
                worker.stdin.close()


def _started() -> subprocess.Popen[bytes]:
    import subprocess

    worker = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "WINOGEN_COMPILE": "missing"},
        start_new_session=True,  # Ctrl-C is not for it
    )
    assert worker.stdin is not None
    with suppress(OSError, AttributeError):  # a limit of the user; another system
        fcntl.fcntl(worker.stdin, fcntl.F_SETPIPE_SZ, _PIPE)
    pickle.dump(sys.path, worker.stdin)
    return worker


def work() -> None:
    """Build what comes by the pipe until its other end is closed."""
    os.nice(19)
    builds: SimpleQueue[Build | None] = SimpleQueue()
    Thread(target=_receive, args=(builds,), daemon=True).start()
    while (build := builds.get()) is not None:
        with suppress(WinogenError):  # whoever needs it will be told
            build.compiled()


def _receive(builds: SimpleQueue[Build | None]) -> None:
    """Take what comes at once: the pipe is soon full, and its other end would wait."""
    try:
        with suppress(EOFError):
            while True:
                builds.put(pickle.load(sys.stdin.buffer))
    finally:
        builds.put(None)
