"""The order in which the engine decides, by a framework that only notes what it is asked for."""

import json
from dataclasses import replace

import pytest

from winogen.errors import InvalidValue
from winogen.graph import decide, measured
from winogen.graph.adapter import Adapter, Fault, Replacement, TimedPart
from winogen.graph.ceilings import Errors
from winogen.graph.decide import INACCURATE, Decider
from winogen.graph.measured import Memory
from winogen.graph.promise import OutputPromise
from winogen.graph.spending import Spending
from winogen.tasks import duel, limit
from winogen.tasks.duel import Times

FASTER, SLOWER = Times(1.0, 2.0), Times(2.0, 1.0)
SMALL, LARGE = Errors(1e-7, 1e-7, 1e-8, 1e-8), Errors(1e-4, 1e-7, 1e-5, 1e-8)


class Net(Replacement):
    """Three layers, two of them alike, in one segment; all are parts, whoever computes them."""

    def __init__(self, way):
        self.way, self.largest, self.is_empty = way, 1e-3, False
        left = sorted(part.name for part, _ in way.slower)
        self.key = f"{way.uncut} {way.ceiling} {left} {sorted(way.refused)}"

    def stages(self):
        part = TimedPart("key", "", "", 1.0, None, [])
        layers = (("wide", "a", 5.0), ("narrow", "b", 3.0), ("narrow", "c", 3.0))
        yield [replace(part, key=key, name=name, worth=worth) for key, name, worth in layers]
        yield [replace(part, key=f"segment {self.key}", name="segment", is_layer=False)]


class Framework(Adapter):
    """Measures and compares what its tests say."""

    name, seconds, is_careful = "a framework", 1.0, True

    def __init__(self, layers=None, wholes=(FASTER,), errors=(SMALL,), faults=()):
        self.layers, self.said = layers or {}, []
        self.wholes, self.errors, self.faults = iter(wholes), iter(errors), iter(faults)

    def replace(self, way):
        self.said.append(f"replace {way.ceiling}{' uncut' * way.uncut}")
        return Net(way)

    def time(self, made, part, earlier):
        self.said.append(f"time {part.key.split()[0] if part else 'whole'}")
        return self.layers.get(part.key.split()[0], FASTER) if part else next(self.wholes)

    def run(self, draft, is_known):
        self.said.append(f"run{' known' * is_known}")
        return next(self.faults, None)

    def run_exactly(self, draft):
        self.said.append(f"exactly{' left' * bool(draft.left)}")
        return next(self.errors, SMALL)

    def describe(self, draft, layers):
        return draft.left or dict(layers)

    def keep(self, draft):
        return {"key": draft.made.key}


class Promising(Framework):
    """Was asked for an error at the output, of which ``measured`` tells; its own is ``theirs``."""

    output_tolerance = 1e-4

    def __init__(self, measured, theirs=1e-7, **told):
        super().__init__(**told)
        self.measured, self.theirs, self.budgets = iter(measured), theirs, []

    def spend(self, budget):
        self.budgets.append(budget)
        return Spending({"a": budget}, {"a": 1.0}, {"a": budget})

    def replace(self, way):
        made = super().replace(way)
        made.key += f" {way.spending.tolerances['a']:.1e}"
        return made

    def promise(self, draft):
        off = self.theirs if draft.left else next(self.measured)
        return OutputPromise(self.output_tolerance, off, self.theirs, 1)


@pytest.fixture(autouse=True)
def folder(own_memory, monkeypatch):
    for module in (decide, duel, limit):
        monkeypatch.setattr(module, "is_every_layer", lambda: False)
    monkeypatch.setattr(measured.Watch, "signs", lambda watch: ())
    monkeypatch.setattr(limit, "clock", lambda: 0.0)


def decided(framework, numbers="these", seconds=None):
    engine = Decider(framework, Memory("a net"), numbers)
    with limit.limited(seconds):
        draft = engine.best()
    return draft, engine.described(draft)


def test_errors_come_first_then_layers_by_worth_the_whole_and_the_proof():
    one = Framework(errors=(LARGE, SMALL))
    draft, described = decided(one)
    first = ["replace 0", "exactly", "replace 1", "exactly"]
    layers = ["time narrow", "time wide", "time segment"]  # two narrow ones are worth more
    assert one.said == [*first, *layers, "time whole", "run"]
    assert described == dict.fromkeys("bca", FASTER) and draft.way.ceiling == 1


def test_what_is_slower_stays_and_is_left_once():
    """Though it is measured among all others again; the whole without such cuts comes after it."""
    one = Framework({"wide": SLOWER}, (Times(1.0, 3.0), Times(2.0, 3.0)))
    draft, _ = decided(one)
    assert [part.name for part, _ in draft.way.slower] == ["a"]
    assert one.said.count("replace 0") == 2 and one.said.count("time wide") == 1
    assert one.said[-3:] == ["exactly", "time whole", "run"]
    assert "replace 0 uncut" in one.said


def test_layers_that_cut_the_whole_are_kept_where_that_is_faster():
    draft, _ = decided(Framework({"wide": SLOWER}, (Times(2.0, 3.0), Times(1.0, 3.0))))
    assert draft.way.uncut and not draft.way.slower and draft.whole.gain == 3.0


def test_a_segment_may_be_slower_where_no_layer_is():
    draft, described = decided(Framework({"segment": SLOWER}, (FASTER,)))
    assert [part.name for part, _ in draft.way.slower] == ["segment"] and not draft.has_lost
    assert described.keys() == set("abc")


