"""A search may be killed, shared between processes, and lose workers: the result is the same."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from winogen.errors import InvalidValue, WinogenError
from winogen.numerics.search import Results, Search, executor, search
from winogen.numerics.search import tasks as work

WANTED = Search(5, 3, keep=16, trials=1000, height=4)


def texts(found) -> list:
    return [(str(f.candidate), f.mean) for f in found]


@pytest.fixture(scope="module")
def expected():
    with executor(Results()) as execute:
        return texts(search(WANTED, execute))


def resume(path, monkeypatch):
    """Go on from a file; return (what was found, how many tasks were done)."""
    done = []
    monkeypatch.setitem(work._KINDS, "measure", counted(work._measure, done))
    monkeypatch.setitem(work._KINDS, "propose", counted(work._propose, done))
    with executor(Results(path)) as execute:
        return texts(search(WANTED, execute)), len(done)


def counted(function, done):
    def call(task):
        done.append(task)
        return function(task)

    return call


def test_a_killed_run_loses_nothing(tmp_path, monkeypatch, expected):
    path = tmp_path / "found.jsonl"
    program = (
        "import sys; from winogen.cli import main; sys.argv[0] = 'winogen'; main()",
        *("search", "5", "3", "--keep", "16", "--trials", "1000", "--height", "4"),
        *("--results", str(path)),
    )
    process = subprocess.Popen(
        [sys.executable, "-c", *program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists() and path.read_bytes().count(b"\n") >= 6:
            break
        time.sleep(0.005)
    process.kill()
    process.wait()
    saved = path.read_bytes().count(b"\n")
    assert saved >= 6
    with path.open("ab") as file:
        file.write(b'{"task": {"task": "meas')  # as if killed in the middle of a line
    found, done = resume(path, monkeypatch)
    assert found == expected
    everything = path.read_bytes().splitlines()
    assert len(everything) == saved + done and all(map(json.loads, everything))
    assert resume(path, monkeypatch) == (expected, 0)


def test_files_that_are_no_results_are_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("points to try\n")
    with pytest.raises(InvalidValue, match="line 1 of .*notes.txt"):
        Results(path)
    assert path.read_text() == "points to try\n"


def test_processes(expected):
    pytest.importorskip("joblib")
    with executor(Results(), jobs=2) as execute:
        assert texts(search(WANTED, execute)) == expected


@pytest.mark.thorough
def test_a_cluster_that_loses_a_worker(expected):
    distributed = pytest.importorskip("distributed")
    pytest.importorskip("joblib")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    killed = []

    def kill_one(stage, done, total):
        if not killed and stage == "measure, round 1" and done >= 3:
            with distributed.Client(cluster, set_as_default=False) as client:
                killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    with (
        cluster,
        executor(Results(), cluster.scheduler_address, progress=kill_one) as execute,
    ):
        assert texts(search(WANTED, execute)) == expected
    assert killed and killed[0] != os.getpid()


def test_nobody_at_the_address(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("winogen.tasks.execute._PATIENCE", "1s")
    address = "tcp://127.0.0.1:9"
    with (
        pytest.raises(WinogenError, match=f"jobs: got '{address}'"),
        executor(Results(), address),
    ):
        pass


@pytest.mark.parametrize("jobs", [0, "0", "-2", "scheduler", "9" * 5000])
def test_jobs(jobs):
    with pytest.raises(InvalidValue, match=f"jobs: got {jobs}"), executor(Results(), jobs):
        pass
