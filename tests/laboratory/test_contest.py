"""Contests: what becomes of the times, of who fails, of other programs."""

import pytest

from winogen_lab.bench import contest
from winogen_lab.bench.contest import Entry, hold
from winogen_lab.bench.team import ContestantFailed


class Fake:
    """A contestant that answers turns from a list; an error is raised."""

    def __init__(self, *turns):
        self.turns, self.asked = list(turns), 0

    def ask(self, command, *arguments):
        if command == "finish":
            return 1 << 20
        self.asked += 1
        turn = self.turns.pop(0)
        if isinstance(turn, Exception):
            raise turn
        return turn

    def cpu_seconds(self):
        return 0.0


def test_medians_of_medians():
    turns = [([3.0, 1.0, 2.0], 1.0, 0.5), ([9.0, 7.0], 0.8, 0.0), ([4.0, 4.0, 0.5], 1.0, 0.0)]
    entry = Entry(Fake(*turns), "a", {"way": "a"})
    hold({"a": entry}, 3, 0.0)
    assert entry.row == {
        "way": "a", "median_s": 4.0, "best_s": 0.5, "cores": 1.0, "preempted": 0.167,
        "peak_rss_bytes": 1 << 20,
    }  # fmt: skip


def test_who_fails_is_left_out_of_the_following_rounds():
    bad = Entry(Fake(ContestantFailed("fell over")), "bad")
    good = Entry(Fake(*[([1.0], 1.0, 0.0)] * 4), "good")
    absent = Entry(Fake(), "absent", {"error": "cannot"})
    hold({"bad": bad, "good": good, "absent": absent}, 4, 0.0)
    assert bad.row == {"error": "fell over"} and bad.contestant.asked == 1
    assert good.contestant.asked == 4 and good.row["median_s"] == 1.0
    assert absent.row == {"error": "cannot"}


def test_other_errors_are_not_swallowed():
    with pytest.raises(ZeroDivisionError):
        hold({"a": Entry(Fake(ZeroDivisionError()), "a")}, 1, 0.0)


def test_other_programs_are_told(monkeypatch):
    class Busy:
        def __init__(self, alone, helpers):
            assert not alone and helpers() == 0.0

        def signs(self):
            return ("others took 45 % of the CPUs",)

    monkeypatch.setattr(contest, "Watch", Busy)
    turn = ([1.0], 1.0, 0.0)
    assert hold({"a": Entry(Fake(turn), "a")}, 1, 0.0) == ("others took 45 % of the CPUs",)
    # The CPU time of one that died cannot be told from that of others.
    assert hold({"a": Entry(Fake(ContestantFailed("x")), "a")}, 1, 0.0) == ()


@pytest.mark.parametrize(
    "seconds, min_time, calls",
    [(1.0, 0.02, 1), (0.01, 0.02, 2), (0.003, 0.02, 7), (1e-9, 0.02, 1000), (0.0, 0.0, 1)],
)
def test_short_calls_are_repeated(seconds, min_time, calls):
    assert contest.calls_for(seconds, min_time) == calls
