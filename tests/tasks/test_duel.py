"""Which of two calls is kept; the clock is moved by those who are timed."""

import time

import pytest

from winogen.tasks.duel import FEW, WHOLE, Times, duel, duel_of_wholes, settled
from winogen.testing import every_layer


@pytest.fixture
def fight(monkeypatch):
    """A duel of calls that take so many seconds; ``fight.now`` is its clock."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def one(ours, theirs, **options):
        def call(costs):
            costs = iter(costs)

            def spend():
                now[0] += next(costs, 9.0)

            return spend

        now[0] = 0.0
        return duel(call(ours), call(theirs), lambda: now[0], **options)

    one.now = now
    return one


def test_the_least_counts_and_the_first_does_not(fight):
    assert fight([0.1, 5, 3, 4], [0.1, 5, 6, 4]) == Times(3, 4)


def test_who_loses_is_measured_for_longer(fight):
    late = [9, 9, 9, 9, 1]
    assert fight(late, [2] * 9, seconds=(0.0,)) == Times(9, 2)
    assert fight(late, [2] * 9, seconds=(0.0, 0.0)) == Times(1, 2)
    begun = fight.now[0]
    assert fight([1] * 9, [2] * 9, seconds=(0.0, 0.0)) == Times(1, 2)
    assert fight.now[0] < begun  # the winner is not


@pytest.mark.parametrize(
    "gain, earlier, counts",
    (
        (2.0, 0.0, [(0.0,)]),  # clearly faster
        (0.5, 0.0, [(0.0,)]),  # clearly slower
        (1.01, 0.0, [(0.0,), WHOLE]),
        (1.01, 1.05, [(0.0,)]),  # another draft is taken
        (1.07, 1.05, [(0.0,), WHOLE]),
        (0.99, 0.5, [(0.0,), WHOLE]),
    ),
)
def test_a_whole_net_is_measured_until_it_is_clear(monkeypatch, gain, earlier, counts):
    asked = []

    def measured(ours, theirs, clock, seconds, lost=None, rounds=None):
        asked.append(seconds)
        assert (rounds is FEW) == (seconds == (0.0,))  # a glance
        return Times(1.0, gain)

    monkeypatch.setattr("winogen.tasks.duel.duel", measured)
    assert duel_of_wholes(None, None, earlier=earlier).gain == gain
    assert asked == counts


@pytest.mark.parametrize(
    "known, taken, calls",
    (
        (3.0, 1.0, 1),  # by far faster
        (3.0, 2.5, 3),  # not by far: both are called again
        (1.0, 0.1, 3),  # no very long call
        (0.0, 0.1, 3),  # not known
    ),
)
def test_what_was_just_measured_is_not_called_again_where_ours_is_faster_by_far(
    monkeypatch, known, taken, calls
):
    now, done = [0.0], []

    def ours():
        now[0] += taken
        done.append("ours")

    def measured(ours, theirs, clock, seconds, lost=None, rounds=None):
        done.extend(["ours", "theirs"])
        return Times(taken, 2 * taken)

    monkeypatch.setattr("winogen.tasks.duel.duel", measured)
    times = duel_of_wholes(ours, None, lambda: now[0], known=known)
    assert len(done) == calls - (known < 2)
    assert times == (Times(taken, known) if calls == 1 else Times(taken, 2 * taken))


def test_a_first_round_of_very_long_calls_tells_what_is_asked(fight):
    assert fight([3.0, 1], [2.5, 1], rounds=FEW) == Times(1, 1)
    assert fight([3.0, 1], [2.5, 1], rounds=FEW, clear=0.0) == Times(3.0, 2.5)
    assert fight([1.0, 0.5], [0.9, 0.5], rounds=FEW, clear=0.0) == Times(0.5, 0.5)


def test_a_framework_must_be_faster_by_a_margin():
    assert not Times(1.04, 1.0).is_lost and Times(1.06, 1.0).is_lost
    assert not Times(19e-6, 10e-6).is_lost  # a cut costs as much
    assert Times(1.0, 1.0).is_slower and not Times(0.99, 1.0).is_slower
    with every_layer():
        assert not Times(2.0, 1.0).is_lost and not Times(2.0, 1.0).is_slower


def test_every_layer_is_looked_at_briefly(fight):
    with every_layer():
        assert fight([1] * 9, [0.5] * 9, seconds=(0.0, 1e9)) == Times(1, 0.5)


@pytest.mark.parametrize(
    "gains, lost, kept",
    (((1, 2), True, 1), ((2, 1), True, 0), ((1, 1), True, 0), ((1, 2), False, 0)),
)
def test_slower_layers_are_kept_where_the_whole_is_faster(gains, lost, kept):
    drafts = []
    best = settled(
        lambda uncut: drafts.append(uncut) or uncut, lambda draft: lost, lambda draft: gains[draft]
    )
    assert best == kept and len(drafts) == 1 + lost


def test_long_calls_of_whole_nets_are_counted_once(fight):
    assert fight([9, 3, 1, 1, 1], [9, 5, 1, 1, 1], seconds=(0.0,), rounds=FEW) == Times(3, 5)
    short = [0.25, 0.125, 0.0625]
    assert fight(short, short, seconds=(0.0,), rounds=FEW) == Times(0.0625, 0.0625)


def test_very_long_calls_of_whole_nets_are_clear_at_once(fight):
    assert fight([4, 3], [9, 5], seconds=(0.0,), rounds=FEW) == Times(4, 9)
    assert fight.now[0] == 13
    assert fight([9, 3], [9, 5], seconds=(0.0,), rounds=FEW) == Times(3, 5)
    assert fight([9, 5], [4, 3], seconds=(0.0,), rounds=FEW) == Times(5, 3)
