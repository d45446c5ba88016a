"""Traversals: better than chance where good settings are alike, reproducible, stoppable."""

from functools import cache
from itertools import pairwise
from math import inf
from random import Random

import pytest
from kernels.turns import turns

from winogen.errors import InvalidValue
from winogen.tasks import traversals
from winogen.tasks.space import Level, Space
from winogen.tasks.tree import Tree

SEEDS = 100


def eight():
    """Eight parameters of eight values: 16.8 million paths."""
    return Space([Level(name, lambda path: range(8)) for name in "abcdefgh"])


def separable(path):
    """Every parameter costs by itself, some more: 0 at 3, 3, 3, ..."""
    return sum((k + 1) * abs(value - 3) for k, value in enumerate(path.values()))


def pairs(path):
    """Neighbours must agree, as blocks with loop orders do, and the first be 5: 0 at 5, 5, ..."""
    values = list(path.values())
    return 4 * abs(values[0] - 5) + sum(abs(a - b) for a, b in pairwise(values))


def product(path):
    """Times are products: a bad cache block makes all else slow; 1 at 0, 1, 2, ..., 7."""
    cost = 1.0
    for k, value in enumerate(path.values()):
        cost *= 1 + abs(value - k) / 4
    return cost


COSTS = {"separable": (separable, 0), "pairs": (pairs, 0), "product": (product, 1)}
SAMPLES = 100
INFORMED = {
    "elite": lambda space, seed: traversals.elite(space, n=25, s=4, r=4, seed=seed),
    "narrowing": lambda space, seed: traversals.narrowing(
        space, n=40, s=3, r=4, q=5, p=5, seed=seed
    ),
}


def least(traversal, cost):
    tried = traversals.run(traversal, cost)
    assert len(tried) == SAMPLES
    return tried[0][0]


@cache
def chance(name, seed):
    return least(traversals.random(eight(), SAMPLES, seed=SEEDS + seed), COSTS[name][0])


@pytest.mark.parametrize("name", COSTS)
def test_the_optimum_is_what_it_is_said_to_be(name):
    cost, optimum = COSTS[name]
    best = {"separable": [3] * 8, "pairs": [5] * 8, "product": [*range(8)]}[name]
    assert cost(dict(zip("abcdefgh", best))) == optimum


@pytest.mark.parametrize("way, name", turns(INFORMED, COSTS))
def test_beats_chance_at_equal_samples(way, name):
    space, cost = eight(), COSTS[name][0]
    wins = sum(
        least(INFORMED[way](space, seed), cost) < chance(name, seed) for seed in range(SEEDS)
    )
    assert wins >= 80


@pytest.mark.parametrize("way", [*INFORMED, "descent"])
def test_the_same_seed_tries_the_same(way):
    make = INFORMED.get(way, lambda space, seed: traversals.descent(space, n=4, r=1, seed=seed))
    first, again, other = (traversals.run(make(eight(), seed), pairs) for seed in (7, 7, 8))
    assert first == again != other


def test_descent_ends_at_the_optimum_of_a_separable_cost():
    for seed in range(10):
        tried = traversals.run(traversals.descent(eight(), n=4, r=3, seed=seed), separable)
        assert tried[0][0] == 0


def test_descent_compares_the_last_with_more_effort():
    efforts = set()
    questions = traversals.descent(eight(), n=8, r=1, effort=2)
    batch = next(questions)
    while True:
        efforts.add((batch.effort, len(batch.paths)))
        try:
            batch = questions.send([separable(path) for path in batch.paths])
        except StopIteration:
            break
    assert {(2, 8), (4, 4), (8, 2)} <= efforts


@pytest.mark.parametrize("way", INFORMED)
def test_nothing_is_tried_twice_and_small_spaces_end(way):
    space = Space([Level(name, lambda path: range(3)) for name in "abcdef"]).where(
        "c", holds=lambda path: path["c"] == 1
    )
    tried = traversals.run(INFORMED[way](space, 0), lambda path: sum(path.values()))
    assert len(tried) == SAMPLES and len({str(path) for _, path in tried}) == SAMPLES
    small = space.restrict(a={0}, b={0})
    assert len(traversals.run(INFORMED[way](small, 0), lambda path: 1.0)) == small.count()


@pytest.mark.parametrize("way", INFORMED)
def test_failures_are_never_among_the_best(way):
    def cost(path):
        return inf if path["a"] < 6 else separable(path)

    tried = traversals.run(INFORMED[way](eight(), 0), cost)
    last = [path["a"] for _, path in sorted(tried, key=lambda one: one[0])[:5]]
    assert min(last) >= 6
    nothing = traversals.run(INFORMED[way](eight(), 0), lambda path: inf)
    assert len(nothing) > 0


def test_elite_keeps_to_the_values_of_the_best():
    space = eight()
    questions = traversals.elite(space, n=30, s=3, r=2, seed=5)
    first = next(questions).paths
    best = sorted(first, key=separable)[:3]
    second = questions.send([separable(path) for path in first]).paths
    assert all(path[name] in {one[name] for one in best} for path in second for name in path)


def test_narrowing_shares_parameters_with_one_of_the_best():
    questions = traversals.narrowing(eight(), n=30, s=2, r=1, q=6, p=5, seed=5)
    first = next(questions).paths
    best = sorted(first, key=separable)[:2]
    second = questions.send([separable(path) for path in first]).paths
    assert len(second) == 12
    for k, path in enumerate(second):
        near = best[k // 6]
        assert sum(path[name] == near[name] for name in path) >= 5


def test_refusals():
    with pytest.raises(InvalidValue, match="n: got 0; allowed: a number >= 1"):
        next(traversals.random(eight(), 0))
    with pytest.raises(InvalidValue, match="s: got 0"):
        next(traversals.elite(eight(), 4, 0, 1))
    with pytest.raises(InvalidValue, match="p: got 8; allowed: less than 8"):
        next(traversals.narrowing(eight(), 4, 2, 1, 1, 8))


def test_draws_do_not_depend_on_hashing():
    """The order of sets of strings differs from run to run; draws may not."""
    path = Tree(eight()).draw(Random(0))
    assert [*path.values()] == [6, 6, 3, 2, 4, 3, 6, 2]
