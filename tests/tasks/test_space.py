"""Spaces: counted as enumerated, drawn reproducibly, walked lazily, never into a dead end."""

from collections import Counter
from random import Random

import pytest

from winogen.errors import InvalidValue
from winogen.tasks.space import Constraint, Fact, Level, Space
from winogen.tasks.tree import Tree


def blocks(lanes=(2, 4), registers=8):
    """Register blocks, and an order of three letters in which a is not last."""
    return Space(
        [
            Level("lanes", lambda path: lanes),
            Level("rows", lambda path: range(1, registers), needs=("lanes",)),
            Level("cols", lambda path: range(1, registers), needs=("rows",)),
            Fact("sums", lambda path: path["rows"] * path["cols"], ("rows", "cols")),
            Fact("left.0", lambda path: frozenset("abc"), ()),
            *(
                step
                for k in range(3)
                for step in (
                    Level(
                        f"order.{k}", lambda path, k=k: sorted(path[f"left.{k}"]), (f"left.{k}",)
                    ),
                    Fact(
                        f"left.{k + 1}",
                        lambda path, k=k: path[f"left.{k}"] - {path[f"order.{k}"]},
                        (f"left.{k}", f"order.{k}"),
                    ),
                )
            ),
        ],
        [
            Constraint(
                ("sums", "rows", "cols"),
                lambda p: p["sums"] + min(p["rows"], p["cols"]) < registers,
            ),
            Constraint(("order.2",), lambda p: p["order.2"] != "a"),
        ],
    )


def deceptive():
    """Most first choices lead nowhere: the sum must be 20 at the end."""
    return Space(
        [Level(name, lambda path: range(8)) for name in "abc"],
        [Constraint(("a", "b", "c"), lambda p: p["a"] + p["b"] + p["c"] == 20)],
    )


def text(path):
    return tuple(path.items())


@pytest.mark.parametrize("space", [blocks(), deceptive(), blocks().restrict(order={"bac", "abc"})])
def test_counts_are_those_of_enumeration(space):
    paths = [text(path) for path in space.paths()]
    assert space.count() == len(paths) == len(set(paths))


def test_enumeration_has_exactly_what_the_constraints_allow():
    expected = {
        (lanes, rows, cols, *order)
        for lanes in (2, 4)
        for rows in range(1, 8)
        for cols in range(1, 8)
        for order in ("abc", "acb", "bac", "cab")
        if rows * cols + min(rows, cols) < 8
    }
    assert {tuple(path.values()) for path in blocks().paths()} == expected


def test_all_leaves_are_drawn_once_and_then_none():
    for space in (blocks(), deceptive()):
        tree, random = Tree(space), Random(1)
        drawn = [tree.draw(random) for _ in range(space.count())]
        assert {*map(text, drawn)} == {text(path) for path in space.paths()}
        assert tree.draw(random) is None


def test_nodes_are_made_only_where_walks_go():
    tree, random = Tree(blocks()), Random(2)
    depth = len(tree.space.levels)
    for walk in range(1, 60):
        tree.draw(random, tree.space.restrict(lanes={2}))
        assert tree.nodes <= 1 + walk * depth
    assert all(count == 2 for count in Counter(map(text, _twice(5))).values())


def _twice(seed):
    for _ in range(2):
        tree, random = Tree(blocks()), Random(seed)
        yield from (tree.draw(random) for _ in range(20))


def test_restricted_draws_are_new_and_stay_inside_until_there_are_none():
    tree, random = Tree(blocks()), Random(3)
    within = tree.space.restrict(rows={2}, order={"cab"})
    drawn = []
    while (path := tree.draw(random, within)) is not None:
        drawn.append(text(path))
    assert len(drawn) == len(set(drawn)) == within.count()
    assert all(path["rows"] == 2 for path in map(dict, drawn))
    assert {tree.space.settings(dict(path))["order"] for path in drawn} == {("c", "a", "b")}
    others = tree.space.count() - len(drawn)
    assert sum(tree.draw(random) is not None for _ in range(others + 1)) == others


def test_weights_decide_how_often():
    heavy = Level("a", lambda path: (1, 2), weight=lambda value, path: 9.0 if value == 2 else 1.0)
    space = Space([heavy, Level("b", lambda path: range(1000))])
    tree, random = Tree(space), Random(4)
    twos = sum(tree.draw(random)["a"] == 2 for _ in range(1000))
    assert 870 <= twos <= 930


def test_levels_see_only_what_they_need():
    space = [Level("a", lambda path: (1, 2)), Level("b", lambda path: range(path["a"]))]
    with pytest.raises(KeyError):
        Space(space).count()


def test_facts_and_parts():
    space = blocks()
    assert space.parameters == ("lanes", "rows", "cols", "order")
    path = space.complete({"lanes": 2, "rows": 2, "cols": 2, **dict(zip(_ORDER, "bac"))})
    assert path["sums"] == 4
    assert space.settings(path) == {"lanes": 2, "rows": 2, "cols": 2, "order": tuple("bac")}
    assert space.complete({"lanes": 2, "rows": 2, "cols": 2, **dict(zip(_ORDER, "bca"))}) is None


_ORDER = ("order.0", "order.1", "order.2")


def test_values_of_parameters():
    assert blocks().values("order") == {tuple(order) for order in ("abc", "acb", "bac", "cab")}
    assert blocks().values("rows") == {1, 2, 3, 4, 5, 6}
    assert deceptive().values("a") == {6, 7}
    assert blocks().restrict(cols={3}).values("rows") == {1}


def test_refusals():
    space = blocks()
    with pytest.raises(InvalidValue, match="range: got 'row'; allowed: lanes, rows, cols, order"):
        space.restrict(row={1})
    with pytest.raises(InvalidValue, match="lanes: got 3; allowed: 2, 4"):
        space.restrict(lanes={3})
    with pytest.raises(InvalidValue, match="order: got b c a; allowed: a b c, a c b, b a c, c a b"):
        space.restrict(order={"bca"})
    with pytest.raises(InvalidValue, match="space: got .*leaves nothing"):
        space.restrict(rows={6}, cols={6})
    with pytest.raises(InvalidValue, match="leaves nothing"):
        space.where("lanes", holds=lambda path: False)
    with pytest.raises(InvalidValue, match="needs: got 'b' for 'a'; allowed: .*earlier"):
        Space([Level("a", lambda path: (1,), needs=("b",)), Level("b", lambda path: (1,))])
