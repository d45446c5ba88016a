"""Kernels as WGSL compute what their records say, by WebGPU."""

import numpy as np
import pytest
from opencl import kernels, webgpu

from winogen.codegen.devices.expressions import Id, Number
from winogen.codegen.devices.render import render
from winogen.codegen.devices.statements import DeviceArray, DeviceKernel, DeviceWork, Store
from winogen.errors import Unsupported


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
    work, given, wants = kernels.HALF[name]()
    kernels.check_half(name, webgpu.run(render(work, "wgsl"), work, given), wants)


@pytest.mark.parametrize("lanes", [1, 4])
def test_functions(lanes):
    work, given, wants = kernels.functions(lanes)
    results = webgpu.run(render(work, "wgsl"), work, given)
    for array, want in wants.items():
        # WebGPU lets exp(x) be wrong by 3 + 2 |x| units in the last place.
        np.testing.assert_allclose(results[array], want, rtol=2e-5)


def test_what_it_does_not_have_is_said():
    work, _, _ = kernels.vectors(8)
    with pytest.raises(Unsupported, match="vectors of WGSL: got 8 lanes; allowed: at most 4"):
        render(work, "wgsl")
    y = DeviceArray("y", (1 << 20,), "float32", "output")
    store = Store("y", Id("global", 0), Number(1.0))
    kernel = DeviceKernel("fill", "y = 1.", (), (y,), (1 << 20, 1, 1), (8, 1, 1), (store,))
    with pytest.raises(Unsupported, match="groups of fill along x: got 131072 in WGSL"):
        render(DeviceWork((), (kernel,)), "wgsl")
