"""Nests as kernels of devices: exact on integers, on a device and as C that sanitizers read."""

from random import Random

import numpy as np
import pytest
from laboratory.loops.samples import LAYERS, PADDED, data, draw, problem, target_of
from opencl import devices, twin

from winogen.codegen.devices.render import render
from winogen.conv import Layer
from winogen.errors import Unsupported
from winogen.records import TARGETS
from winogen_lab.loops.devices import nest_work
from winogen_lab.loops.parameters import STRATEGIES, Parameters

LAYOUTS = ("NCHW", "NHWC")


def layer_of(layout, layer, **options):
    """A layer of the samples as `conv2d` has it."""
    top, bottom, left, right = layer.get("padding", (0, 0, 0, 0))
    known = {name: layer[name] for name in ("stride", "dilation", "groups", "padding_mode")
             if name in layer}  # fmt: skip
    shape = (layer["filters"], layer["channels"] // layer.get("groups", 1), *layer["kernel"])
    padding = ((top, bottom), (left, right))
    return Layer.of(shape, "float32", padding=padding, layout=layout, **known, **options)


def nest_of(seed, strategy, layout, layer, **options):
    """A nest drawn at random: its kernels, the numbers that it is given, and what it computes."""
    target = target_of(strategy)
    nest = draw(Random(seed), problem(layout, layer), strategy, target, 0.1 * (seed % 5))
    x, w, bias, y = data(layout, layer)
    work = nest_work(layer_of(layout, layer, **options).problem(x.shape), nest, target)
    return work, {"input": x, "weights": w, "bias": bias}, y


def cases(times):
    """Every micro-kernel; layers and layouts in turn."""
    return list(_cases(times))


def _cases(times):
    for turn, (place, strategy) in enumerate(list(enumerate(STRATEGIES)) * times):
        yield pytest.param(
            turn, strategy, LAYOUTS[(place + turn // 16) % 2], LAYERS[(turn + turn // 16) % 7],
            id=f"{turn}-{strategy}", marks=pytest.mark.thorough if turn % 20 else (),
        )  # fmt: skip


@pytest.mark.parametrize(("seed", "strategy", "layout", "layer"), cases(5))
def test_nests_are_exact(seed, strategy, layout, layer):
    work, given, y = nest_of(seed, strategy, layout, layer)
    results = devices.run(render(work, "opencl"), work, given)
    np.testing.assert_array_equal(results["output"], y)


@pytest.mark.thorough
@pytest.mark.parametrize(("seed", "strategy", "layout", "layer"), cases(1))
def test_sanitizers_find_nothing(seed, strategy, layout, layer, tmp_path):
    work, given, y = nest_of(seed, strategy, layout, layer)
    results = twin.run(render(work, "c"), work, given, tmp_path)
    np.testing.assert_array_equal(results["output"], y)


@pytest.mark.parametrize("strategy", ["filters-yxc", "dot-c"])
def test_the_epilogue_follows(strategy):
    work, given, y = nest_of(3, strategy, "NHWC", PADDED, activation="relu")
    results = devices.run(render(work, "opencl"), work, given)
    np.testing.assert_array_equal(results["output"], np.maximum(y, 0))


def test_outermost_loops_over_outputs_are_items():
    nest = Parameters("filters-yxc", "HWC", "MYXCm", "HWM", ("H", "M", "W"), pixels=3)
    layer = layer_of("NHWC", dict(channels=4, filters=8, size=(8, 8), kernel=(1, 1)))
    work = nest_work(layer.problem((3, 8, 8, 4)), nest, TARGETS["generic"])
    (kernel,) = work.kernels
    assert kernel.items == (64, 1, 3) and kernel.comment.endswith("are the items: h, m, w.")
    text = render(work, "opencl")
    assert "const int m = part / 3 % 2 * 4;" in text and "for (int m" not in text


def test_float64_is_refused():
    layer = Layer.of((4, 4, 3, 3), "float64")
    nest = Parameters("filters-yxc", "HWC", "MYXCm", "HWM", ("H", "M", "W"))
    with pytest.raises(Unsupported, match="layer: got 2 axes of float64; allowed: two axes of"):
        nest_work(layer.problem((1, 4, 8, 8)), nest, TARGETS["generic"])
