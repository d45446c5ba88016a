"""Kernels of many layers, compiled side by side."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from functools import partial
from types import MappingProxyType

from winogen.conv.execute import Environment, at_hand, kernel
from winogen.errors import InvalidValue, WinogenError
from winogen.graph.planning import Planned
from winogen.kernels.spec import KernelSpec

Step = Callable[[int, int, str], None]


def kernels(plans: Iterable[Planned]) -> list[KernelSpec]:
    """Return the kernels that plans need, each once."""
    specs: dict[KernelSpec, None] = {}
    for planned in plans:
        for problem, choice in zip(planned.problems, planned.choices):
            if problem is None:
                continue
            for work in choice.ways[0].candidate.works(problem):
                specs[KernelSpec.of(work)] = None
    return list(specs)


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
    wanted: list[tuple[str, Callable[[], object]]] = [
        (spec.variant, partial(kernel, spec, environment)) for spec in specs
    ]
    wanted += others.items()
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


# Threads that compile, by their process and what they compile. Every access is one atomic step.
_compiling: dict[tuple, threading.Thread] = {}


def compile_soon(specs: Iterable[KernelSpec]) -> bool:
    """Return whether kernels can be loaded; if not, a thread begins to compile what is missing.

    True, too, once that has failed: who loads them reads why. With WINOGEN_COMPILE=missing always
    true, so that who loads them compiles. Raises InvalidValue for another value, and BuildError.
    """
    wanted = frozenset(specs)
    mode = os.environ.get("WINOGEN_COMPILE", "").strip() or "background"
    if mode not in ("missing", "background"):
        raise InvalidValue(f"WINOGEN_COMPILE: got {mode!r}; allowed: missing or background")
    key = os.getpid(), Environment.now(), wanted
    thread = _compiling.get(key)
    if thread is not None:
        return not thread.is_alive()
    if mode == "missing" or all(map(at_hand, wanted)):
        return True

    def work() -> None:
        with suppress(WinogenError):
            compile_all(wanted)

    thread = threading.Thread(target=work, name="winogen compiles", daemon=True)
    if _compiling.setdefault(key, thread) is thread:
        thread.start()
    return False
