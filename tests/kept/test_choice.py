"""Which tests are chosen: cases with every value, one case, what has not passed, changes first."""

from types import SimpleNamespace

import pytest
from kept import choice


def item(name, *marks, **params):
    callspec = {"callspec": SimpleNamespace(params=params)} if params else {}
    marked = lambda mark: mark if mark in marks else None
    return SimpleNamespace(nodeid=name, get_closest_marker=marked, **callspec)


GRID = [item(f"tests/a/test_a.py::f[{x}-{y}]", x=x, y=y) for x in range(3) for y in range(4)]


def test_cases_that_have_every_value_are_fewer_than_all_pairs():
    every = set()
    for turn in range(40):
        found = choice.each_value([*GRID, item("tests/b/test_b.py::g")], str(turn))
        places = [one.callspec.params for one in found[:-1]]
        assert {p["x"] for p in places} == {0, 1, 2} and {p["y"] for p in places} == {0, 1, 2, 3}
        assert 4 <= len(places) <= 3 + 4 - 1 and found[-1].nodeid == "tests/b/test_b.py::g"
        every |= {one.nodeid for one in found}
    assert len(every) == len(GRID) + 1  # all have their turn


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("WINOGEN_TEST_CACHE", str(tmp_path))

    def make(**options):
        option = lambda name: options.get(name.strip("-").replace("-", "_"))
        return SimpleNamespace(getoption=option, rootpath=tmp_path)

    return make


def test_one_case_of_each_test_is_its_first(config):
    found = choice.chosen(config(first_case=True), [*GRID, item("tests/b/test_b.py::g")])
    assert [one.nodeid for one in found] == [GRID[0].nodeid, "tests/b/test_b.py::g"]


def test_draws_take_turns_and_nothing_else_does(monkeypatch, config):
    draws = [item(f"tests/a/test_a.py::drawn[{i}]", "draws", i=i) for i in range(7)]
    alone = item("tests/a/test_a.py::alone[0]", "draws", i=0)
    turns = []
    for turn in range(3):
        monkeypatch.setattr(choice, "source_digest", lambda folder, turn=turn: f"{turn:x}")
        found = choice.chosen(config(one_draw_of=3), [*GRID, *draws, alone])
        assert found[: len(GRID)] == GRID and found[-1] == alone
        turns.append(found[len(GRID) : -1])
    assert sorted(map(len, turns)) == [2, 2, 3]
    assert {one.nodeid for turn in turns for one in turn} == {one.nodeid for one in draws}


def test_what_passed_is_not_run_again(config, tmp_path):
    for one in GRID[2:]:
        choice.note(tmp_path / "passed", one.nodeid)
    assert choice.chosen(config(not_yet=str(tmp_path / "passed")), GRID) == GRID[:2]
    assert choice.chosen(config(not_yet=str(tmp_path / "none")), GRID) == GRID


def test_rooms_that_changed_come_first(config, monkeypatch):
    items = [item(f"tests/{room}/test_x.py::f") for room in ("a", "b", "c")]
    changed = {choice.room_of(name) for name in ("winogen/c/plan.py", "README.md")}
    monkeypatch.setattr(choice, "changed_rooms", lambda root: changed)
    assert choice.chosen(config(), items) == [items[2], items[0], items[1]]
    rooms = map(choice.room_of, ("lab/winogen_lab/bench/own.py", "tests/laboratory/test_x.py"))
    assert len({*rooms}) == 1


def test_what_there_was_no_time_for_is_skipped_and_comes_first(config, monkeypatch, tmp_path):
    items = [item(f"tests/{room}/test_x.py::f") for room in ("a", "b", "c")]
    assert not choice.is_late()
    monkeypatch.setenv("WINOGEN_TESTS_UNTIL", "1.0")
    assert choice.is_late()
    monkeypatch.setenv("WINOGEN_TESTS_LATE", str(tmp_path / "late"))
    choice.note(choice.late(), items[1].nodeid)
    make = config()
    assert choice.chosen(make, items) == items
    (tmp_path / "late").rename(tmp_path / "late.before")
    assert choice.chosen(make, items) == [items[1], items[0], items[2]]


PAIRS = [(x, y) for x in "ab" for y in (1, 2, 3)]


@pytest.mark.parametrize("x, y", PAIRS)
def test_one_list_of_pairs_has_single_values_too(request, x, y):
    same = item(request.node.nodeid, **request.node.callspec.params)
    others = [item(f"{request.node.nodeid}", x=a, y=b) for a, b in PAIRS if (a, b) != (x, y)]
    assert len(choice.each_value([same, *others])) < len(PAIRS)
