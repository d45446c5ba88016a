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
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

import winogen
from winogen.errors import WinogenError

_WINOGEN = Path(winogen.__file__).resolve().parent
# Where Python finds the laboratory and winogen: side by side once installed.
_FOLDERS = dict.fromkeys(map(str, (Path(__file__).resolve().parents[2], _WINOGEN.parent)))
_WORKER = Path(__file__).with_name("worker.py")
_RUN_FILE = "import runpy; runpy.run_path({!r}, run_name='__main__')"
# A contestant that answers nothing for so long has hung.
_PATIENCE = 180.0
_DEATHS = 3  # a contestant that dies this often is not started again


class ContestantFailed(WinogenError):
    """A contestant raised an error, died or hung; the message says what it said."""


@dataclass(frozen=True)
class _Running:
    """A process that has been started."""

    process: subprocess.Popen
    connection: Connection
    said: IO[bytes]  # file with what it printed


class Contestant:
    """A process that runs one rival, or winogen. Started when first asked.

    Use as a context manager, or call `close`.
    """

    def __init__(
        self,
        name: str,
        threads: int,
        patience: float = _PATIENCE,
        python: str | None = None,
        environment: Mapping[str, str] | None = None,
    ):
        """``python``: an interpreter with a winogen of its own; None for this one."""
        self.name = name
        self._threads = threads
        self._patience = patience
        self._python = python
        self._environment = environment or {}
        self._running: _Running | None = None
        self._deaths = 0

    def ask(self, command: str, *arguments: Any) -> Any:
        """Let it run one command of `winogen_lab.bench.worker.Worker`; return the answer.

        Raises ContestantFailed; the process is then started anew by the next command.
        """
        running = self._running
        if running is None:
            if self._deaths >= _DEATHS:
                raise ContestantFailed(f"not started again after it died {_DEATHS} times")
            running = self._running = self._start()
        try:
            os.kill(running.process.pid, signal.SIGCONT)
            running.connection.send((command, arguments))
            if not running.connection.poll(self._patience):
                self._bury()
                raise ContestantFailed(f"no answer to {command!r} in {self._patience:.0f} s")
            status, value = running.connection.recv()
            os.kill(running.process.pid, signal.SIGSTOP)
        except (EOFError, OSError):
            raise ContestantFailed(self._last_words(running)) from None
        except BaseException:  # Ctrl-C: an answer may be under way, which would confuse the next
            self.close()
            raise
        if status == "error":
            raise ContestantFailed(value)
        return value

    def cpu_seconds(self) -> float:
        """Return the CPU time of its process so far; 0 where nobody says (Linux does)."""
        if self._running is None:
            return 0.0
        try:
            stat = Path(f"/proc/{self._running.process.pid}/stat").read_text()
            user, system = stat.rpartition(")")[2].split()[11:13]
            return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError):
            return 0.0

    @property
    def alive(self) -> bool:
        """Whether its process was started, and has not died or hung since."""
        return self._running is not None

    def close(self) -> None:
        """End the process, whatever it is doing."""
        running, self._running = self._running, None
        if running is None:
            return
        with suppress(OSError):
            os.killpg(running.process.pid, signal.SIGKILL)  # a compiler that it started, too
        running.process.wait()
        running.connection.close()
        running.said.close()

    def __enter__(self) -> Contestant:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _start(self) -> _Running:
        ours, theirs = socket.socketpair()
        path = os.pathsep.join(filter(None, (*_FOLDERS, os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, **self._environment, "PYTHONPATH": path}
        command = [sys.executable, "-m", "winogen_lab.bench.worker", str(theirs.fileno())]
        if self._python is not None:
            # Alone with its own packages (-I): neither ours nor those of this folder.
            command = [self._python, "-I", "-c", _RUN_FILE.format(str(_WORKER))]
            command += [str(theirs.fileno()), str(_WINOGEN)]
        # Every OpenMP runtime of a rival starts with the right number of threads.
        environment["OMP_NUM_THREADS"] = str(self._threads)
        said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the team
        try:
            process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            said.close()
            raise ContestantFailed(f"cannot start {command[0]}: {error.strerror}") from None
        finally:
            theirs.close()
        return _Running(process, Connection(ours.detach()), said)

    def _bury(self) -> None:
        self._deaths += 1
        self.close()

    def _last_words(self, running: _Running) -> str:
        """Why the process died: the signal, and the last line that it printed."""
        try:
            code = running.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            running.process.kill()
            code = running.process.wait()
        running.said.seek(0)
        lines = running.said.read().decode(errors="replace").strip().splitlines()
        self._bury()
        how = f"died with status {code}"
        if code < 0:
            with suppress(ValueError):
                how = f"died of {signal.Signals(-code).name}"
        return f"{how}: {lines[-1]}" if lines else how
