"""Every number of a machine has a say: for some layer another value makes another plan."""

from dataclasses import fields, replace

import numpy as np
import pytest

import winogen
from winogen.conv import gradient_planner, planner
from winogen.conv.problem import Layer
from winogen.conv.request import Request
from winogen.records import TARGETS, Costs, Machine
from winogen.toolchain import machine as machines

# input, weight, layout and threads of layers, all of stride 1, as nets have them; and the type of
# products, where it is not that of the arrays
INCEPTION = (1, 64, 35, 35), (96, 64, 3, 3), "NCHW", 4
EXPANDING = (1, 64, 14, 14), (384, 64, 1, 1), "NHWC", 1
SQUEEZING = (1, 192, 28, 28), (32, 192, 1, 1), "NCHW", 4
REDUCING = (1, 128, 35, 35), (96, 128, 1, 1), "NHWC", 1
FEW_FILTERS = (1, 64, 180, 320), (4, 64, 3, 3), "NCHW", 1
MANY = (1, 256, 56, 56), (256, 256, 3, 3), "NCHW", 1
FIRST = (1, 3, 299, 299), (32, 3, 3, 3), "NHWC", 1
DEPTHWISE = (1, 8, 28, 28), (8, 1, 3, 3), "NHWC", 3
FIVE_FILTERS = (1, 48, 7, 7), (5, 48, 1, 1), "NHWC", 4
LATE = (1, 64, 7, 7), (256, 64, 3, 3), "NHWC", 1
SMALL = (1, 128, 7, 7), (128, 128, 3, 3), "NHWC", 2
MANY_FILTERS = (1, 256, 14, 14), (512, 256, 3, 3), "NHWC", 2
LARGE_TAPS = (1, 16, 7, 7), (96, 16, 5, 5), "NCHW", 1, "float16"
SHORT_SUMS = (1, 16, 14, 14), (160, 16, 3, 3), "NCHW", 4, "float16"

# For each field such a layer, and by what its value is multiplied.
MACHINE = {
    "vectors_per_cycle": (*INCEPTION, 1 / 2),
    "l2_bytes": (*INCEPTION, 1 / 4),
    "l3_bytes": (*MANY, 1 / 4),
    "l2_rate": (*EXPANDING, 4),
    "l3_rate": (*FEW_FILTERS, 4),
    "memory_rate": (*FIRST, 4),
}
COSTS = {
    "shows": (*EXPANDING, 1 / 4),
    "streamed": (*FIRST, 4),
    "call_of_one": (*SQUEEZING, 1 / 4),
    "call_of_two": (*LATE, 4),
    "sum_of_one": (*REDUCING, 4),
    "sum_of_two": (*FEW_FILTERS, 8),
    "run": (*EXPANDING, 1 / 4),
    "instruction": (*FEW_FILTERS, 4),
    "store": (*FEW_FILTERS, 4),
    "arrange": (*FEW_FILTERS, 4),
    "barrier": (*SMALL, 4),
    "latency": (*FEW_FILTERS, 4),
    "loads": (*INCEPTION, 1 / 4),
    "depthwise": (*DEPTHWISE, 1 / 4),
    "delays": (*FIRST, 4),
    "lanes_added": (*FIVE_FILTERS, 1 / 4),
    "half_tap": (*LARGE_TAPS, 1 / 8),
    "half_sum": (*SHORT_SUMS, 1 / 4),
    "half_store": (*SHORT_SUMS, 1 / 4),
    "filters_displaced": (*MANY_FILTERS, 4),
}
# Of gradients: input and weight.
GRADIENTS = {
    "gradient_store": ((1, 64, 56, 56), (64, 64, 3, 3), 1 / 4),
    "gradient_product": ((1, 128, 14, 14), (256, 128, 3, 3), 4),
    "gradient_sum": ((1, 512, 7, 7), (512, 512, 3, 3), 1 / 4),
}
# Its register blocks of regions have two chains of sums.
TARGET = replace(TARGETS["avx512"], core="zen4").adjusted("+fp16")
SAID = ("provenance", "residual")  # of constants: words on them, not numbers that are counted with
OF_CHAINS = ("displaced",)  # see tests/graph/test_strips.py


