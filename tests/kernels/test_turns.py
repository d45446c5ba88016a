"""Cases in turns: each value in the quick ones, each two values in all."""

from itertools import combinations, product

from kernels.turns import turns


def test_quick_cases_have_every_value_and_all_every_two():
    axes = (range(3), "ab", range(4), (None, 1, 2))
    marks = turns(*axes)
    quick = [mark.values for mark in marks if not mark.marks]
    assert len(quick) == 4
    for place, axis in enumerate(axes):
        assert {values[place] for values in quick} == set(axis)
    for a, b in combinations(range(len(axes)), 2):
        shown = {(mark.values[a], mark.values[b]) for mark in marks}
        assert shown == set(product(axes[a], axes[b]))
    assert len(marks) < 3 * 2 * 4 * 3 / 4


def test_two_axes_have_every_combination():
    assert [mark.values for mark in turns("ab", (1, 2, 3))] == list(product("ab", (1, 2, 3)))
