"""Kernels of many layers, compiled side by side."""

from __future__ import annotations

import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from functools import partial
from types import MappingProxyType

from winogen.conv.execute import Environment, kernel
from winogen.conv.stock import at_hand
from winogen.graph.planning import Planned
from winogen.kernels.spec import KernelSpec
from winogen.toolchain.compiler import mode

Step = Callable[[int, int, str], None]


def kernels(plans: Iterable[Planned]) -> list[KernelSpec]:
    """Return the kernels that plans need, each once."""
    return list(dict.fromkeys(spec for planned in plans for spec in planned.specs))


def compile_all(
    specs: Iterable[KernelSpec],
    step: Step | None = None,
    others: Mapping[str, Callable[[], object]] = MappingProxyType({}),
) -> None:
    """Compile and load kernels, as many at once as there are CPUs.

    ``others`` are further libraries by name, each with what loads it. ``step(done, total, name)``
    is called after each. Raises BuildError for the first that fails.
    """
    environment = Environment.now()
    # Other libraries are long ones, and wait for no part that kernels share.
    wanted: list[tuple[str, Callable[[], object]]] = [
        *others.items(),
        *((spec.variant, partial(kernel, spec, environment)) for spec in specs),
    ]
    if step:
        step(0, len(wanted), "")
    with ThreadPoolExecutor(min(len(wanted), os.cpu_count() or 1) or 1) as pool:
        jobs = {pool.submit(load): name for name, load in wanted}
        try:
            for done, job in enumerate(as_completed(jobs), 1):
                job.result()
                if step:
                    step(done, len(wanted), jobs[job])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def load_soon(load: Callable[[], object]) -> None:
    """Begin in a thread to load what a later call waits for; that one says what goes wrong."""

    def work() -> None:
        with suppress(Exception):
            load()

    threading.Thread(target=work, name="winogen loads", daemon=True).start()


_Key = tuple[Environment, KernelSpec]


def _compile(spec: KernelSpec) -> None:
    kernel(spec, Environment.now())


class _Background:
    """Kernels that daemon threads compile, each once and no more at a time than there are CPUs.

    No pool of Python's: its threads are waited for when a process ends, whatever is left to do.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[_Key] = deque()
        self._unfinished: set[_Key] = set()
        self._failed: dict[_Key, Exception] = {}
        self._told: Counter[_Key] = Counter()  # how often of each that failed
        self._threads = 0

    def is_done(self, wanted: Collection[_Key]) -> bool:
        """Return whether none of these kernels is still to be compiled; raise what went wrong.

        What went wrong may be over later: after 1, 2, 4, 8, ... such answers it is forgotten.
        """
        with self._lock:
            if not self._unfinished.isdisjoint(wanted):
                return False
            failed = [key for key in wanted if key in self._failed]
            problems = [self._failed[key] for key in failed]
            self._told.update(failed)
            for key in failed:
                if self._told[key].bit_count() == 1:
                    del self._failed[key]
        if problems:  # without the frames of those who were told before
            raise problems[0].with_traceback(None)
        return True

    def add(self, wanted: Iterable[_Key]) -> None:
        """Begin to compile these."""
        with self._lock:
            for key in wanted:
                if key not in self._unfinished:
                    self._unfinished.add(key)
                    self._waiting.append(key)
            while self._threads < min(os.cpu_count() or 1, len(self._unfinished)):
                threading.Thread(target=self._work, name="winogen compiles", daemon=True).start()
                self._threads += 1

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    return
                key = self._waiting.popleft()
            problem = None
            try:
                _compile(key[1])
            except Exception as found:  # told to whoever asks for the kernel
                problem = found
            with self._lock:
                if problem is not None:
                    self._failed[key] = problem
                self._unfinished.discard(key)


_background: dict[int, _Background] = {}  # by process, since a forked one has none of the threads


def compile_soon(specs: Iterable[KernelSpec]) -> bool:
    """Return whether kernels can be loaded; if not, threads begin to compile what is missing.

    With WINOGEN_COMPILE=missing always true, so that who loads them compiles; with off, too, for
    plans are made of what is at hand then. Raises InvalidValue for another value, and BuildError
    for a kernel that could not be compiled; who asks again and again has it tried again, ever more
    rarely.
    """
    if mode("background") != "background":
        return True
    environment = Environment.now()
    wanted = {(environment, spec): None for spec in specs}
    background = _background.setdefault(os.getpid(), _Background())
    if not background.is_done(wanted):
        return False
    missing = [key for key in wanted if not at_hand(key[1])]
    background.add(missing)
    return not missing
