"""The kernels of layers, as C under sanitizers and by WebGPU: every way that a layer is offered."""

from itertools import product

import numpy as np
import pytest
from opencl import twin, webgpu

from winogen.codegen.devices.render import render
from winogen.conv import Layer
from winogen.conv.options import Options
from winogen.conv.request import Request
from winogen.opencl.choice import choose
from winogen.opencl.rates import told
from winogen.opencl.reference import numbers_of, reference
from winogen.opencl.standalone import DEVICES

LAYERS = {
    "planes": ((2, 5, 9, 11), (6, 5, 3, 3), dict(padding=1, activation="relu")),
    "pixels": ((1, 8, 10, 9), (12, 4, 3, 3), dict(groups=2, padding=1, layout="NHWC")),
    "strides": ((1, 3, 11, 12), (4, 3, 5, 3), dict(stride=(2, 1), padding_mode="reflect",
                                                    padding=2)),
    "dilated": ((1, 4, 12, 12), (8, 4, 3, 3), dict(dilation=2, padding="same", layout="NHWC")),
}  # fmt: skip


def works(name, algorithm):
    """All kernels that are offered for a layer; the arrays of a call, and what it computes."""
    shape, weights, options = LAYERS[name]
    asked = Options(**options, algorithm=algorithm, threads=1)
    layer = Layer.from_options(weights, "float32", asked)
    if not layer.planar:
        shape = (shape[0], *shape[2:], shape[1])
    problem, device = layer.problem(shape), DEVICES["wgsl"]
    ranked = choose(problem, Request.from_options(layer, asked), device, told(device))
    shapes = {"input": shape, "weights": weights, "bias": (weights[0],)}
    given = numbers_of(problem, shapes)
    return [one.work(problem, device, True) for one in ranked], given, reference(problem, given)


FIRST = ("planes", "mcmr")
CASES = [
    pytest.param(*case, marks=() if case == FIRST else pytest.mark.thorough)
    for case in product(LAYERS, ("direct", "mcmr"))
]


def near(found, want):
    """Within what float32 leaves of sums of these layers."""
    assert np.abs(found - want).max() <= 2e-5 * np.abs(want).max()


@pytest.mark.parametrize(("name", "algorithm"), CASES)
def test_sanitizers_find_nothing(name, algorithm, tmp_path):
    every, given, want = works(name, algorithm)
    for number, work in enumerate(every[:1] if (name, algorithm) == FIRST else every):
        folder = tmp_path / str(number)
        folder.mkdir()
        near(twin.run(render(work, "c"), work, given, folder)["output"], want)


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "algorithm"), CASES)
def test_webgpu_computes_them(name, algorithm):
    webgpu.device()
    every, given, want = works(name, algorithm)
    for work in every:
        near(webgpu.run(render(work, "wgsl"), work, given)["output"], want)
