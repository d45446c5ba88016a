"""Kernels that are compiled while something else computes."""

import os
import subprocess
import sys
import threading
from contextlib import suppress
from types import SimpleNamespace

import pytest

from winogen.errors import BuildError
from winogen.graph import compiling

CPUS = 2


class Compiler:
    """Compiles when it is told to go."""

    def __init__(self):
        self.go, self.began, self.done = threading.Event(), threading.Semaphore(0), []
        self.problem = None

    def __call__(self, spec):
        self.began.release()
        assert self.go.wait(60)
        if self.problem is not None:
            raise self.problem
        self.done.append(spec)

    def finish(self):
        self.go.set()
        for thread in threads():
            thread.join(60)


@pytest.fixture
def compiler(monkeypatch):
    compiler = Compiler()
    monkeypatch.setattr(compiling, "at_hand", lambda spec: spec in compiler.done)
    monkeypatch.setattr(compiling, "_compile", compiler)
    monkeypatch.setattr(compiling, "_background", {})
    monkeypatch.setattr(os, "cpu_count", lambda: CPUS)
    yield compiler
    compiler.finish()


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "winogen compiles"]


def test_what_is_loaded_soon_fails_in_silence():
    names, done = [], threading.Event()

    def load():
        names.append(threading.current_thread().name)
        done.set()
        raise BuildError("later calls say so")

    compiling.load_soon(load)
    assert done.wait(60) and names == ["winogen loads"]


def test_many_sets_of_kernels_share_as_many_threads_as_cpus(compiler):
    for i in range(9):
        assert not compiling.compile_soon([i, i + 1])
    for _ in range(CPUS):
        assert compiler.began.acquire(timeout=60)
    assert len(threads()) == CPUS and all(thread.daemon for thread in threads())
    assert not compiling.compile_soon([0])
    compiler.finish()
    assert not threads()
    assert len(set(compiler.done)) == len(compiler.done)
    assert all(compiling.compile_soon([spec]) for spec in compiler.done)
    (background,) = compiling._background.values()
    assert not background._unfinished and not background._threads


def test_nobody_is_told_of_kernels_that_a_thread_is_about_to_compile(compiler, monkeypatch):
    answers, others = [], []

    class Thread(threading.Thread):
        def start(self):
            others.append(threading.Thread(target=ask))
            others[0].start()
            others[0].join(0.2)
            super().start()

    def ask():
        answers.append(compiling.compile_soon([1]))

    names = SimpleNamespace(**vars(threading) | {"Thread": Thread})
    monkeypatch.setattr(compiling, "threading", names)
    assert not compiling.compile_soon([1])
    others[0].join(60)
    assert answers == [False]


def test_what_cannot_be_compiled_is_told_to_all_who_ask_and_tried_again_ever_more_rarely(compiler):
    compiler.problem = BuildError("no compiler")
    answers = []
    for _ in range(12):
        try:
            answers.append(compiling.compile_soon(["a kernel", "another"]))
        except BuildError as problem:
            answers.append(str(problem))
        compiler.finish()
    began, told = False, "no compiler"
    assert answers == [began, told] * 2 + [began, told, told] + [began] + [told] * 4
    compiler.problem = None
    for _ in range(12):
        with suppress(BuildError):
            compiling.compile_soon(["a kernel", "another"])
        compiler.finish()
    assert compiling.compile_soon(["a kernel", "another"]) and not threads()


def test_a_process_ends_without_waiting_for_its_compilers():
    script = """
import threading
from winogen.graph import compiling
began = threading.Event()
def never(spec):
    began.set()
    threading.Event().wait()
compiling.at_hand, compiling._compile = lambda spec: False, never
compiling.compile_soon(["a kernel"])
assert began.wait(60)
"""
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert not ended.stdout and not ended.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priorities")
def test_threads_behind_calls_get_what_calls_leave_over():
    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    seen = threading.Event()
    nice = {}

    def work(key):
        nice[key] = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        seen.set()

    compiling.Background(work).add(["key"])
    assert seen.wait(60)
    assert nice["key"] == max(before, 15)
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before
