"""What a forked child may not take over from its parent: locks that are held, ends of pipes.

Only the thread that forks lives on in the child. A lock that another thread held stays locked for
ever, so the locks here are new in every child. (``csrc/threads.c`` does the same for its threads.)

Processes that start afresh (``spawn`` and ``forkserver`` of multiprocessing) are not concerned.

Nor may a child have the ends of pipes that another thread is about to close: whoever reads from a
program would wait for the child, too. So nobody forks while `finished` starts one.
"""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from winogen.errors import CompilerNotFound

if TYPE_CHECKING:
    import subprocess

_generation = 0  # how many forks this process is away from the one that was started afresh
_starting = threading.Lock()  # held while a program is started, and while this process forks


def finished(
    command: Sequence[str], cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and return what it printed, as `subprocess.run` does.

    Raises OSError if it cannot be started, and CompilerNotFound in an isolated subinterpreter.
    """
    import subprocess  # only who compiles waits for it

    pipe = subprocess.PIPE
    with _starting:
        try:
            process = subprocess.Popen(
                command, cwd=cwd, env=env, stdout=pipe, stderr=pipe, text=True, errors="replace"
            )
        except RuntimeError as problem:
            raise CompilerNotFound(
                f"{shlex.join(command[:1])} cannot be run ({problem}); import winogen in the main "
                "interpreter, or in one that may start processes"
            ) from problem
    with process:
        try:
            printed, errors = process.communicate()
        except BaseException:  # as Ctrl-C
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, printed, errors)


class Lock:
    """A mutex for ``with`` that is free in a forked child, whoever held it in the parent.

    What it guards must be whole at any moment, since the child goes on with it as it is.
    """

    def __init__(self) -> None:
        self._mutexes: dict[int, threading.Lock] = {}

    def __enter__(self) -> None:
        # One step, so that all threads get the same.
        mutex = self._mutexes.setdefault(_generation, threading.Lock())
        mutex.acquire()
        self._held = mutex

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._held.release()


def _after_in_child() -> None:
    global _generation, _starting
    _generation += 1
    _starting = threading.Lock()


def _before() -> None:
    _starting.acquire()


def _after_in_parent() -> None:
    _starting.release()


os.register_at_fork(
    before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
)
