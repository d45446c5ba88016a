"""Seconds of every stage, what each does, and the limit beside its rate."""

import numpy as np
import pytest
from kernels.turns import first

import winogen
from winogen.kernels.count import Demand, Move
from winogen.toolchain.limits import Limits
from winogen.tuning.layers import BenchLayer
from winogen_lab.bench import profile, quantized, roofline

LIMITS = Limits(1, {1: 100.0}, (("L2", 1 << 20, 50.0), ("memory", 1 << 40, 10.0)))


def test_demands_are_those_of_all_kernel_calls(tiny):
    """What the rim leaves to direct convolution is multiplied, too, but for padding."""
    weight = np.zeros(tiny.weight, np.float32)
    for edge in ("discard", "direct"):
        conv = winogen.Conv2d(
            weight, padding=1, threads=1, algorithm="mcmr", tile=(2, 4), edge=edge
        )
        prepared = conv._prepare(tiny.input)
        demands = profile.demands(tuple(call.work for call in prepared.calls))
        # Direct convolution leaves out taps above 3 pixels of the first row and below the last.
        padding = 0 if edge == "discard" else (3 + 11) * 3 * 16 * 16
        assert demands["multiply"].products == prepared.plan().multiplications - padding
        assert len(prepared.calls) == (1 if edge == "discard" else 3)


def test_tile_waste_is_work_too():
    layer = BenchLayer.from_dict(
        {"name": "x", "input": [1, 16, 5, 5], "weight": [16, 16, 3, 3], "padding": 1}
    )
    x, weight = layer.data()
    found = profile.profile(layer, x, weight, algorithm="mcmr", tile=4)
    assert found.demands["multiply"].products == 4 * 36 * 16 * 16 == found.plan.multiplications


def made_up(tiny, demands):
    x, weight = tiny.data()
    found = profile.profile(tiny, x, weight, algorithm="mcmr", tile=(2, 2))
    return profile.Profile(
        found.problem, found.plan, found.works, 1.0, dict.fromkeys(profile.STAGES, 0.25), demands
    )


def test_the_limit_is_the_one_that_binds(tiny):
    lanes = 16
    found = made_up(tiny, {})
    lanes = found.lanes
    moves = (Move("input", 10**9, 1 << 30), Move("V", 5 * 10**9, 1 << 20, writes=True))
    found = made_up(
        tiny,
        {
            "input transform": Demand(instructions=10**9 / 2 / lanes, moves=moves),
            "multiply": Demand(10**10, 20 * 10**9 / 2 / lanes, moves=(Move("U", 1000, 1000),)),
        },
    )
    document = profile.rates(found, 100.0, LIMITS)
    stages = document["stages"]
    assert (stages["multiply"]["rate"], stages["multiply"]["limit"]) == pytest.approx((80.0, 100.0))
    assert stages["multiply"]["unit"] == "GFLOP/s"
    # 1 GB at 10 GB/s and 5 GB at 50 GB/s: 6 GB in 0.2 s
    into = stages["input transform"]
    assert (into["rate"], into["limit"]) == pytest.approx((24, 30)) and into["unit"] == "GB/s"
    assert "rate" not in stages["output transform"] and "rate" not in stages["other"]
    assert document["tile"] == [2, 2] and document["threads"] == 1


@pytest.mark.parametrize(
    "algorithm", first(2, zip(("mcmr", "direct", "im2col", "winograd2d", "winograd1d")))
)
def test_stages_of_every_algorithm(tiny, algorithm):
    x, weight = tiny.data()
    found = profile.profile(tiny, x, weight, algorithm=algorithm)
    assert found.plan.algorithm == algorithm and found.seconds > 0
    assert all(seconds >= 0 for seconds in found.stages.values())
    assert found.stages["multiply"] > 0
    if algorithm in ("winograd1d", "mcmr"):
        assert found.stages["input transform"] > 0 and found.stages["output transform"] > 0


@pytest.mark.parametrize("threads", [1, 2])
def test_the_profiled_twin_computes_the_same(tiny, threads):
    x, weight = tiny.data()
    conv = winogen.Conv2d(weight, padding=1, threads=threads, algorithm="mcmr", tile=4)
    prepared = conv._prepare(x.shape)
    (call,) = prepared.calls
    y = np.empty(prepared.output_shape, np.float32)
    twin = profile.ProfiledCall(call.kernel.spec, call.work, weight)
    twin(x, y)
    assert np.array_equal(y, conv(x))
    assert all(seconds > 0 for seconds in twin.seconds[:3])


def test_threads_together_take_no_longer_than_the_call(tiny):
    """Stages of two threads are means; the time before a thread's first stage is part of it."""
    x, weight = tiny.data()
    found = profile.profile(tiny, x, weight, algorithm="mcmr", tile=2, threads=2)
    assert found.plan.threads == 2
    assert sum(found.stages.values()) == pytest.approx(found.seconds, rel=1e-3)


def test_nhwc(tiny):
    x, weight = tiny.data()
    found = profile.profile(tiny, x, weight, layout="NHWC", algorithm="mcmr", tile=(2, 2))
    assert found.plan.tile == (2, 2) and found.problem.layer.layout == "NHWC"


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("groups", [1, 16])
def test_bytes_have_stages_and_the_same_bits(layout, groups):
    fields = {"name": "x", "input": [1, 16, 9, 11], "weight": [16, 16 // groups, 3, 3]}
    layer = BenchLayer.from_dict({**fields, "padding": 1, "groups": groups})
    x, weight = quantized.data(layer)
    found = profile.profile(layer, x, weight, layout)
    assert all(found.stages[name] > 0 for name in profile.STAGES[:3])
    assert found.demands["multiply"].products == found.plan.multiplications
    data = np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if layout == "NHWC" else x
    conv = winogen.QConv2d(
        weight, padding=1, groups=groups, layout=layout, x_scale=1.0, w_scale=0.01, y_scale=1.0
    )
    y = np.empty_like(conv(data))
    call = conv.bound(data.shape, "int8")
    profile.ProfiledCall(call.kernel.spec, call.work, *conv.packs)(data, y)
    assert np.array_equal(y, conv(data))


def test_tiles_are_several_multiply_adds_at_once():
    """A stage that only multiplies by AMX takes an eighth of the time of its vectors."""
    demand = Demand(products=1024, steps=16.0)
    one, eight = (roofline.of_stage(demand, 16, 100.0, LIMITS, times) for times in (1, 8))
    assert eight.arithmetic == one.arithmetic / 8 == pytest.approx(2 * 16 * 2 / 100e9)
