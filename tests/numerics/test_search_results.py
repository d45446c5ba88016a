"""A file of results: only one that a search wrote is used, and no other is changed."""

import json
import os
from pathlib import Path

import pytest

from winogen.errors import InvalidValue
from winogen.numerics.search import Candidate, Results
from winogen.numerics.search import tasks as work
from winogen.numerics.search.run import DEFAULTS
from winogen.numerics.search.spaces import structures

CANDIDATE = {"m": 2, "r": 3, "points": ["0", "1", "-1", "inf"]}
MEASURE = {"task": "measure", "candidate": CANDIDATE, "dims": 2, "settings": {}}
COUNT = {"task": "count", "candidate": CANDIDATE}
SCALE = {"task": "scale", "candidate": CANDIDATE}
PROPOSE = {"task": "propose", "m": 2, "r": 3}
MEASURED = {"mean": 1e-7, "half_width": 1e-9}
COUNTS = {"input": 4, "filter": 5, "output": 4}


def line(task, result) -> bytes:
    return json.dumps({"task": task, "result": result}).encode() + b"\n"


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "results.jsonl"


@pytest.mark.parametrize(
    "content",
    [
        b"my thesis, no newline",
        b"my thesis\nin two lines",
        b'{"task": "write a thesis"}',  # JSON to the end: nothing was cut off
        b'{"title": "a thes',
        b"\xff\xfe\x00",
        b"\r",
        line(MEASURE, MEASURED) + b"a note\rof mine\n" + line(COUNT, 1),
        line(MEASURE, MEASURED) + b'{"task": {"task": "measure"}, "result": 3}',
        b"[" * 200_000 + b"\n",
        b'{"task": ' * 200_000,
        b"1" * 5000 + b"\n",
    ],
)
def test_foreign_files_are_refused_and_left_alone(path, content):
    path.write_bytes(content)
    with pytest.raises(InvalidValue, match=r"results: got line \d of .*results.jsonl.*; allowed: "):
        Results(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("left", [20, 60])
def test_a_line_that_was_cut_off_is_dropped(path, left):
    whole, half = line(MEASURE, MEASURED), line(SCALE, CANDIDATE)[:left]
    for before in (b"", whole):
        path.write_bytes(before + half)
        results = Results(path)
        assert len(results) == bool(before)
        results.add(COUNT, {"instructions": COUNTS, "candidate": CANDIDATE})
        results.close()
        assert path.read_bytes().startswith(before)
        assert COUNT in Results(path) and (MEASURE in Results(path)) == bool(before)


def test_a_last_line_that_lacks_only_its_newline_is_kept(path):
    path.write_bytes(line(MEASURE, MEASURED)[:-1])
    results = Results(path)
    results.add(SCALE, CANDIDATE)
    results.close()
    assert path.read_bytes() == line(MEASURE, MEASURED) + line(SCALE, CANDIDATE)


@pytest.mark.parametrize(
    "task, results",
    [
        (MEASURE, [3, None, {}, {"mean": 1e-7}, {"mean": "1e-7", "half_width": 0.0}]),
        (MEASURE, [{"mean": float("nan"), "half_width": 0.0}, {"mean": -1.0, "half_width": 0.0}]),
        (MEASURE, [{"mean": True, "half_width": 0.0}]),
        (PROPOSE, [{}, [3], [[1e-7]], [[1e-7, {"m": 2}]], [["1e-7", CANDIDATE]]]),
        (SCALE, [None, [], {**CANDIDATE, "points": "0"}, {**CANDIDATE, "points": [0, 1]}]),
        (SCALE, [{"m": 2, "r": 3}, {**CANDIDATE, "m": 0}, {**CANDIDATE, "moduli": ["x"]}]),
        (SCALE, [{**CANDIDATE, "input": ["1"] * 4}]),
        (COUNT, [COUNTS, {"instructions": {**COUNTS, "input": "4"}, "candidate": CANDIDATE}]),
        (COUNT, [{"instructions": {"input": 4}, "candidate": CANDIDATE}]),
        ({"task": "guess"}, [1]),
        ({"task": ["measure"]}, [MEASURED]),
        (["measure"], [MEASURED]),
    ],
)
def test_results_that_no_search_writes(path, task, results):
    for result in results:
        path.write_bytes(content := line(task, result))
        with pytest.raises(InvalidValue, match="results: got line 1 of .*allowed: "):
            Results(path)
        assert path.read_bytes() == content


def test_what_tasks_return_can_be_read_again(path):
    narrow = {**DEFAULTS, "dtype": "float16"}
    scaled = {**CANDIDATE, "input": ["100000", "1", "1", "1"], "output": ["1"] * 4}
    candidates = [Candidate.from_dict(data) for data in (CANDIDATE, scaled)]
    made = [
        work.measure_task(candidates[0], 2, DEFAULTS, 1, 0),  # one trial has no interval
        work.measure_task(candidates[1], 2, narrow, 20, 0),  # overflows
        work.scale_task(candidates[0], 1, DEFAULTS),
        work.count_task(candidates[0]),
        work.propose_task(structures(2, 3)[0], 2, 3, 2, 1, DEFAULTS, 0, 3),
    ]
    results = Results(path)
    for task in made:
        results.add(task, work.run(task))
    results.close()
    again = Results(path)
    assert [again[task] for task in made] == [results[task] for task in made]
    assert again[made[1]]["mean"] == float("inf")


def test_only_regular_files(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (fifo, tmp_path, "/dev/zero", "/dev/full", "/dev/null"):
        with pytest.raises(InvalidValue, match="results: got .* not a regular file; allowed"):
            Results(path)
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "below", "a\0b"):
        with pytest.raises(InvalidValue, match="results: got .*; allowed"):
            Results(path)
