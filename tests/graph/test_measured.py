"""What was measured of a net: kept for later processes, and never taken for what it is not."""

import json
import threading

import pytest

from winogen.errors import CacheUnavailable
from winogen.graph import measured
from winogen.graph.measured import Memory
from winogen.tasks.duel import Times
from winogen.tasks.limit import limited
from winogen.toolchain import texts

TIMES = {"a layer": Times(3.0, 4.0)}


@pytest.fixture(autouse=True)
def folder(own_memory, tmp_path, monkeypatch):
    monkeypatch.setattr(measured.Watch, "signs", lambda watch: ())
    return tmp_path / "texts"


def settle(gains=(2.0, 3.0), times=TIMES):
    """The gains of the drafts that are made of a net, in their order; the last one is returned."""
    memory, made = Memory("a net", 1), []

    def draft(uncut):
        memory.times.update(times)
        made.append(gains[uncut])
        return gains[uncut]

    best = memory.settled(
        draft, lambda gain: True, lambda gain: gain, lambda gain: {"gain": str(gain)}
    )
    assert best == max(made)
    return made


@pytest.mark.parametrize("gains", ((2.0, 3.0), (3.0, 2.0)))
def test_the_draft_that_won_is_the_only_one_of_a_known_net(gains):
    assert settle(gains) == list(gains)
    assert settle(gains) == [3.0]
    memory = Memory("a net", 1)
    assert memory.times == TIMES and isinstance(memory.times["a layer"], Times)
    assert memory.known.facts == {"gain": "3.0"} and memory.known.day
    assert Memory("a net", 2).known is None and not Memory("a net", 2).times


def test_drafts_that_must_not_be_used_any_more_are_made_anew():
    settle((2.0, 3.0))
    assert settle((2.0, 0.0)) == [0.0, 2.0, 0.0]


def test_what_may_not_be_used_does_not_replace_what_is_known():
    """Of a net with other weights, whose errors are too large for all drafts."""
    settle((2.0, 3.0))
    Memory("a net", 1).settled(lambda uncut: 0.0, bool, float, lambda gain: None)
    assert Memory("a net", 1).known.facts == {"gain": "3.0"}


def test_what_else_is_known_follows_the_newest_numbers(folder, monkeypatch):
    """The times stay, and the day on which they were measured."""
    settle()
    monkeypatch.setattr(measured, "_today", lambda: "2000-01-01")
    memory = Memory("a net", 1)
    memory.times["another"] = Times(1.0, 2.0)
    monkeypatch.setattr(measured.Watch, "signs", lambda watch: ("others computed",))
    memory.settled(lambda uncut: 3.0, bool, float, lambda gain: {"proof": "of other numbers"})
    (file,) = folder.iterdir()
    kept = json.loads(texts.read(file.name))
    assert kept["facts"] == {"proof": "of other numbers"}
    assert kept["times"].keys() == memory.times.keys()
    assert kept["signs"] == ["others computed"] and kept["day"] == memory.known.day != "2000-01-01"


@pytest.mark.parametrize("part", ("place", "renderer_digest", "current"))
def test_it_holds_for_one_machine_and_version(part, monkeypatch):
    settle()
    module = measured.wisdom if part == "place" else measured
    monkeypatch.setattr(module, part, lambda *target: {"another": "one"})
    assert Memory("a net", 1).known is None


def test_what_others_disturbed_holds_for_a_day(monkeypatch):
    monkeypatch.setattr(measured.Watch, "signs", lambda watch: ("others computed",))
    settle()
    assert Memory("a net", 1).known
    monkeypatch.setattr(measured, "_today", lambda: "2000-01-01")
    assert Memory("a net", 1).known is None


@pytest.mark.parametrize(
    "text",
    (
        "",
        "[]",
        "{}",
        '{"uncut": true, "times": 1, "facts": {}}',
        '{"uncut": true, "times": {}, "facts": []}',
        '{"uncut": true, "times": {"": [0, 1]}, "facts": {}}',
    ),
)
def test_what_says_nothing_is_not_believed(folder, text):
    settle()
    (file,) = folder.iterdir()
    texts.write(file.name, text)
    assert Memory("a net", 1).known is None


def test_without_wisdom_or_times_nothing_is_kept(folder, monkeypatch):
    settle(times={})
    monkeypatch.setattr(measured.wisdom, "path", lambda: None)
    settle()
    assert not folder.exists()


def test_one_waits_for_another_and_the_time_does_not_count(folder, monkeypatch):
    held, told = threading.Event(), []
    release = threading.Event()
    monkeypatch.setattr(measured, "note", lambda text: (told.append(text), release.set()))

    def first():
        with measured.alone("a net") as waited:
            told.append(waited)
            held.set()
            assert release.wait(60)

    thread = threading.Thread(target=first)
    thread.start()
    assert held.wait(60)
    with limited(100.0) as limit:
        end = limit._end
        with measured.alone("another net") as waited:
            assert not waited and limit._end == end
        with measured.alone("a net") as waited:
            assert waited and limit._end > end
    thread.join()
    assert told[0] is False and "another process" in told[1]
    assert not list((folder.parent / "locks").glob("*-*"))  # as `winogen cache --clear` wants them


@pytest.mark.parametrize("lack", (OSError(30, "Read-only file system"), CacheUnavailable("none")))
def test_without_a_folder_for_locks_nobody_waits(lack, monkeypatch):
    def none():
        raise lack

    monkeypatch.setattr(measured, "cache_root", none)
    for _ in range(2):
        with measured.alone("a net") as waited:
            assert not waited


def test_where_nothing_is_kept_nobody_waits(folder, monkeypatch):
    monkeypatch.setattr(measured.wisdom, "path", lambda: None)
    with measured.alone("a net"), measured.alone("a net") as waited:
        assert not waited and not folder.parent.joinpath("locks").exists()
