"""What each stage must do, counted; and the limits beside its rate."""

import numpy as np
import pytest

import winogen
from winogen.bench import BenchLayer, Limits, profile, reference
from winogen.codegen import transforms


class Spec:
    def __init__(self, h, w):
        self.transform_h, self.transform_w = h, w


def plan_of(layer, **options):
    weight = np.zeros(layer.weight, np.float32)
    conv = winogen.Conv2d(weight, padding=1, threads=1, **options)
    return conv.plan(layer.input)


def test_work_of_tiles(tiny):
    plan = plan_of(tiny, algorithm="mcmr", tile=(2, 4))
    h, w = transforms.load(2, 3), transforms.load(4, 3)
    work = profile.work(tiny, plan, Spec(h, w))
    tiles, positions = 5 * 3, 4 * 6
    assert work["multiply"]["flop"] == 2 * tiles * positions * 16 * 16
    assert work["multiply"]["bytes"] == plan.packed_weight_bytes
    into = work["input transform"]
    assert into["bytes"] == 4 * 16 * 9 * 11 and into["near"] == 4 * positions * tiles * 16
    # 4 instructions for each of 6 columns, then 12 for each of 4 rows
    per_tile = h.instructions[0] * 6 + w.instructions[0] * 4
    assert into["flop"] == 2 * per_tile * tiles * 16
    out = work["output transform"]
    per_tile = h.instructions[2] * 6 + w.instructions[2] * 2
    assert out["flop"] == 2 * per_tile * tiles * 16 and out["bytes"] == 4 * 16 * 9 * 11


def test_work_of_rows(tiny):
    plan = plan_of(tiny, algorithm="winograd1d", tile=4)
    w = transforms.load(4, 3)
    work = profile.work(tiny, plan, Spec(transforms.load(1, 1), w))
    assert work["multiply"]["flop"] == 2 * (9 * 3 * 6) * 3 * 16 * 16
    assert work["input transform"]["near"] == 4 * 6 * (11 * 3) * 16  # 9 + 2 rows of 3 tiles
    assert work["output transform"]["near"] == 4 * 6 * (9 * 3) * 16


def test_work_without_tiles(tiny):
    work = profile.work(tiny, plan_of(tiny, algorithm="direct"), Spec(None, None))
    assert list(work) == ["multiply"]
    assert work["multiply"]["flop"] == tiny.flops


def test_the_limit_is_the_one_that_binds():
    limits = Limits(1, {1: 100.0}, (("L2", 1 << 20, 50.0), ("memory", 1 << 40, 10.0)))
    found = {
        "algorithm": "mcmr", "tile": [2, 2], "seconds": 1.0,
        "stages": {name: {"seconds": 0.25, "share": 0.25} for name in profile.STAGES},
        "work": {
            "input transform": {"flop": 10**9, "bytes": 10**9, "near": 5 * 10**9},
            "multiply": {"flop": 20 * 10**9, "bytes": 1000, "near": 0},
        },
    }  # fmt: skip
    stages = profile.add_rates(found, 100.0, limits)["stages"]
    assert (stages["multiply"]["rate"], stages["multiply"]["limit"]) == pytest.approx((80.0, 100.0))
    assert stages["multiply"]["unit"] == "GFLOP/s"
    # 1 GB at 10 GB/s and 5 GB at 50 GB/s: 6 GB in 0.2 s
    into = stages["input transform"]
    assert (into["rate"], into["limit"], into["unit"]) == (
        pytest.approx(24),
        pytest.approx(30),
        "GB/s",
    )
    assert "rate" not in stages["output transform"] and "rate" not in stages["other"]


@pytest.mark.parametrize("algorithm", ["direct", "im2col", "winograd2d", "winograd1d", "mcmr"])
def test_stages_of_every_algorithm(tiny, algorithm):
    x, weight = reference.data(tiny)
    found = profile.profile(tiny, x, weight, algorithm=algorithm)
    assert found["algorithm"] == algorithm and found["seconds"] > 0
    stages = found["stages"]
    assert all(stage["seconds"] >= 0 for stage in stages.values())
    assert stages["multiply"]["seconds"] > 0
    if algorithm in ("winograd1d", "mcmr"):
        assert stages["input transform"]["seconds"] > 0
        assert stages["output transform"]["seconds"] > 0


def test_the_profiled_twin_computes_the_same(tiny):
    x, weight = reference.data(tiny)
    conv = winogen.Conv2d(weight, padding=1, threads=1, algorithm="mcmr", tile=4)
    prepared = conv._prepare(x.shape)
    (call,) = prepared.calls
    y = np.empty(prepared.output_shape, np.float32)
    scratch = profile.memory.workspace(prepared.workspace_bytes)
    profile._Profiled(call, weight).run(x, y, scratch)
    assert np.array_equal(y, conv(x))


def test_nhwc(tiny):
    x, weight = reference.data(tiny)
    found = profile.profile(tiny, x, weight, layout="NHWC", algorithm="mcmr", tile=(2, 2))
    assert found["tile"] == [2, 2]


def test_tile_waste_is_work_too():
    layer = BenchLayer.from_dict(
        {"name": "x", "input": [1, 16, 5, 5], "weight": [16, 16, 3, 3], "padding": 1}
    )
    plan = plan_of(layer, algorithm="mcmr", tile=4)
    work = profile.work(layer, plan, Spec(transforms.load(4, 3), transforms.load(4, 3)))
    assert work["multiply"]["flop"] == 2 * 4 * 36 * 16 * 16