def planned(machine, shape, weight, layout, threads, products=None):
    """What runs and how it is cut, and the seconds that each of the best candidates takes."""
    groups = shape[1] // weight[1]
    padding = weight[2] // 2
    layer = Layer.of(weight, "float32", padding=padding, groups=groups, layout=layout)
    if layout == "NHWC":
        shape = shape[0], *shape[2:], shape[1]
    problem = layer.problem(shape)
    request = Request(threads=threads, product_dtype=products)
    ways = planner.ranked(problem, request, TARGET, machine)
    cuts = [(work.block, work.split, work.images) for work in ways[0].works(problem)]
    seconds = {replace(way.choice, sizes=()): way.seconds for way in ways}
    return (ways[0].choice, cuts), seconds


def multiplied(record, name, factor):
    value = getattr(record, name)
    return replace(record, **{name: type(value)(value * factor)})


@pytest.mark.parametrize("name", [f.name for f in fields(Machine) if f.name != "costs"])
def test_every_rate_and_size_changes_a_plan(name):
    if name == "clock_ghz":  # what is counted in cycles takes them all, however long they are
        (plan, seconds), (same, longer) = (
            planned(Machine(clock_ghz=clock), *FEW_FILTERS) for clock in (3.0, 1.5)
        )
        assert plan == same and list(longer.values()) == [2 * time for time in seconds.values()]
        return
    *layer, factor = MACHINE[name]
    check(multiplied(Machine(), name, factor).check(), layer)


@pytest.mark.parametrize("name", GRADIENTS)
def test_every_constant_of_gradients_changes_a_tile(name):
    shape, weight, factor = GRADIENTS[name]
    problem = Layer.of(weight, "float32", padding=1).problem(shape)
    tiles = {
        gradient_planner.choose(problem, None, 1, None, TARGET, Machine(costs=costs)).tile
        for costs in (Costs(), multiplied(Costs(), name, factor))
    }
    assert len(tiles) == 2


OF_BYTES = ("byte_", "tile_")  # see tests/kernels/test_count_quantized.py
OF_LAYERS = [
    field.name
    for field in fields(Costs)
    if field.name not in (*SAID, *OF_CHAINS, *GRADIENTS) and not field.name.startswith(OF_BYTES)
]


@pytest.mark.parametrize("name", OF_LAYERS)
def test_every_constant_changes_a_plan(name):
    *layer, factor = COSTS[name]
    check(Machine(costs=multiplied(Costs(), name, factor)), layer)


def check(other, layer):
    plan, seconds = planned(Machine(), *layer)
    changed, after = planned(other, *layer)
    assert plan != changed
    assert any(after[choice] != time for choice, time in seconds.items() if choice in after)


def test_words_on_constants_change_nothing():
    said = Machine(costs=replace(Costs(), provenance="elsewhere", residual=1.0))
    assert planned(said, *INCEPTION) == planned(Machine(), *INCEPTION)


@pytest.mark.parametrize("rate", (1, 4))
def test_multiply_adds_take_as_long_as_the_machine_says(rate):
    """Half as many a cycle take up to twice as long, nearly so where little else is done."""
    layer = (1, 256, 28, 28), (256, 256, 3, 3), "NCHW", 1
    machine = Machine(vectors_per_cycle=rate, costs=replace(Costs(), loads=100, latency=0.1))
    usual = replace(machine, vectors_per_cycle=2.0)
    (_, times), (_, before) = planned(machine, *layer), planned(usual, *layer)
    ratios = {choice.algorithm: times[choice] / before[choice] for choice in times}
    assert ratios["direct"] == pytest.approx(2 / rate, rel=0.2)
    for ratio in ratios.values():
        assert 1 < ratio <= 2 if rate == 1 else 0.5 <= ratio < 1


def test_plans_name_the_record():
    """Those of bytes as well; and plans that differ in its age only are equal."""
    floats, integers = np.ones((4, 4, 3, 3), np.float32), np.ones((4, 4, 3, 3), np.int8)
    mcmr = {"algorithm": "mcmr", "x_scale": 0.1, "w_scale": 0.1, "y_scale": 0.1}
    for conv in (
        winogen.Conv2d(floats, padding=1, threads=1),
        winogen.QConv2d(integers, padding=1, threads=1),
        winogen.QConv2d(integers, padding=1, threads=1, **mcmr),
    ):
        plan = conv.plan((1, 4, 8, 8))
        assert str(plan).splitlines()[-1] == f"  machine          {machines.described()}"
        assert plan == replace(plan, machine="another day")
        assert "machine " not in str(replace(plan, machine=""))
