"""Kernels of many layers, compiled side by side."""

from __future__ import annotations

import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, TimeoutError, as_completed
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from winogen.conv.execute import Environment, kernel
from winogen.conv.stock import at_hand
from winogen.graph.planning import Planned
from winogen.kernels.kind import Spec
from winogen.kernels.spec import KernelSpec
from winogen.tasks.idle import end, give_way, lower_priority, work_behind_calls
from winogen.tasks.limit import Limit
from winogen.toolchain.compiler import mode

Step = Callable[[int, int, str], None]
K = TypeVar("K")


def kernels(plans: Iterable[Planned]) -> list[KernelSpec]:
    """Return the kernels that plans need, each once."""
    return list(dict.fromkeys(spec for planned in plans for spec in planned.specs))


def compile_all(
    specs: Iterable[Spec],
    step: Step | None = None,
    others: Mapping[str, Callable[[], object]] = MappingProxyType({}),
    limit: Limit | None = None,
) -> set[Spec]:
    """Compile and load kernels, as many at once as there are CPUs, and return those that are there.

    ``others`` are further libraries by name, each with what loads it. ``step(done, total, name)``
    is called after each. Kernels that the ``limit`` leaves no time for come later, by a thread, for
    whoever asks then; what is at hand, and the others, are always loaded. Raises BuildError for the
    first that fails.
    """
    if limit is not None and limit.seconds is not None:
        return _compile_until(limit, list(specs), step, others)
    specs, environment = list(specs), Environment.now()
    # Other libraries are long ones, and wait for no part that kernels share.
    wanted: list[tuple[str, Callable[[], object]]] = [
        *others.items(),
        *((_name(spec), partial(kernel, spec, environment)) for spec in specs),
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
    return set(specs)


def _compile_until(
    limit: Limit,
    specs: list[Spec],
    step: Step | None,
    others: Mapping[str, Callable[[], object]],
) -> set[Spec]:
    """Do what `compile_all` does, as far as a limit allows; the first kernels first."""
    ready = [spec for spec in specs if at_hand(spec)]
    missing = [spec for spec in specs if spec not in set(ready)]
    environment = Environment.now()
    pool = ThreadPoolExecutor(os.cpu_count() or 1)
    further = list(others.values())
    jobs = {pool.submit(load): name for load, name in zip(further, others)}
    begun = missing if limit.allows() else []
    made = {pool.submit(kernel, spec, environment): spec for spec in begun}
    total = len(jobs) + len(specs)
    try:
        compile_all(ready)
        for job in jobs:
            job.result()
        done = len(jobs) + len(ready)
        if step:
            step(done, total, "")
        try:
            for compiled in as_completed(made, limit.left()):
                compiled.result()
                done += 1
                ready.append(made[compiled])
                if step:
                    step(done, total, _name(made[compiled]))
        except TimeoutError:
            done_late = [spec for one, spec in made.items() if one.done() and not one.exception()]
            ready += [spec for spec in done_late if spec not in ready]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return set(ready)


def _name(spec: Any) -> str:
    """What people see of a kernel while it compiles."""
    return str(getattr(spec, "variant", spec.name))


def load_soon(load: Callable[[], object]) -> None:
    """Begin in a thread to load what a later call waits for; that one says what goes wrong."""

    def work() -> None:
        with suppress(Exception):
            load()

    threading.Thread(target=work, name="winogen loads", daemon=True).start()


def _compile(spec: Spec) -> None:
    kernel(spec, Environment.now())


class Background(Generic[K]):
    """Work by its keys that daemon threads do, each once and no more at a time than there are CPUs.

    No pool of Python's: its threads are waited for when a process ends, whatever is left to do.
    ``work`` does what a key stands for; threads have the ``name``, at most ``most`` at a time.
    """

    def __init__(
        self, work: Callable[[K], object], name: str = "winogen compiles", most: int | None = None
    ) -> None:
        self._do, self._name, self._most = work, name, most
        self._lock = threading.Lock()
        self._waiting: deque[K] = deque()
        self._unfinished: set[K] = set()
        self._failed: dict[K, Exception] = {}
        self._told: Counter[K] = Counter()  # how often of each that failed
        self._threads: set[threading.Thread] = set()

    def is_done(self, wanted: Collection[K]) -> bool:
        """Return whether none of these is still to be done; raise what went wrong.

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

    @property
    def unfinished(self) -> int:
        """How much is still to be done."""
        return len(self._unfinished)

    def add(self, wanted: Iterable[K]) -> None:
        """Begin with these."""
        with self._lock:
            for key in wanted:
                if key not in self._unfinished:
                    self._unfinished.add(key)
                    self._waiting.append(key)
            most = self._most or os.cpu_count() or 1
            while len(self._threads) < min(most, len(self._unfinished)):
                thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                thread.start()
                self._threads.add(thread)

    def end(self) -> None:
        """Leave undone what is not begun, and wait for the threads."""
        with self._lock:
            self._waiting.clear()
            threads = list(self._threads)
        end(threads)

    def _work(self) -> None:
        lower_priority()
        work_behind_calls()
        while True:
            give_way()
            with self._lock:
                if not self._waiting:
                    self._threads.discard(threading.current_thread())
                    return
                key = self._waiting.popleft()
            problem = None
            try:
                self._do(key)
            except Exception as found:  # told to whoever asks for the result
                problem = found
            with self._lock:
                if problem is not None:
                    self._failed[key] = problem
                self._unfinished.discard(key)


# By process, since a forked one has none of the threads.
_background: dict[int, Background[tuple[Environment, Spec]]] = {}


def compile_soon(specs: Iterable[Spec]) -> bool:
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
    background = _background.setdefault(os.getpid(), Background(lambda key: _compile(key[1])))
    if not background.is_done(wanted):
        return False
    missing = [key for key in wanted if not at_hand(key[1])]
    background.add(missing)
    return not missing
