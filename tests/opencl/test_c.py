"""Kernels as C compute what their records say, and no sanitizer finds anything."""

import numpy as np
import pytest
from opencl import kernels, twin

from winogen.codegen.devices.expressions import Id, Load, Number
from winogen.codegen.devices.render import render
from winogen.codegen.devices.statements import (
    Barrier,
    DeviceArray,
    DeviceKernel,
    DeviceWork,
    ForLoop,
    If,
    Store,
)
from winogen.errors import InvalidValue


@pytest.mark.parametrize("name", [*kernels.EXACT, *kernels.WIDE])
def test_kernels_are_exact(name, tmp_path):
    work, given, wants = {**kernels.EXACT, **kernels.WIDE}[name]()
    results = twin.run(render(work, "c"), work, given, tmp_path)
    for array, want in wants.items():
        np.testing.assert_array_equal(results[array], want)


@pytest.mark.parametrize("lanes", [1, 4])
def test_functions(lanes, tmp_path):
    work, given, wants = kernels.functions(lanes)
    results = twin.run(render(work, "c"), work, given, tmp_path)
    for array, want in wants.items():
        np.testing.assert_allclose(results[array], want, rtol=1e-6)


@pytest.mark.parametrize("name", kernels.HALF)
def test_float16_arithmetic(name, tmp_path):
    work, given, wants = kernels.HALF[name]()
    kernels.check_half(name, twin.run(render(work, "c"), work, given, tmp_path), wants)


def shift(size, aligned, lanes):
    """A kernel that reads from one on, of as many numbers as it writes."""
    x, y = (
        DeviceArray("x", (size,), "float32", "input"),
        DeviceArray("y", (size,), "float32", "output"),
    )
    i = Id("global", 0) * lanes
    store = Store("y", i, Load("x", i + 1, lanes, aligned=aligned))
    return DeviceWork((), (kernels.kernel("shift", (x,), (y,), size // lanes, 4, store),))


@pytest.mark.parametrize(("aligned", "words"), [(False, "AddressSanitizer"), (True, "misaligned")])
def test_sanitizers_see_what_is_wrong(aligned, words, tmp_path):
    work = shift(32, aligned, 4)
    with pytest.raises(AssertionError, match=words):
        twin.run(render(work, "c"), work, {}, tmp_path)


@pytest.mark.parametrize("around", ["loop", "if"])
def test_barriers_that_some_items_miss_are_refused(around):
    y = DeviceArray("y", (8,), "float32", "output")
    i = Id("local", 0)
    body = (Barrier(), Store("y", i, Number(1.0)))
    one = If(i < 4, body) if around == "if" else ForLoop("j", Number(0), i, Number(1), body)
    kernel = DeviceKernel("wait", "Waits.", (), (y,), (8, 1, 1), (8, 1, 1), (one,))
    with pytest.raises(InvalidValue, match=f"barrier of wait: got one in a {around} that differs"):
        render(DeviceWork((), (kernel,)), "c")
