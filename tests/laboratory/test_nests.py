"""The search for loop nests: it measures, survives what fails, and goes on where it was stopped."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from numerics.conftest import kernel_cache  # noqa: F401 - compiled nests outlive the run

from winogen.conv.choice import Choice
from winogen.conv.standalone import standalone
from winogen.errors import InvalidValue, Unsupported, WinogenError
from winogen.records import TARGETS
from winogen.tasks import Executor, Results
from winogen.toolchain import find_compiler, host_target
from winogen.tuning.layers import BenchLayer
from winogen_lab.bench.cachegrind import COUNTS
from winogen_lab.loops import counting, tasks
from winogen_lab.loops.parameters import Parameters
from winogen_lab.loops.search import NestSearch, compare, search, workers
from winogen_lab.loops.usual import usual

LAYER = BenchLayer.from_dict(
    {"name": "tiny", "input": [1, 4, 6, 7], "weight": [3, 4, 3, 3], "padding": 1, "stride": 2}
)
RANGES = {
    "strategy": {"filters-c"},
    "copies": {"explicit"},
    "prefetch": {""},
    "rows": {1},
    "pixels": {1, 2, 3},
    "filters": {1, 2},
    **{f"block_{dim}": {None} for dim in "MHWCYX"},
    **{f"unroll_{dim}": {1} for dim in "MHWCYX"},
}
WANTED = NestSearch(LAYER, "NHWC", host_target(), "elite", draws=2, best=1, rounds=2, ranges=RANGES)
ALL = 5  # the usual nest is measured, too


def made_up(task):
    """Seconds that follow from the task, as those of a machine without noise would."""
    if task["task"] == "compile":
        return {"seconds": 1.0}
    chosen = task["nest"]
    if chosen.get("pixels", 1) == 2:
        return {"error": "CompileFailed: made up"}
    seconds = chosen.get("pixels", 1) + chosen.get("filters", 1) / 10
    if task["task"] == "count":  # the slower a nest the fewer its misses
        return {"counts": {**dict.fromkeys(COUNTS, 9), "D1": int(100 / seconds)}}
    return {"seconds": seconds}


def executors(path=None, run=made_up):
    results = Results(path, tasks.check_entry)
    return Executor(results, run), Executor(results, run)


@pytest.fixture(autouse=True)
def no_child_left():
    yield
    tasks.close()


@pytest.mark.thorough
def test_measures_nests_that_are_right(tmp_path):
    path = tmp_path / "nests.jsonl"
    with workers(path) as both:
        found = search(WANTED, *both)
        times = compare(WANTED, [found[0].nest])
    assert len(found) == ALL and all(0 < one.seconds < 1 and not one.error for one in found)
    assert len(times) == 2 and all(0 < one < 1 for one in times)
    kinds = [json.loads(line)["task"]["task"] for line in path.read_text().splitlines()]
    assert kinds.count("compile") == kinds.count("measure") == ALL
    again = search(WANTED, *executors(path, run=None))  # nothing is done twice
    assert [(one.nest, one.seconds) for one in again] == [(o.nest, o.seconds) for o in found]


def test_misses_in_the_leaves_and_as_the_cost(monkeypatch, tmp_path):
    """The search goes where misses are few, and keeps the counts with the seconds."""
    monkeypatch.setattr(counting, "check", lambda target: None)
    sent, usual_way = [], NestSearch.way

    def way(self, space):
        inner = usual_way(self, space)
        batch = next(inner)
        while True:
            sent.extend(costs := (yield batch))
            try:
                batch = inner.send(costs)
            except StopIteration:
                return

    monkeypatch.setattr(NestSearch, "way", way)
    wanted = replace(WANTED, cost="D1", seed=1)
    path = tmp_path / "nests.jsonl"
    found = search(wanted, *executors(path))
    able = [one for one in found if not one.error]
    assert len(able) >= 2 and any(one.error for one in found)
    assert [one.counts["D1"] for one in able] == [int(100 / one.seconds) for one in able]
    assert able[0].seconds == max(one.seconds for one in able)
    assert {*sent} <= {math.inf, *(one.counts["D1"] for one in able)}  # what the traversal hears
    again = search(wanted, *executors(path, run=None))
    assert [one.counts for one in again] == [one.counts for one in found]
    with pytest.raises(InvalidValue, match="cost: got 'luck'; allowed: seconds, instructions"):
        replace(WANTED, cost="luck")


def test_no_count_without_what_counts(monkeypatch):
    monkeypatch.setattr(counting.shutil, "which", lambda name: None)
    with pytest.raises(WinogenError, match="valgrind is not on the path"):
        replace(WANTED, cost="LL")
    monkeypatch.setattr(counting.shutil, "which", lambda name: name)
    with pytest.raises(Unsupported, match="isa: got avx512; allowed: avx2"):
        replace(WANTED, cost="LL", target=TARGETS["avx512"])


@pytest.mark.parametrize("layout", ("NHWC", "NCHW"))
def test_a_nest_alone_calls_what_it_has(layout, tmp_path):
    """Files of a layer have its functions, and no call of one that its options leave out."""
    shape = (1, 4, 6, 6) if layout == "NCHW" else (1, 6, 6, 4)
    files = standalone(shape, (4, 4, 3, 3), layout=layout, algorithm="loops", isa="generic",
                       name="nest")  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    words = [*find_compiler().command, "-fsyntax-only", "-Werror=implicit-function-declaration"]
    subprocess.run([*words, str(tmp_path / "nest.c")], check=True)


@pytest.mark.thorough
def test_a_nest_is_counted():
    """A vector of products for each instruction of a nest, and more of what is not."""
    if shutil.which("valgrind") is None:
        pytest.skip("needs valgrind")
    layer = BenchLayer.from_dict({"name": "one", "input": [1, 16, 8, 8], "weight": [16, 16, 3, 3]})
    target = TARGETS["generic"]
    nest = usual(tasks.problem_of_layer(layer, "NHWC", target), target)
    choice = Choice("loops", parameters=nest)
    found = counting.counts_of(layer.problem("NHWC"), target, choice)
    products = 36 * 9 * 16 * 16 // 4
    assert products < found["instructions"] < 12 * products
    assert 16 * 16 * 9 * 4 // 64 <= found["D1"] + 200 and found["LL"] == 0


def task(**changed):
    one = Parameters(
        "filters-c", "HWC", "YXCM", "HWM", ("M", "H", "W", "Y", "X"), copies="explicit"
    )
    made = tasks.measure_task(LAYER, "NHWC", host_target(), one, 1)
    return {**made, "nest": {**made["nest"], **changed}}


def test_wrong_outputs_are_an_error(monkeypatch):
    monkeypatch.setattr(tasks, "ask", tasks.work)
    assert "seconds" in tasks.run(task())
    original = tasks._output

    def spoiled(prepared, x, weight):
        y = original(prepared, x, weight)
        if prepared.choice.algorithm == "loops":
            y[0, 1, 0, 2] += 1
        return y

    monkeypatch.setattr(tasks, "_output", spoiled)
    with pytest.raises(tasks.WrongNest, match=r"1 of 36 outputs are wrong: .* at \(0, 1, 0, 2\)"):
        tasks.run(task())


def test_nests_that_are_illegal_or_do_not_compile_are_errors(monkeypatch, tmp_path):
    assert "InvalidValue" in tasks.run(task(pixels=100))["error"]
    monkeypatch.setenv("CC", "false")
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path))  # another test may have compiled this nest
    tasks.close()
    assert "error" in tasks.run(task())
    tasks.close()


def test_a_child_that_dies_or_hangs_is_an_error_and_is_replaced(monkeypatch):
    first = tasks.run(task())
    assert "seconds" in first
    os.kill(tasks._child._running.process.pid, signal.SIGKILL)
    assert "SIGKILL" in tasks.run(task())["error"]
    assert "seconds" in tasks.run(task())
    monkeypatch.setattr(tasks._child, "_patience", 0.0)
    assert "no answer" in tasks.run({**task(), "effort": 1000})["error"]
    assert "seconds" in tasks.run(task())


def test_failures_are_recorded_and_skipped():
    found = search(WANTED_MORE, *executors())
    failed = [one for one in found if one.error]
    assert failed and {one.error for one in failed} == {"CompileFailed: made up"}
    assert found[-len(failed) :] == failed
    assert all(one.nest.pixels != 2 for one in found[: -len(failed)])


WANTED_MORE = NestSearch(
    LAYER, "NHWC", host_target(), "elite", draws=40, best=4, rounds=3, ranges=RANGES
)


@pytest.mark.parametrize("cost", ["seconds", "D1"])
@pytest.mark.parametrize("stop", [1, 17, 18, 60])
def test_a_search_that_was_stopped_goes_on_where_it_was(tmp_path, monkeypatch, stop, cost):
    monkeypatch.setattr(counting, "check", lambda target: None)
    wanted = replace(WANTED_MORE, cost=cost)
    expected = search(wanted, *executors())
    path, done = tmp_path / "nests.jsonl", []

    def until(task):
        if len(done) == stop:
            raise KeyboardInterrupt
        done.append(task)
        return made_up(task)

    with pytest.raises(KeyboardInterrupt):
        search(wanted, *executors(path, until))
    lines = path.read_bytes().count(b"\n")
    assert lines == stop
    with path.open("ab") as file:
        file.write(b'{"task": {"task": "meas')  # as if killed in the middle of a line
    again = []
    found = search(wanted, *executors(path, lambda task: again.append(task) or made_up(task)))
    assert found == expected
    assert not [task for task in again if task in done]
    whole = tmp_path / "whole.jsonl"
    search(wanted, *executors(whole))
    assert path.read_text() == whole.read_text()


def test_ends_when_the_time_is_over():
    (one,) = search(WANTED, *executors(), seconds=0)
    assert one.nest == usual(WANTED.problem(), WANTED.target)


@pytest.mark.thorough
def test_processes_compile_and_a_cluster_does_all(tmp_path):
    pytest.importorskip("joblib")
    with workers(None, jobs=2) as both:
        found = search(WANTED, *both)
    assert len(found) == ALL and not any(one.error for one in found)
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    )
    with cluster, workers(None, jobs=cluster.scheduler_address) as both:
        assert {one.nest for one in search(WANTED, *both)}


@pytest.mark.parametrize("way", ["random", "elite", "narrowing", "descent"])
def test_every_traversal(way):
    wanted = NestSearch(LAYER, "NHWC", host_target(), way, draws=4, rounds=2, best=2, near=2)
    found = search(wanted, *executors())
    assert len({one.nest for one in found}) == len(found) >= 8
    assert [one.seconds for one in found] == sorted(one.seconds for one in found)


@pytest.mark.parametrize(
    "entry",
    [
        3,
        {"task": {"task": "measure"}},
        {"task": {"task": "guess"}, "result": {"seconds": 1.0}},
        {"task": {"task": "measure"}, "result": {"seconds": -1.0}},
        {"task": {"task": "measure"}, "result": {"seconds": float("inf")}},
        {"task": {"task": "measure"}, "result": {"seconds": 1.0, "error": ""}},
        {"task": {"task": "compile"}, "result": {"error": 3}},
    ],
)
def test_files_of_something_else_are_refused(tmp_path, entry):
    path = tmp_path / "notes.jsonl"
    path.write_text(json.dumps(entry) + "\n")
    with pytest.raises(InvalidValue, match="results: got line 1 of .*allowed: "):
        Results(path, tasks.check_entry)


def test_refusals():
    with pytest.raises(InvalidValue, match="traversal: got 'luck'; allowed: random, elite"):
        search(NestSearch(LAYER, "NHWC", host_target(), "luck"), *executors())
    with pytest.raises(InvalidValue, match="image: got CHW; allowed: HWC"):
        NestSearch(LAYER, "NHWC", host_target(), ranges={"image": {"CHW"}}).space()


@pytest.mark.thorough
def test_a_killed_command_goes_on(tmp_path):
    """The whole way, once: the command is killed, and started again with its file."""
    path = tmp_path / "nests.jsonl"
    ranges = [
        text
        for name, values in RANGES.items()
        for text in ("--range", f"{name}={','.join(map(str, values))}")
    ]
    command = [
        *(
            sys.executable,
            "-m",
            "winogen.cli",
            "lab",
            "search-loops",
            "--input",
            "1,4,6,7",
            "--weight",
            "3,4,3,3",
        ),
        *("--padding", "1", "--stride", "2", "--layout", "NHWC", "--draws", "2", "--best", "1"),
        *("--rounds", "2", "--json", "--results", str(path), *ranges),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not (path.exists() and path.read_bytes().count(b"\n") >= 3):
        time.sleep(0.01)
    process.kill()
    process.wait()
    saved = path.read_text().splitlines()
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert path.read_text().splitlines()[: len(saved)] == saved
    found = json.loads(run.stdout)
    assert found["direct_s"] > 0 and len(found["nests"]) == 5 and found["failed"] == []
    Parameters.from_dict(found["nests"][0]["nest"])
