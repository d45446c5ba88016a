"""Kernels as WGSL compute what their records say, by WebGPU."""

from random import Random

import numpy as np
import pytest
from opencl import devices, kernels, test_transposed, webgpu
from opencl.problems import case_of, close

from winogen.codegen.devices.expressions import Id, Number
from winogen.codegen.devices.render import render
from winogen.codegen.devices.statements import DeviceArray, DeviceKernel, DeviceWork, Store
from winogen.conv.request import Request
from winogen.errors import Unsupported
from winogen.opencl.choice import choose, direct_candidate, predicted_error
from winogen.opencl.rates import told
from winogen.opencl.space import DirectSpace
from winogen.opencl.standalone import DEVICES


@pytest.mark.parametrize("name", kernels.EXACT)
def test_kernels_are_exact(name):
    work, given, wants = kernels.EXACT[name]()
    results = webgpu.run(render(work, "wgsl"), work, given)
    for array, want in wants.items():
        np.testing.assert_array_equal(results[array], want)


@pytest.mark.parametrize("name", kernels.HALF)
def test_float16_arithmetic(name):
    if "shader-f16" not in webgpu.device().features:
        pytest.skip("a device without float16 arithmetic: C has it, see test_c.py")
    if (
        name.startswith(("rounded", "function"))
        and webgpu.device().adapter.info["adapter_type"] == "CPU"
    ):
        pytest.skip("a CPU, whose float16 keeps more digits until it is stored: see test_c.py")
    work, given, wants = kernels.HALF[name]()
    kernels.check_half(name, webgpu.run(render(work, "wgsl"), work, given), wants)


@pytest.mark.parametrize("lanes", [1, 4])
def test_functions(lanes):
    work, given, wants = kernels.functions(lanes)
    results = webgpu.run(render(work, "wgsl"), work, given)
    for array, want in wants.items():
        # WebGPU lets exp(x) be wrong by 3 + 2 |x| units in the last place.
        np.testing.assert_allclose(results[array], want, rtol=2e-5)


# WebGPU lets functions be wrong by so much, and filters be rounded more than once.
FREEDOM = 2e-5


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(20 * devices.DRAWS))
@pytest.mark.draws
def test_random_layers(seed):
    """Direct convolution at any point, tiles of all sizes, transposed layers, in float16, too."""
    device, random = DEVICES["wgsl"], Random(seed)
    if seed % 4 == 3:
        layer = test_transposed.drawn(seed)
        problem, arrays, wanted = layer.problem, layer.arrays(seed), layer.wanted
        largest = np.abs(layer.wanted(arrays, None)).max()
        bias = True
    else:
        case = case_of(seed, tiled=seed % 4 < 2)
        problem, arrays, wanted = case.problem, case.arrays(seed), case.wanted
        largest, bias = case.largest(arrays), case.bias
    if problem.layer.dtype == "float16" and "shader-f16" not in webgpu.device().features:
        pytest.skip("a device without float16")
    if seed % 4 < 2:
        every = choose(problem, Request(algorithm="mcmr", threads=1), device, told(device))
        chosen = random.choice(every)
    else:
        chosen = direct_candidate(problem, DirectSpace(problem, device).draw(random), device)
    work = chosen.work(problem, device, bias)
    found = webgpu.run(render(work, "wgsl"), work, arrays)
    error = 8 * predicted_error(problem, chosen) + FREEDOM
    close(found["output"], wanted(arrays), error * max(1, largest))


def test_an_array_that_a_kernel_does_not_read_is_named():
    """Layouts that are made of the text have it then, as the hosts expect."""
    device, seed = DEVICES["wgsl"], 23
    layer = test_transposed.drawn(seed)
    point = DirectSpace(layer.problem, device).draw(Random(seed))
    work = direct_candidate(layer.problem, point, device).work(layer.problem, device, True)
    assert "_ = &" in render(work, "wgsl")


def test_what_it_does_not_have_is_said():
    work, _, _ = kernels.vectors(8)
    with pytest.raises(Unsupported, match="vectors of WGSL: got 8 lanes; allowed: at most 4"):
        render(work, "wgsl")
    y = DeviceArray("y", (1 << 20,), "float32", "output")
    store = Store("y", Id("global", 0), Number(1.0))
    kernel = DeviceKernel("fill", "y = 1.", (), (y,), (1 << 20, 1, 1), (8, 1, 1), (store,))
    with pytest.raises(Unsupported, match="groups of fill along x: got 131072 in WGSL"):
        render(DeviceWork((), (kernel,)), "wgsl")
