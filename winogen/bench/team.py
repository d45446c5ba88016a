"""Processes that take turns: each contestant lives in one and stands still while others run.

Threads that spin while they wait for work (OpenMP, thread pools) would slow the next contestant
down, and two OpenMP runtimes in one process get in each other's way. So each contestant has a
process, which is stopped (SIGSTOP) from the end of its turn until the next.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from winogen.errors import WinogenError

_PACKAGE = Path(__file__).resolve().parents[2]
# A contestant that answers nothing for so long has hung.
_PATIENCE = 180.0
_DEATHS = 3  # a contestant that dies this often is not started again


class ContestantFailed(WinogenError):
    """A contestant raised an error, died or hung; the message says what it said."""


class Contestant:
    """A process that runs one rival, or winogen. Started when first asked.

    Use as a context manager, or call `close`.
    """

    def __init__(self, name: str, threads: int, patience: float = _PATIENCE):
        self.name = name
        self._threads = threads
        self._patience = patience
        self._process: subprocess.Popen | None = None
        self._connection: Connection | None = None
        self._said = None  # file with what it printed
        self._deaths = 0

    def ask(self, command: str, *arguments):
        """Let it run one command of `winogen.bench.worker.Worker`; return the answer.

        Raises ContestantFailed; the process is then started anew by the next command.
        """
        if self._process is None:
            if self._deaths >= _DEATHS:
                raise ContestantFailed(f"not started again after it died {_DEATHS} times")
            self._start()
        try:
            os.kill(self._process.pid, signal.SIGCONT)
            self._connection.send((command, arguments))
            if not self._connection.poll(self._patience):
                self._bury()
                raise ContestantFailed(f"no answer to {command!r} in {self._patience:.0f} s")
            status, value = self._connection.recv()
            os.kill(self._process.pid, signal.SIGSTOP)
        except (EOFError, OSError):
            raise ContestantFailed(self._last_words()) from None
        except BaseException:  # Ctrl-C: an answer may be under way, which would confuse the next
            self.close()
            raise
        if status == "error":
            raise ContestantFailed(value)
        return value

    def close(self) -> None:
        """End the process, whatever it is doing."""
        if self._process is None:
            return
        with suppress(OSError):
            self._process.kill()
        self._process.wait()
        self._connection.close()
        self._said.close()
        self._process = None

    def __enter__(self) -> Contestant:
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        path = os.pathsep.join(filter(None, (str(_PACKAGE), os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "PYTHONPATH": path}
        # Every OpenMP runtime of a rival starts with the right number of threads.
        environment["OMP_NUM_THREADS"] = str(self._threads)
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the worker)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "winogen.bench.worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
            )
        finally:
            theirs.close()
        self._connection = Connection(ours.detach())

    def _bury(self) -> None:
        self._deaths += 1
        self.close()

    def _last_words(self) -> str:
        """Why the process died: the signal, and the last line that it printed."""
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        self._bury()
        how = f"died with status {code}"
        if code < 0:
            with suppress(ValueError):
                how = f"died of {signal.Signals(-code).name}"
        return f"{how}: {lines[-1]}" if lines else how
