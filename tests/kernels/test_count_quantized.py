"""What convolutions of bytes count is what the problem needs, on every target, and is priced."""

from dataclasses import replace
from math import prod

import pytest

from winogen.conv.problem import Layer
from winogen.conv.quantized_planner import CallNumbers, choices, evaluated
from winogen.conv.request import Request
from winogen.records import TARGETS, Costs, Machine

from .test_count import moved, needed

ISAS = {
    "avx512": "+vnni+amx", "avx2": "+avxvnni", "sse2": "", "neon": "+dotprod+i8mm", "generic": "",
}  # fmt: skip
# Weights, groups, image, options: of odd sizes, so that rests of vectors, words and blocks appear.
LAYERS = (
    ((17, 5, 3, 3), 1, (2, 9, 11), {"padding": 1}),
    ((40, 70, 1, 1), 1, (1, 7, 5), {}),
    ((6, 3, 5, 2), 2, (1, 13, 10), {"padding": 1, "stride": (2, 1)}),
    ((34, 2, 3, 3), 1, (1, 40, 33), {"dilation": 2}),
    ((19, 1, 3, 3), 19, (2, 9, 12), {"padding": 1, "stride": 2}),
)


def works(isa, layout, sums):
    """Every layer as every choice computes it, in the usual blocks and in others."""
    target = TARGETS[isa].adjusted(ISAS[isa])
    for weight, groups, (batch, *size), options in LAYERS:
        layer = Layer.of(weight, "uint8", groups=groups, layout=layout, **options)
        image = (layer.channels, *size) if layout == "NCHW" else (*size, layer.channels)
        problem = layer.problem((batch, *image))
        for algorithm in ("auto", "im2col"):
            for choice in choices(layer, Request(algorithm), target):
                way = evaluated(problem, choice, CallNumbers(sums), target, Machine())
                yield problem, way.work
                rows, cols = way.work.output_size
                block = max(1, rows // 2), cols if way.work.depthwise else max(1, cols // 2)
                yield problem, replace(way.work, block=block)


@pytest.mark.parametrize("sums", [False, True])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("isa", ISAS)
def test_counts_are_those_of_the_problem(isa, layout, sums):
    for problem, work in works(isa, layout, sums):
        layer, stages = problem.layer, work.demands()
        assert sum(stage.products for stage in stages) == problem.direct_multiplications
        channels = layer.channels if work.depthwise else work.groups * work.channels
        inputs = work.batch * channels * needed(work, 0) * needed(work, 1)
        assert moved(stages, "input") >= inputs
        itemsize = 4 if sums else 1
        assert moved(stages, "output", writes=True) == prod(problem.output_shape) * itemsize
        assert moved(stages, "U") >= prod(layer.weight_shape)
        assert not moved(stages, "input", writes=True) and not moved(stages, "U", writes=True)
        steps = sum(stage.steps for stage in stages)
        numbers = work.spec.lanes * work.spec.dot.together
        assert steps * numbers >= problem.direct_multiplications


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_no_lane_is_idle_where_all_sizes_are_whole(layout):
    target = TARGETS["avx512"].adjusted("+vnni")
    layer = Layer.of((64, 64, 3, 3), "uint8", padding=1, layout=layout)
    problem = layer.problem((1, 64, 16, 32) if layout == "NCHW" else (1, 16, 32, 64))
    for choice in choices(layer, Request("direct"), target):
        work = evaluated(problem, choice, CallNumbers(), target, Machine()).work
        steps = sum(stage.steps for stage in work.demands())
        assert steps * 16 * work.spec.dot.together == problem.direct_multiplications


def test_inputs_are_read_once_for_each_block_that_sees_them():
    target = TARGETS["avx512"]
    problem = Layer.of((16, 16, 3, 3), "uint8", padding=1, stride=(2, 1)).problem((1, 16, 9, 10))
    (choice,) = choices(problem.layer, Request("direct"), target)
    work = evaluated(problem, choice, CallNumbers(), target, Machine()).work
    work = replace(work, block=(2, 4))  # of 5 x 10 outputs
    rows, cols = (1 + 3) + 5 + 2, (1 + 4) + 6 + 3  # less the padding
    assert moved(work.demands(), "input") == rows * cols * 16


@pytest.mark.parametrize("isa", ISAS)
def test_predictions_are_the_price_of_the_count(isa, monkeypatch):
    """Twice the count is twice the time; rows of depthwise layers are charged for besides."""
    for _, work in works(isa, "NCHW", False):
        once, stages = work.cycles(Machine()), work.count()
        doubled = [
            replace(2 * one, product=replace(one.product, times=2 * one.product.times))
            for one in stages
        ]
        with monkeypatch.context() as changed:
            changed.setattr(type(work), "count", lambda _, doubled=doubled: doubled)
            rel = 0.4 if work.depthwise else 1e-6
            assert work.cycles(Machine()) == pytest.approx(2 * once, rel=rel)


def test_every_constant_matters():
    all_ = [work for isa in ISAS for _, work in works(isa, "NCHW", False)]
    for name in vars(Costs()):
        if name.startswith(("byte_", "tile_")):
            slow = Machine(costs=replace(Costs(), **{name: 50 * getattr(Costs(), name)}))
            assert any(work.cycles(slow) > work.cycles(Machine()) for work in all_), name


def test_threads_share_what_there_is():
    layer = Layer.of((64, 64, 3, 3), "uint8", padding=1)
    target = TARGETS["avx2"]
    times = []
    for threads in (1, 2, 4):
        (choice,) = choices(layer, Request("direct", threads=threads), target)
        problem = layer.problem((1, 64, 56, 56))
        times.append(evaluated(problem, choice, CallNumbers(), target, Machine()).seconds)
    assert times == sorted(times, reverse=True) and times[0] < 5 * times[2]
