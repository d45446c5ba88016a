"""Who takes turns when, and what of it counts; the clock is moved by those who are timed."""

import time

import pytest

from winogen.tasks.turns import clock_of, in_turns


@pytest.fixture
def clock(monkeypatch):
    """Seconds, in a list: those of the tests' clock, and of the one that ends rounds."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now


@pytest.fixture
def run(clock):
    """Makes a call that takes so many seconds, one after the other; ``run.names`` notes calls."""

    def make(name, costs):
        costs = iter(costs)

        def one():
            make.names.append(name)
            clock[0] += next(costs)

        return one

    make.names = []
    return make


def test_the_fastest_of_a_turn_counts(run):
    runs = [run("a", [5.0, 2.0, 3.0] * 2), run("b", [1.0] * 6)]
    assert in_turns(runs, time.perf_counter, (2, 2), each=(3, 60)) == [[2.0, 2.0], [1.0, 1.0]]
    # Who begins a round ends the next.
    assert "".join(run.names) == "aaabbbbbbaaa"


def test_short_calls_are_repeated_in_a_turn(run):
    quick = [run("c", [1e-5] * 1000)]
    (times,) = in_turns(quick, time.perf_counter, (1, 1), each=(3, 60), turn=1.5e-3)
    assert times == [pytest.approx(1e-5, rel=1e-3)] and len(run.names) == 60


def test_rounds_end_with_the_time(run):
    for seconds, rounds in ((0.0, 2), (7.0, 4), (1e9, 5)):
        taken = in_turns([run("a", [2.0] * 9)], time.perf_counter, (2, 5), seconds)
        assert taken == [[2.0] * rounds]


def test_a_lone_thread_is_not_charged_for_others():
    assert clock_of(1) is time.thread_time and clock_of(2) is time.perf_counter
