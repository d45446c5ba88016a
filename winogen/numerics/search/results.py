"""The file of results of a search for algorithms, and who does its tasks."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from winogen import tasks
from winogen.numerics.search.entries import check_entry
from winogen.numerics.search.tasks import run


class Results(tasks.Results):
    """Results of the tasks in ``winogen.numerics.search.tasks``; see ``winogen.tasks.Results``."""

    def __init__(self, path: str | Path | None = None):
        super().__init__(path, check_entry)


def executor(
    results: Results,
    jobs: int | str = 1,
    progress: tasks.execute.Progress | None = None,
) -> AbstractContextManager[tasks.Executor]:
    """Return what ``winogen.tasks.executor`` does, for these tasks."""
    return tasks.executor(results, run, jobs, progress)
