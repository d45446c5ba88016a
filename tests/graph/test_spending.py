"""Tolerances of layers from one of the output: the least time, and a promise that is kept."""

from itertools import product
from math import hypot

import numpy as np
import pytest
from conv.conftest import quick_kernels  # noqa: F401
from conv.reference import convolve

from winogen.errors import InvalidValue
from winogen.graph import Conv, Graph, Node, Segment
from winogen.graph.planning import Outlines
from winogen.graph.promise import SAFE, OutputPromise, check_framework, draws_of, gains_of, kept
from winogen.graph.spending import Priced, Spending, offers, spent


def random_layers(seed, count=4):
    """Offers of some layers, faster ones less accurate, and gains of all sizes."""
    random = np.random.default_rng(seed)
    layers = {}
    for name in map(str, range(count)):
        seconds = np.sort(random.random(5))
        errors = np.sort(10 ** random.uniform(-7, -3, 5))[::-1]
        layers[name] = [Priced(2 * e, s, e) for s, e in zip(seconds.tolist(), errors.tolist())]
    return layers, {name: float(10 ** random.uniform(-2, 1)) for name in layers}


def least(layers, gains, budget):
    """The least time of all ways that keep a budget."""
    times = [
        sum(way.seconds for way in ways)
        for ways in product(*layers.values())
        if hypot(*(gains[name] * way.error for name, way in zip(layers, ways))) <= budget
    ]
    return min(times, default=None)


@pytest.mark.parametrize("seed", range(5))
def test_a_budget_buys_the_most_time(seed):
    """As a search through all ways finds it, and a larger one never buys less."""
    layers, gains = random_layers(seed)
    before = np.inf
    for budget in np.geomspace(1e-8, 1e-1, 40):
        found = spent(layers, gains, budget)
        assert found.seconds <= before
        before = found.seconds
        best = least(layers, gains, 0.97 * budget)  # the front has gaps of 2 %
        if best is not None:
            assert found.predicted(found.errors) <= budget
            assert found.seconds <= best + 1e-12
            chosen = [next(w for w in layers[n] if w.error == found.errors[n]) for n in layers]
            assert found.seconds == pytest.approx(sum(way.seconds for way in chosen))
            assert sum(found.share(n, found.errors) for n in layers) == pytest.approx(1)


def test_where_nothing_keeps_a_budget_all_is_as_accurate_as_it_can_be():
    layers, gains = random_layers(0)
    found = spent(layers, gains, 0.0)
    assert found.tolerances == {name: ways[-1].tolerance for name, ways in layers.items()}
    assert Spending.read(found.text()) == found


def test_layers_of_no_known_gain_keep_their_usual_tolerance():
    layers, gains = random_layers(0)
    del gains["2"]
    assert spent(layers, gains, 1e-3).tolerances.keys() == {"0", "1", "3"}


def test_offers_are_what_the_planner_takes():
    """By the tolerance of each, it takes a way that is as fast, and as accurate."""
    graph = Graph(("x",), [Node(Conv(np.ones((32, 32, 3, 3), np.float32)), ("x",), ("y",))], ("y",))
    shapes = [(1, 32, 34, 34)]
    outlines = Outlines([(graph, shapes)], Segment(graph).settings())
    (ways,) = offers(outlines).values()
    assert len(ways) > 4
    assert [w.seconds for w in ways] == sorted(w.seconds for w in ways)
    assert [w.error for w in ways] == sorted((w.error for w in ways), reverse=True)
    for way in ways:
        planned = Segment(graph, tolerances={"y": way.tolerance}).plan(shapes)
        assert planned.seconds == pytest.approx(way.seconds, rel=0.1)
        assert planned.seconds <= way.seconds * (1 + 1e-9)


@pytest.mark.thorough
def test_errors_of_offers_are_measured():
    """Of 16-bit and 8-bit products, too, whose worst outputs are off by several times as much."""
    random = np.random.default_rng(0)
    weight = (random.standard_normal((64, 64, 3, 3)) / 24).astype(np.float32)
    graph = Graph(("x",), [Node(Conv(weight), ("x",), ("y",))], ("y",))
    x = random.standard_normal((1, 64, 58, 58)).astype(np.float32)
    exact = convolve(x.astype(float), weight.astype(float))
    (ways,) = offers(Outlines([(graph, [x.shape])], Segment(graph).settings())).values()
    for way in ways[:: max(1, len(ways) // 4)]:
        if way.error < 2e-7:
            continue  # float32 of the input itself counts for nothing here
        (y,) = Segment(graph, tolerances={"y": way.tolerance})(x)
        error = np.linalg.norm(y - exact) / np.linalg.norm(exact)
        assert 0.6 < error / way.error < 1.4, way


@pytest.mark.parametrize("off", [0.05, 1.0, 30.0, 1e4])
def test_what_is_measured_corrects_what_is_predicted(off):
    """Errors may be many times what was predicted: at last the promise holds, and is used."""
    asked, least_error = 1e-4, 1e-7
    made = []

    def draft(budget):
        made.append(max(off * min(budget, 1e-3), least_error))  # what is measured of it
        return made[-1]

    best, holds = kept(asked, draft, lambda error: OutputPromise(asked, error, 1e-7, 1))
    assert holds and best <= SAFE * asked
    assert best >= min(0.4 * asked, off * 1e-3)


def test_a_step_too_far_is_taken_back_by_a_part():
    """Errors that grow with the budget's square: between two budgets lies a better one."""
    asked, budgets = 1e-2, []

    def draft(budget):
        budgets.append(budget)
        return 4e2 * budget**2 if budget < 9e-3 else 30 * budget

    best, holds = kept(asked, draft, lambda error: OutputPromise(asked, error, 1e-7, 1))
    assert holds and 0.4 * asked < best <= SAFE * asked
    assert budgets[2] == pytest.approx((budgets[0] * budgets[1]) ** 0.5, rel=0.7)


def test_a_promise_that_nothing_keeps():
    """All layers were as accurate as they can be, and the framework may not keep it, either."""
    budgets = []
    promise = OutputPromise(1e-9, 3e-7, 2e-7, 1)
    _, holds = kept(1e-9, lambda budget: budgets.append(budget) or 0, lambda _: promise)
    assert not holds and budgets[-1] == 0.0
    with pytest.raises(InvalidValue, match=r"output_tolerance: got 1e-09; allowed: at least 2e-07"):
        check_framework(promise, "torch")
    with pytest.raises(InvalidValue, match="output_tolerance: got 1e-09; allowed: None for this"):
        kept(1e-9, lambda budget: 0, lambda _: None)


def test_gains_without_time_are_those_of_layers_beside():
    """The last layer, the first and some between are run; a value without numbers has none."""
    true = {str(n): 10.0 ** (n % 5 - 2) for n in range(20)}
    ran = []

    def moved(name, draw):
        ran.append(name)
        return None if name == "10" else ([np.full(200, 1 + true[name])], 1.0)

    found = gains_of(true, [np.ones(200)], moved, lambda: len(ran) == 9)
    assert ran[:3] == ["19", "0", "16"] and "10" in ran
    assert found.keys() == true.keys() - ({"10"} & set(ran))
    known = sorted(int(name) for name in ran if name != "10")
    for name, gain in found.items():
        below = [n for n in known if n <= int(name)][-1:]
        above = [n for n in known if n >= int(name)][:1]
        assert gain == pytest.approx(max(true[str(n)] for n in below + above))


def test_outputs_of_few_numbers_are_drawn_several_times():
    assert [draws_of([n]) for n in (1, 25, 1000)] == [8, 4, 1]
    assert draws_of([]) == 1
