"""A cache of its own for every test, a compiler that can be watched, and real processes."""

import os
import shutil
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest
from kept.compilers import without
from toolchain.machines import folder, later

__all__ = ["folder", "later"]

SOURCE = "int twice(int x) { return 2 * x; }\n"
CDEF = "int twice(int x);"

# What a second process runs: load the kernel, use it, say where it lies.
LOAD = f"""
from winogen.toolchain import host_target, load
library = load({SOURCE!r}, {CDEF!r}, host_target(), name="twice")
assert library.lib.twice(21) == 42
print(library.path)
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The folder of the kernel cache, empty; WINOGEN_CACHE points there; the CPU is as it is.

    Compilers are the system's own.
    """
    monkeypatch.setenv("PATH", without(os.environ["PATH"]))
    folder = tmp_path / "cache"
    monkeypatch.setenv("WINOGEN_CACHE", str(folder))
    for name in ("WINOGEN_ISA", "WINOGEN_CPU"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def twice():
    """The smallest kernel: its source and cdef."""
    return SimpleNamespace(source=SOURCE, cdef=CDEF)


@pytest.fixture
def real_cc():
    from winogen.toolchain import find_compiler

    return find_compiler().command[0]


@pytest.fixture
def fake_cc(tmp_path, monkeypatch, real_cc):
    """Make CC a shell script: it logs its runs, does ``extra``, then calls the real compiler.

    ``fake_cc(extra)`` returns an object with ``.path``, ``.runs()`` (argument lines of all runs)
    and ``.builds()`` (those that build a kernel).
    """

    def make(extra: str = "") -> SimpleNamespace:
        path, log = tmp_path / "fake-cc", tmp_path / "cc.log"
        log.touch()
        path.write_text(f'#!/bin/sh\necho "$*" >> {log}\n{extra}\nexec {real_cc} "$@"\n')
        path.chmod(0o755)
        monkeypatch.setenv("CC", str(path))
        runs = lambda: log.read_text().splitlines()
        builds = lambda: [line for line in runs() if "kernel.c" in line]
        return SimpleNamespace(path=path, runs=runs, builds=builds)

    return make


@pytest.fixture
def python():
    """Start ``python -c code`` as a real process; ``python(code).finish()`` gives its output."""
    started = []

    def start(code: str = LOAD, **environment: str) -> SimpleNamespace:
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code)],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)

        def finish() -> str:
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0, err
            return out.strip()

        return SimpleNamespace(process=process, pid=process.pid, finish=finish)

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.fixture
def no_compiler_on_path(tmp_path, monkeypatch):
    """A PATH where no cc, gcc or clang is."""
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(empty))
    assert shutil.which("cc") is None