def test_a_whole_that_is_slower_is_the_framework_s():
    one = Framework(wholes=(SLOWER,))
    draft, described = decided(one)
    assert described == "a framework is faster in the whole model" and draft.gain == 1.0
    assert one.said[-1] == "exactly left" and "run" not in one.said


def test_parts_that_compute_something_else_are_refused_in_all_that_follows():
    one = Framework(wholes=(FASTER,) * 2, faults=(Fault({"b": "off"}),))
    draft, _ = decided(one)
    assert draft.way.refused == {"b": "off"} and one.said.count("run") == 2
    assert one.said.count("time narrow") == 1  # times stay
    assert json.loads(draft.facts["refused"]) == {"b": "off"}


def test_of_a_wrong_whole_the_other_draft_is_taken_and_where_both_are_the_reason():
    wholes = (Times(1.0, 3.0), Times(2.0, 3.0))
    draft, _ = decided(Framework({"wide": SLOWER}, wholes, faults=(Fault(why="off"),)))
    assert draft.way.uncut and not draft.reason
    both = (Fault(why="off"), Fault(why="far off"))
    one = Framework({"wide": SLOWER}, wholes, faults=both)
    engine = Decider(one, Memory("another net"), "these")
    assert engine.best().reason == "off" and Memory("another net").known is None


def test_a_later_process_compares_alone():
    first, _ = decided(Framework(errors=(LARGE, SMALL)))
    one = Framework(wholes=())
    again, described = decided(one)
    assert one.said == ["replace 1", "run known"] and again.day and described.keys() == set("abc")
    assert (again.errors, again.whole, again.facts) == (first.errors, first.whole, first.facts)
    same = Decider(Framework(wholes=()), Memory("a net"), "these").again()
    assert same is not None and same.facts == first.facts
    assert Decider(Framework(), Memory("a net"), "others").again() is None
    one = Framework(wholes=(), errors=(LARGE, SMALL))
    decided(one, "others")  # whose errors and proof are their own
    assert one.said == ["replace 0", "exactly", "replace 1", "exactly", "run"]


@pytest.mark.parametrize("change", ("fault", "key"))
def test_what_does_not_hold_any_more_is_shown_anew(change, monkeypatch):
    decided(Framework())
    one = Framework(faults=(Fault(why="off"),) * (change == "fault"))
    if change == "key":
        monkeypatch.setattr(one, "keep", lambda draft: {"key": "another"})
    draft, _ = decided(one)
    assert one.said[-3:] == ["replace 0", "exactly", "run"] and not draft.reason
    assert ("run known" in one.said) == (change == "fault")


@pytest.mark.parametrize("gain, needs, said", (
    (1.1, False, []), (1.3, False, ["run"]), (1.1, True, ["time whole", "run"]),
))  # fmt: skip
def test_without_seconds_the_gain_that_is_predicted_decides(gain, needs, said, monkeypatch):
    monkeypatch.setattr(Net, "gain", gain)
    one = Framework()
    one.needs_whole = needs
    draft, described = decided(one, seconds=0)
    assert one.said == ["replace 1", *said]  # as carefully as if the error were too large
    assert ("too small to rely on" in described) == (not said) and not draft.has_lost
    assert (Memory("a net").known is not None) == needs


def test_within_every_layer_no_whole_is_measured(monkeypatch):
    for module in (decide, duel):
        monkeypatch.setattr(module, "is_every_layer", lambda: True)
    one = Framework({"wide": SLOWER}, ())
    draft, _ = decided(one)
    assert draft.whole is None and not draft.way.slower and one.said[-1] == "run"


def test_a_part_that_does_not_run_has_no_time():
    parts = [TimedPart(name, name, "", 1.0, None, [name]) for name in "ab"]
    found = decide.measure(parts, {}, lambda part: None if part.name == "a" else FASTER)
    assert [(part.name, times) for part, times in found] == [("b", FASTER)]


def test_a_promise_is_measured_and_a_later_process_takes_it_for_kept():
    """What breaks it is made anew, of a smaller budget."""
    one = Promising((2e-4, 6.5e-5), wholes=(FASTER,))
    draft, _ = decided(one)
    assert one.budgets[0] > 2 * one.budgets[1] and len(one.budgets) == 2
    assert draft.promise.measured == 6.5e-5 and draft.way.spending.tolerances["a"] == one.budgets[1]
    later = Promising(())
    again, _ = decided(later)
    assert again.way.spending == draft.way.spending and again.promise == draft.promise
    assert not later.budgets and "exactly" not in later.said


def test_layers_that_the_framework_computes_faster_are_kept_where_a_promise_breaks():
    one = Promising((6.5e-5, 9e-5), layers={"wide": SLOWER}, wholes=(FASTER, FASTER))
    draft, _ = decided(one)
    assert not draft.way.slower and draft.promise.measured == 6.5e-5


def test_what_keeps_no_promise_is_left_to_the_framework_unless_that_breaks_it_too():
    draft, described = decided(Promising([1e-3] * 9))
    assert described == INACCURATE and draft.promise.measured == 1e-7
    with pytest.raises(InvalidValue, match="output_tolerance: got 0.0001; allowed: at least 0.002"):
        decided(Promising([1e-3] * 9, theirs=2e-3))


def test_a_framework_that_is_faster_and_breaks_a_promise_is_not_taken():
    draft, described = decided(Promising((6.5e-5,), theirs=2e-4, wholes=(SLOWER,)))
    assert draft.whole.is_slower and not draft.left and described == dict.fromkeys("bca", FASTER)
