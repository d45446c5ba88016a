"""The event-driven simulation counts what the formulas say, and stalls where fetching is slower."""

import pytest

from winogen.errors import InvalidType, InvalidValue
from winogen.hardware import Engine
from winogen.hardware.events import fill_and_drain, simulate, stages_behind
from winogen.hardware.schedules import SCHEDULES, steps

LAYERS = [
    (Engine(8, 4, 8, 1), (1, 8, 8, 8), (8, 8, 3, 3), {}),
    (Engine(8, 4, 8, 1), (1, 8, 8, 8), (8, 8, 1, 1), {}),
    (Engine(8, 4, 8, 1), (1, 16, 16, 16), (16, 16, 3, 3), {"padding": 1}),
    (Engine(16, 4, 16, 2), (1, 256, 14, 14), (64, 256, 3, 3), {"padding": 1}),
    (Engine(8, 6, 4, 2), (2, 20, 14, 14), (24, 20, 5, 5), {"padding": 2}),
    (Engine(4, 4, 8, 3), (1, 12, 9, 9), (24, 4, 3, 3), {"padding": 1, "groups": 3, "stride": 2}),
]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("engine", "input", "weight", "options"), LAYERS)
def test_rows_are_the_cycles_of_the_formula(engine, input, weight, options, schedule):
    mapping = engine.mapping(input, weight, **options)
    trace = simulate(mapping, schedule)
    fill, drain = fill_and_drain(mapping)
    assert trace.busy == trace.events["row"] == mapping.cycles
    assert (trace.fill, trace.stalls, trace.drain) == (fill, 0, drain)
    assert trace.cycles == fill + mapping.cycles + drain


def test_the_windows_of_the_source():
    assert [simulate(Engine(8, 4, 8, 1).mapping((1, 8, 8, 8), (8, 8, k, k))).busy
            for k in (3, 1)] == [36, 16]  # fmt: skip


@pytest.mark.parametrize(("engine", "input", "weight", "options"), LAYERS)
def test_what_stays_is_fetched_once(engine, input, weight, options):
    mapping = engine.mapping(input, weight, **options)
    blocks = {name: list(steps(mapping, name)) for name in SCHEDULES}
    events = {name: simulate(mapping, name).events for name in SCHEDULES}
    inputs, weights, sums = ({getattr(one, kind) for one in blocks["OS"]}
                             for kind in ("input", "weights", "sums"))  # fmt: skip
    assert events["IS"]["input"] == len(inputs)
    assert events["WS"]["weights"] == len(weights)
    assert all(one["outputs"] == len(sums) for one in events.values())
    # Tiles are done with, or filters, before the next begin, so that their sums can leave.
    for name, kind in (("OS", "tiles"), ("IS", "tiles"), ("WS", "filters")):
        order = [(one.turn, getattr(one, kind)) for one in blocks[name]]
        assert order == sorted(order)
    # Each order is of the same steps, and each step is there once.
    assert len({*map(frozenset, blocks.values())}) == 1
    assert all(len(one) == len({*one}) == mapping.steps for one in blocks.values())


def test_slow_fetching_stalls_by_what_it_is_slower():
    mapping = Engine(8, 4, 8, 1).mapping((1, 16, 16, 16), (16, 16, 3, 3), padding=1)
    tiles, filters, channels = 64, 2, 2
    fill, drain = fill_and_drain(mapping)
    for schedule, inputs in (
        ("OS", tiles * filters * channels),
        ("WS", tiles * filters * channels),
    ):
        slow = simulate(mapping, schedule, input_cycles=6)
        assert slow.cycles == fill + drain + mapping.cycles + 2 * inputs
        assert slow.stalls + (slow.fill - fill) == 2 * inputs
    # Inputs that stay for two blocks of filters may take twice as long.
    assert simulate(mapping, "IS", input_cycles=8).stalls == 0
    assert simulate(mapping, "IS", input_cycles=9).stalls > 0
    # Filters that stay for all tiles come long before they are needed.
    assert simulate(mapping, "WS", weight_cycles=200).stalls == 0
    assert simulate(mapping, "OS", weight_cycles=5).stalls > 0


def test_relu_is_last():
    names = [stage.name for stage in stages_behind(Engine(8, 4, 8, 1), True)]
    assert names[0] == "scale and offset of sums" and names[-2:] == ["normalization", "ReLU"]
    assert len(names) == len(stages_behind(Engine(8, 4, 8, 1), False)) + 2


def test_refusals():
    mapping = Engine(1, 4, 1, 1).mapping((1, 64, 224, 224), (64, 64, 3, 3))
    with pytest.raises(InvalidValue, match="mapping: got a layer of .* steps"):
        simulate(mapping)
    small = Engine(8, 4, 8, 1).mapping((1, 8, 8, 8), (8, 8, 3, 3))
    with pytest.raises(InvalidValue, match="schedule: got 'XS'"):
        simulate(small, "XS")
    with pytest.raises(InvalidValue, match="input_cycles: got 0"):
        simulate(small, input_cycles=0)
    with pytest.raises(InvalidType, match="weight_cycles: got 1.5"):
        simulate(small, weight_cycles=1.5)
