"""Kernels of many layers, compiled side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from types import MappingProxyType

from winogen.conv.execute import Environment, kernel
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
