"""The figures of scripts/opencl_figures.py, and the baselines that it times."""

import ctypes
import importlib
from math import prod
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from conv import reference
from opencl import devices

from winogen.codegen.devices.render import render
from winogen.conv.problem import Layer
from winogen.opencl.devices import DeviceInfo
from winogen.opencl.space import DirectSpace

ROOT = Path(__file__).parents[2]


@pytest.fixture
def scripts(monkeypatch):
    """Return what imports a script."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module


def test_bytes_are_those_of_the_source(scripts, capsys):
    figures = scripts("opencl_figures")
    assert figures.table_4() == {"as printed": 61_968_384, "with ρ = 2": 53_231_616}
    ratios = [figures.im2col_bytes(one) / figures.direct_bytes(one) for one in figures.vgg()]
    assert len(ratios) == 9 and round(fmean(ratios), 2) == 3.26
    largest = dict(figures.largest_layers())
    assert largest["vgg16"].input == (1, 64, 224, 224)
    assert figures.im2col_bytes(largest["vgg16"]) == 4 * (2 * 64 * 224**2 + 64 * 576 + 576 * 224**2)
    found = figures.workspaces()
    (_, size, work), *others = found.values()
    assert size == 77_714_432 and [one[1] for one in others] == [0, 51_380_224]
    assert {one[2] for one in others} == {figures.layer_7().problem().direct_multiplications}
    assert work > others[0][2]
    figures.show_bytes()
    printed = capsys.readouterr().out
    assert "61,968,384 bytes" in printed and "3.26" in printed


def test_points_are_counted_and_checked(scripts, monkeypatch, capsys):
    points = scripts("opencl_points")
    monkeypatch.setattr(points, "_DRAWS", 200)
    monkeypatch.setattr(points, "_BUILT", 20)
    small = scripts("winogen.tuning.layers").BenchLayer.from_dict(
        {"name": "small", "input": [1, 4, 5, 4], "weight": [2, 4, 3, 3]}
    )
    points.show_points([small], small, DeviceInfo())
    printed = capsys.readouterr().out
    assert "680 of 13,824 combinations are valid; the draws are these" in printed
    assert "small: 0 of 200 draws are invalid" in printed and "0 of 20 take other" in printed
    count = DirectSpace(small.problem("NHWC"), DeviceInfo()).first.count()
    assert f" {count:,} " in printed


CASES = [
    Layer.of((8, 4, 3, 3), "float32", layout="NHWC", padding=1).problem((2, 7, 6, 4)),
    Layer.of((16, 3, 5, 3), "float32", layout="NHWC", stride=(2, 3)).problem((1, 12, 11, 3)),
]


@pytest.mark.parametrize("case", CASES)
def test_baselines_are_exact(scripts, case):
    baselines = scripts("opencl_baselines")
    device = DeviceInfo()
    layer = case.layer
    generator = np.random.default_rng(5)
    x = generator.integers(-8, 9, case.input_shape)
    w = generator.integers(-8, 9, layer.weight_shape)
    ends = [(axis.before, axis.after) for axis in layer.axes]
    wanted = reference.convolve(x, w, stride=layer.stride, padding=ends, layout="NHWC")
    works = [baselines.naive_work(case, device)]
    cuts = baselines.blocks(case, device)
    assert cuts
    works += [baselines.im2col_work(case, device, block) for block in cuts[:2]]
    for work in works:
        results = devices.run(render(work, "opencl"), work, {"input": x, "weights": w})
        output = results["output"].reshape(-1)[: prod(case.output_shape)]
        np.testing.assert_array_equal(output.reshape(case.output_shape), wanted)


def test_rivals_are_timed(scripts, monkeypatch):
    context = devices.context()
    layer = scripts("winogen.tuning.layers").BenchLayer.from_dict(
        {"name": "small", "input": [1, 8, 6, 6], "weight": [16, 8, 3, 3], "padding": 1}
    )
    figures = scripts("opencl_figures")
    cut, *_ = figures.blocks(layer.problem("NHWC"), DeviceInfo.of(context.devices[0]))
    monkeypatch.setattr(figures, "blocks", lambda problem, device: [cut])
    times = figures.Rivals(context).times(layer)
    assert 0 < times["naive"] < 60 and 0 < times["im2col"] < 60
    assert times["im2col_bytes"] >= 4 * 36 * 72
    try:
        ctypes.CDLL("libclblast.so.1")
    except OSError:
        assert "clblast" not in times
    else:
        assert 0 < times["clblast"] < 60
