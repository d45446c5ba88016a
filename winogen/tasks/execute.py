"""Running tasks: here, in other processes, or on a cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from time import monotonic
from typing import Any

from winogen.errors import InvalidValue, WinogenError
from winogen.extras import require
from winogen.tasks.results import Results, key_of

_PATIENCE = "10s"  # for a scheduler to answer
_MOST_JOBS = 4096
Progress = Callable[[str, int, int], None]  # (stage, tasks done, of how many)
Run = Callable[[dict], Any]  # does a task; of a module, so that other processes find it


class Executor:
    """Runs tasks that have no result yet, in the order given by whoever finishes first."""

    def __init__(self, results: Results, run: Run, jobs: int = 1, progress: Progress | None = None):
        self.results = results
        self.run = run
        self.jobs = jobs
        self.progress = progress or (lambda stage, done, total: None)
        self.stopped = False  # by Ctrl-C: all that follows is as if the time was over

    def __call__(self, stage: str, tasks: Sequence[dict], until: float | None = None) -> list:
        """Return the results of ``tasks``, in their order.

        ``until``: when to stop, in seconds of `time.monotonic`. What has begun by then is finished.
        Tasks without a result give None, but not all of them: one is done in any case.

        The first Ctrl-C stops like ``until``, this stage and all that follow; a second one, or one
        before there is any result, raises KeyboardInterrupt.
        """
        by_key = {key_of(task): task for task in tasks if task not in self.results}
        missing = list(by_key.values())
        done = len(tasks) - len(missing)
        self.progress(stage, done, len(tasks))
        until = 0.0 if self.stopped else until
        try:
            for task, result in self._run(missing, until, first=not done):
                self.results.add(task, result)
                done += 1
                self.progress(stage, done, len(tasks))
        except KeyboardInterrupt:
            if self.stopped or not done:
                raise
            self.stopped = True
        return [self.results.get(task) for task in tasks]

    def _run(self, tasks: list[dict], until: float | None, first: bool) -> Iterator[tuple]:
        begun = _begun(tasks, until, first)
        if self.jobs == 1 or len(tasks) < 2 or self.stopped:
            yield from ((task, self.run(task)) for task in begun)
            return
        joblib = require("joblib", "search")
        parallel = joblib.Parallel(self.jobs, return_as="generator_unordered")
        yield from parallel(joblib.delayed(_with_task)(self.run, task) for task in begun)


def _begun(tasks: list[dict], until: float | None, first: bool) -> Iterator[dict]:
    """The tasks that begin in time; the ``first`` one in any case, if so asked."""
    for number, task in enumerate(tasks):
        if until is not None and monotonic() >= until and not (first and number == 0):
            return
        yield task


def _with_task(run: Run, task: dict) -> tuple:
    return task, run(task)


@contextmanager
def executor(
    results: Results,
    run: Run,
    jobs: int | str = 1,
    progress: Progress | None = None,
) -> Iterator[Executor]:
    """Yield an `Executor`: ``jobs`` processes here (-1: all CPUs), or the cluster at an address.

    With Dask, a worker that dies loses only its present task: another does it again. Raises
    InvalidValue for 0 jobs or too many, WinogenError when a package is missing or nobody answers at
    the address.
    """
    cluster = ":" in str(jobs)
    count = int(jobs) if re.fullmatch("-?[0-9]{1,9}", str(jobs)) else 0
    if not cluster and (count == 0 or not -1 <= count <= _MOST_JOBS):
        allowed = f"up to {_MOST_JOBS} processes, -1 for all CPUs, or a Dask scheduler's address"
        raise InvalidValue(f"jobs: got {jobs}; allowed: {allowed}")
    with _cluster(str(jobs)) if cluster else nullcontext(count) as count:
        yield Executor(results, run, count, progress)


@contextmanager
def _cluster(address: str) -> Iterator[int]:
    joblib, distributed = require("joblib", "search"), require("distributed", "search")
    try:
        client = distributed.Client(address, timeout=_PATIENCE, set_as_default=True)
    except (OSError, TimeoutError, ValueError) as error:
        raise WinogenError(f"jobs: got {address!r}, where no scheduler answers: {error}") from None
    with client, joblib.parallel_config("dask", client=client, wait_for_workers_timeout=30):
        yield -1
