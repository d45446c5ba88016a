"""Work behind calls waits until none runs, and gives way to those that come."""

import os
import sys
import threading
from contextlib import suppress

import pytest

from winogen.tasks import idle
from winogen.tasks.idle import calling, give_way, lower_priority, note_call, work_behind_calls


class Clock:
    """Seconds that pass only while somebody sleeps, and what happens then."""

    def __init__(self):
        self.now, self.slept, self.later = 100.0, 0.0, []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.slept += seconds
        for at, what in list(self.later):
            if self.now >= at:
                self.later.remove((at, what))
                what()


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(idle, "clock", made)
    monkeypatch.setattr(idle.time, "sleep", made.sleep)
    monkeypatch.setattr(idle, "_last", float("-inf"))
    monkeypatch.setattr(idle, "_running", set())
    monkeypatch.setattr(idle, "_behind", threading.local())
    monkeypatch.setattr(idle, "_ends", False)
    return made


def test_work_begins_at_once_where_no_call_came(clock):
    work_behind_calls()
    assert clock.slept == 0


def test_work_begins_when_no_call_has_come_for_a_while(clock):
    call = calling()
    call.__enter__()
    clock.later = [(100.3, call.__exit__), (100.32, note_call)]
    work_behind_calls()
    assert clock.now == pytest.approx(100.37, abs=0.005)


def test_work_begins_all_the_same_where_calls_never_end(clock):
    with calling():
        work_behind_calls()
    assert clock.slept == pytest.approx(1, abs=0.01)


def test_work_goes_on_when_the_call_has_ended(clock):
    work_behind_calls()
    clock.now += 0.01
    give_way()
    assert clock.slept == 0  # no call runs
    call = calling()
    call.__enter__()
    clock.now += 0.01
    clock.later = [(clock.now + 0.05, call.__exit__)]
    give_way()
    assert clock.slept == pytest.approx(0.05, abs=0.005)


def test_work_gets_its_share_where_calls_never_end(clock):
    work_behind_calls()
    with calling():
        for _ in range(10):
            clock.now += 0.01
            give_way()
    assert clock.slept == pytest.approx(10 * 0.2, abs=0.1)


def test_others_give_way_to_nobody(clock):
    clock.now += 5
    with calling():
        give_way()
    assert clock.slept == 0


def test_threads_behind_calls_end_with_the_process(clock):
    waits, ended = threading.Event(), []

    def work():
        work_behind_calls()
        waits.set()
        with suppress(SystemExit):
            while True:
                give_way()

    threads = [threading.Thread(target=work) for _ in range(2)]
    with calling():
        for one in threads:
            one.start()
        assert waits.wait(60)
        idle.end(threads)
        ended = [not one.is_alive() for one in threads]
        give_way()  # this one is behind no calls
    assert ended == [True, True]


@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root may raise a priority"
)
def test_threads_hurry_when_the_process_ends(clock):
    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    waits, seen = threading.Event(), []

    def niceness():
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    def work():
        lower_priority()
        seen.append(niceness())
        waits.set()
        while len(seen) < 2:
            if idle._ends and niceness() == before:
                seen.append(before)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert waits.wait(60)
    idle.end([thread])
    assert seen == [max(before, 15), before]
