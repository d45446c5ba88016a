"""Running tasks: here, in other processes, or on a cluster; results go to disk as they come."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from winogen.errors import InvalidValue, WinogenError
from winogen.numerics.search.tasks import is_result, key_of, run

_PATIENCE = "10s"  # for a scheduler to answer
Progress = Callable[[str, int, int], None]  # (stage, tasks done, of how many)


class Results:
    """Results of tasks, kept as JSON lines so that a killed search loses nothing.

    One line is written per result, as soon as it is there. A last line that was cut off is
    dropped when the file is opened again. One file may serve many searches: a result is found by
    its task.
    """

    def __init__(self, path: str | Path | None = None):
        self._known: dict[str, object] = {}
        self._file = None
        if path is None:
            return
        path = Path(path)
        whole = 0
        if path.exists():
            data = path.read_bytes()
            for number, line in enumerate(data.splitlines(keepends=True), 1):
                if not line.endswith(b"\n"):
                    break
                try:
                    entry = json.loads(line)
                    if not is_result(entry["task"], entry["result"]):
                        raise ValueError("not a result of this task")
                    self._known[key_of(entry["task"])] = entry["result"]
                except (ValueError, TypeError, KeyError, RecursionError):
                    raise InvalidValue(
                        f"results: got line {number} of {path}, which is no result of a search; "
                        "allowed: a new file, or one that an earlier search wrote"
                    ) from None
                whole += len(line)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+b")
        self._file.truncate(whole)

    def __contains__(self, task: dict) -> bool:
        return key_of(task) in self._known

    def __getitem__(self, task: dict):
        return self._known[key_of(task)]

    def __len__(self) -> int:
        return len(self._known)

    def add(self, task: dict, result) -> None:
        """Keep a result, in memory and on disk."""
        self._known[key_of(task)] = result
        if self._file is not None:
            line = json.dumps({"task": task, "result": result})
            self._file.write(line.encode() + b"\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file; results stay readable."""
        if self._file is not None:
            self._file.close()
            self._file = None


class Executor:
    """Runs tasks that have no result yet, in the order given by whoever finishes first."""

    def __init__(self, results: Results, jobs: int = 1, progress: Progress | None = None):
        self.results = results
        self.jobs = jobs
        self.progress = progress or (lambda stage, done, total: None)

    def __call__(self, stage: str, tasks: Sequence[dict]) -> list:
        """Return the results of ``tasks``, in their order."""
        missing = {key_of(task): task for task in tasks if task not in self.results}
        missing = list(missing.values())
        done = len(tasks) - len(missing)
        self.progress(stage, done, len(tasks))
        for task, result in self._run(missing):
            self.results.add(task, result)
            done += 1
            self.progress(stage, done, len(tasks))
        return [self.results[task] for task in tasks]

    def _run(self, tasks: list[dict]) -> Iterator[tuple]:
        if self.jobs == 1 or len(tasks) < 2:
            yield from map(_with_task, tasks)
            return
        joblib = _import("joblib")
        parallel = joblib.Parallel(self.jobs, return_as="generator_unordered")
        yield from parallel(joblib.delayed(_with_task)(task) for task in tasks)


def _with_task(task: dict) -> tuple:
    return task, run(task)


@contextmanager
def executor(
    results: Results, jobs: int = 1, dask: str | None = None, progress: Progress | None = None
):
    """Yield an `Executor`: ``jobs`` processes here (-1: all CPUs), or the cluster at ``dask``.

    With Dask, a worker that dies loses only what it was doing: that is done again by another.
    Raises InvalidValue for 0 jobs, WinogenError when a package is missing or nobody answers at the
    address.
    """
    if jobs == 0 or jobs < -1:
        raise InvalidValue(f"jobs: got {jobs}; allowed: a number of processes, or -1 for all CPUs")
    with _cluster(dask) if dask else nullcontext() as cluster_jobs:
        yield Executor(results, cluster_jobs or jobs, progress)


@contextmanager
def _cluster(address: str) -> Iterator[int]:
    joblib, distributed = _import("joblib"), _import("distributed")
    try:
        client = distributed.Client(address, timeout=_PATIENCE, set_as_default=True)
    except (OSError, TimeoutError, ValueError) as error:
        raise WinogenError(f"dask: got {address!r}, where no scheduler answers: {error}") from None
    with client, joblib.parallel_config("dask", client=client, wait_for_workers_timeout=30):
        yield -1


def _import(name: str):
    from importlib import import_module

    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise WinogenError(
            f"{name} is not installed; `pip install 'winogen[search]'` brings what a search on "
            "several processes or machines needs"
        ) from None
