"""Budgets as texts; ranks that err least, or cost least, beside all combinations."""

from itertools import product

import numpy as np
import pytest

from winogen.errors import InvalidType, InvalidValue
from winogen.lowrank.budget import CompressionBudget
from winogen.lowrank.choosing import Option, halfway, least_cost, least_error, uniform


@pytest.mark.parametrize("text, cost, value, unit", [
    ("2x", "seconds", 2, "x"), ("products:1.5x", "products", 1.5, "x"),
    ("params:10x", "params", 10, "x"), ("36dB", "seconds", 36, "dB"),
    ("0.5ms", "seconds", 0.5, "ms"),
])  # fmt: skip
def test_budgets(text, cost, value, unit):
    budget = CompressionBudget.of(text)
    assert (budget.cost, budget.value, budget.unit) == (cost, value, unit)
    assert str(budget) == text and budget.of_quality == (unit == "dB")


@pytest.mark.parametrize(
    "text",
    ["", "2", "x", "-2x", "1x", "0.5x", "0ms", "0dB", "params:36dB", "time:2x", "2x ", "1e3x"],
)
def test_no_budgets(text):
    with pytest.raises(InvalidValue, match="budget: got .*; allowed: "):
        CompressionBudget.of(text)
    with pytest.raises(InvalidType, match="budget: got 2; allowed: "):
        CompressionBudget.of(2)


def test_limits():
    assert (
        CompressionBudget.of("2x").limit(3.0) == 1.5
        and CompressionBudget.of("10ms").limit(3.0) == 0.01
    )
    assert CompressionBudget.of("products:2x").point(30, 20) == "products:1.5x"
    assert CompressionBudget.of("10ms").point(3.0, 0.02) == "20ms"


def layers(seed):
    generator = np.random.default_rng(seed)
    made = []
    for _ in range(4):
        costs = np.sort(generator.uniform(1, 8, 5))
        errors = np.sort(generator.uniform(0, 1, 5))[::-1] ** 2
        options = zip(range(1, 6), costs, errors)
        made.append([Option(None, 10.0, 0.0), *(Option(*one) for one in options)])
    return made


def totals(options):
    return sum(one.cost for one in options), sum(one.error for one in options)


@pytest.mark.parametrize("seed", range(5))
def test_choices_are_nearly_the_best(seed):
    made = layers(seed)
    all_of_them = [totals(options) for options in product(*made)]
    for limit in (12.0, 20.0, 30.0):
        cost, error = totals(least_error(made, limit))
        assert cost <= limit * (1 + 1e-6)
        assert error <= 1.5 * min(e for c, e in all_of_them if c <= limit) + 1e-12
    for allowed in (0.1, 0.5, 1.0):
        cost, error = totals(least_cost(made, allowed))
        assert error <= allowed * (1 + 1e-6)
        assert cost <= 1.15 * min(c for c, e in all_of_them if e <= allowed)


def test_what_cannot_be_met():
    made = layers(0)
    least = sum(min(one.cost for one in options) for options in made)
    assert least_error(made, least * 0.99) is None
    assert totals(least_error(made, least * 1.001))[0] <= least * 1.001
    assert [one.rank for one in least_cost(made, 0.0)] == [None] * 4
    assert [one.rank for one in least_error(made, 1e9)] == [None] * 4


@pytest.mark.parametrize("seed", range(3))
def test_the_same_for_all_and_halfway_keep_the_limit(seed):
    made = layers(seed)
    for limit in (12.0, 20.0, 30.0):
        same, best = uniform(made, limit), least_error(made, limit)
        between = halfway(made, same, best, limit)
        for chosen in (same, between):
            assert totals(chosen)[0] <= limit * (1 + 1e-6)
        ends = [sorted((one.cost, other.cost)) for one, other in zip(same, best)]
        assert all(one.cost <= most for one, (_, most) in zip(between, ends))
    assert uniform(made, sum(min(o.cost for o in options) for options in made) * 0.99) is None
