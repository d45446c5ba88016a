"""Turns: who runs when, and what becomes of the times."""

import pytest

from winogen.lab.bench import contest
from winogen.lab.bench.team import ContestantFailed


def test_everybody_runs_once_per_round_and_the_first_changes():
    log = []

    def turn(name):
        return lambda: (log.append(name), ([1.0], 1.0, 0.0))[1]

    contest.take_turns({n: turn(n) for n in "abc"}, 3, lambda: log.append("|"))
    assert "".join(log) == "|abc|bca|cab"


def test_medians_of_medians():
    answers = iter(
        [([3.0, 1.0, 2.0], 1.0, 0.5), ([9.0, 7.0], 0.8, 0.0), ([4.0, 4.0, 0.5], 1.0, 0.0)]
    )
    times = contest.take_turns({"a": lambda: next(answers)}, 3)["a"]
    assert times.medians == [2.0, 8.0, 4.0]
    assert (times.median, times.best) == (4.0, 0.5)
    assert (times.cores, times.preempted) == ([1.0, 0.8, 1.0], [0.5, 0.0, 0.0])


def test_who_fails_is_left_out_of_the_following_rounds():
    calls = []

    def failing():
        calls.append("failing")
        raise ContestantFailed("fell over")

    results = contest.take_turns({"bad": failing, "good": lambda: ([1.0], 1.0, 0.0)}, 4)
    assert results["bad"] == "fell over" and calls == ["failing"]
    assert len(results["good"].medians) == 4


def test_other_errors_are_not_swallowed():
    with pytest.raises(ZeroDivisionError):
        contest.take_turns({"a": lambda: 1 / 0}, 1)


@pytest.mark.parametrize(
    "seconds, min_time, calls",
    [(1.0, 0.02, 1), (0.01, 0.02, 2), (0.003, 0.02, 7), (1e-9, 0.02, 1000), (0.0, 0.0, 1)],
)
def test_short_calls_are_repeated(seconds, min_time, calls):
    assert contest.calls_for(seconds, min_time) == calls
