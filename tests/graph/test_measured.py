"""What was measured of a net: kept for later processes, and never taken for what it is not."""

from dataclasses import replace

import pytest

from winogen.graph import measured
from winogen.graph.measured import Measured, Memory
from winogen.tasks.duel import Times
from winogen.toolchain import cache_dir, texts

FOUND = Measured(True, "as planned", Times(1.0, 2.0), "as it is", {"a layer": Times(3.0, 4.0)})


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(measured.wisdom, "path", lambda: cache_dir() / "wisdom.jsonl")
    monkeypatch.setattr(texts, "cache_root", lambda: tmp_path)
    monkeypatch.setattr(measured.Watch, "signs", lambda watch: ())
    return tmp_path / "texts"


def test_it_is_kept_for_the_same_facts():
    assert Memory("a net", 1).recall() is None
    Memory("a net", 1).keep(FOUND)
    known = Memory("a net", 1).recall()
    assert known.day and replace(known, day="") == FOUND
    assert isinstance(known.whole, Times) and isinstance(known.layers["a layer"], Times)
    assert Memory("a net", 2).recall() is None


@pytest.mark.parametrize("part", ("place", "renderer_digest", "current"))
def test_it_holds_for_one_machine_and_version(part, monkeypatch):
    Memory("a net").keep(FOUND)
    module = measured.wisdom if part == "place" else measured
    monkeypatch.setattr(module, part, lambda *target: {"another": "one"})
    assert Memory("a net").recall() is None


def test_what_others_disturbed_holds_for_a_day(monkeypatch):
    monkeypatch.setattr(measured.Watch, "signs", lambda watch: ("others computed",))
    Memory("a net").keep(FOUND)
    assert Memory("a net").recall()
    monkeypatch.setattr(measured, "_today", lambda: "2000-01-01")
    assert Memory("a net").recall() is None


@pytest.mark.parametrize(
    "text", ("", "[]", "{}", '{"uncut": true, "decision": "", "whole": [0, 1]}')
)
def test_what_says_nothing_is_not_believed(folder, text):
    Memory("a net").keep(FOUND)
    (file,) = folder.iterdir()
    texts.write(file.name, text)
    assert Memory("a net").recall() is None


def test_without_wisdom_nothing_is_kept(folder, monkeypatch):
    monkeypatch.setattr(measured.wisdom, "path", lambda: None)
    Memory("a net").keep(FOUND)
    assert Memory("a net").recall() is None and not folder.exists()
