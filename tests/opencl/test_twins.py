"""The kernels of layers, as C under sanitizers and by WebGPU: every way that a layer is offered.

As C they are also run in float16 arithmetic, which few drivers have.
"""

from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest
from opencl import twin, webgpu

from winogen.codegen.devices.render import render
from winogen.codegen.transforms import load
from winogen.conv import Layer
from winogen.conv.options import Options
from winogen.conv.request import Request
from winogen.opencl.choice import choose
from winogen.opencl.cuts import Parameters
from winogen.opencl.devices import DeviceInfo
from winogen.opencl.direct import direct_work
from winogen.opencl.rates import told
from winogen.opencl.reference import numbers_of, reference
from winogen.opencl.space import DirectSpace
from winogen.opencl.standalone import DEVICES
from winogen.opencl.winograd import mcmr_work

LAYERS = {
    "planes": ((2, 5, 9, 11), (6, 5, 3, 3), dict(padding=1, activation="relu")),
    "pixels": ((1, 8, 10, 9), (12, 4, 3, 3), dict(groups=2, padding=1, layout="NHWC")),
    "strides": ((1, 3, 11, 12), (4, 3, 5, 3), dict(stride=(2, 1), padding_mode="reflect",
                                                    padding=2)),
    "dilated": ((1, 4, 12, 12), (8, 4, 3, 3), dict(dilation=2, padding="same", layout="NHWC")),
    "float16": ((1, 6, 9, 8), (8, 6, 3, 3), dict(padding=1, layout="NHWC")),
}  # fmt: skip


def works(name, algorithm):
    """All kernels that are offered for a layer; the arrays of a call, and what it computes."""
    shape, weights, options = LAYERS[name]
    asked = Options(**options, algorithm=algorithm, threads=1)
    layer = Layer.from_options(weights, "float16" if name == "float16" else "float32", asked)
    if not layer.planar:
        shape = (shape[0], *shape[2:], shape[1])
    problem, device = layer.problem(shape), DEVICES["wgsl"]
    ranked = choose(problem, Request.from_options(layer, asked), device, told(device))
    shapes = {"input": shape, "weights": weights, "bias": (weights[0],)}
    given = numbers_of(problem, shapes)
    return (
        [one.work(problem, device, True) for one in ranked],
        given,
        reference(problem, problem.epilogue, given),
    )


FIRST = [("planes", "mcmr"), ("float16", "mcmr"), ("float16", "direct")]
CASES = [
    pytest.param(*case, marks=() if case in FIRST else pytest.mark.thorough)
    for case in product(LAYERS, ("direct", "mcmr"))
]


def near(found, want):
    """Within what float32 leaves of sums of these layers, and what float16 keeps of them."""
    error = 2e-5 if found.dtype == np.float32 else 2**-11 + 2e-5
    assert np.abs(found - want).max() <= error * np.abs(want).max()


@pytest.mark.parametrize(("name", "algorithm"), CASES)
def test_sanitizers_find_nothing(name, algorithm, tmp_path):
    every, given, want = works(name, algorithm)
    for number, work in enumerate(every[:1] if (name, algorithm) in FIRST else every):
        folder = tmp_path / str(number)
        folder.mkdir()
        near(twin.run(render(work, "c"), work, given, folder)["output"], want)


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "algorithm"), CASES)
def test_webgpu_computes_them(name, algorithm):
    if name == "float16" and "shader-f16" not in webgpu.device().features:
        pytest.skip("a device of WebGPU without float16")
    every, given, want = works(name, algorithm)
    for work in every:
        near(webgpu.run(render(work, "wgsl"), work, given)["output"], want)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("algorithm", ["direct", "mcmr"])
def test_float16_arithmetic_is_exact_on_small_integers(algorithm, layout, tmp_path):
    """Weights of -4, 0 and 4 and inputs of -1, 0 and 1: no sum is beyond 2048."""
    layer = Layer.of((4, 3, 3, 3), "float16", padding=1, layout=layout, activation="relu")
    problem = layer.problem((1, 3, 7, 6) if layout == "NCHW" else (1, 7, 6, 3))
    rng = np.random.default_rng(3)
    given = {"input": rng.integers(-1, 2, problem.input_shape),
             "weights": 4 * rng.integers(-1, 2, layer.weight_shape),
             "bias": rng.integers(-9, 10, 4)}  # fmt: skip
    if algorithm == "direct":
        space = DirectSpace(problem, DeviceInfo())
        work = direct_work(problem, space.draw(Random(2)), space.device, bias=True)
    else:
        two = load(2, 3)
        work = mcmr_work(problem, (two, two), Parameters(4, 4, 4, (2, 2)), bias=True)
    work = replace(work, arithmetic="float16")
    found = twin.run(render(work, "c"), work, given, tmp_path)["output"]
    np.testing.assert_array_equal(found, reference(problem, problem.epilogue, given))
