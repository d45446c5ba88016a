"""Kernels as OpenCL C compute what their records say, on a device."""

import numpy as np
import pytest
from opencl import devices, kernels

from winogen.codegen.devices.render import render


@pytest.mark.parametrize("name", [*kernels.EXACT, *kernels.WIDE])
def test_kernels_are_exact(name):
    work, given, wants = {**kernels.EXACT, **kernels.WIDE}[name]()
    results = devices.run(render(work, "opencl"), work, given)
    for array, want in wants.items():
        np.testing.assert_array_equal(results[array], want)


@pytest.mark.parametrize("name", kernels.HALF)
def test_float16_arithmetic(name):
    if "cl_khr_fp16" not in devices.context().devices[0].extensions:
        pytest.skip("a device without float16 arithmetic: C has it, see test_c.py")
    work, given, wants = kernels.HALF[name]()
    kernels.check_half(name, devices.run(render(work, "opencl"), work, given), wants)


@pytest.mark.parametrize("lanes", [1, 4])
def test_functions(lanes):
    work, given, wants = kernels.functions(lanes)
    results = devices.run(render(work, "opencl"), work, given)
    for array, want in wants.items():
        np.testing.assert_allclose(results[array], want, rtol=1e-6)
