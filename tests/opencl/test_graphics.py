"""What runs untuned on a graphics processor that is not here, by what its driver would tell."""

from dataclasses import replace
from math import prod

import pytest

from winogen.conv.problem import Layer
from winogen.conv.request import Request
from winogen.opencl.choice import choose
from winogen.opencl.counting import DeviceRates, KernelDemand
from winogen.opencl.devices import DeviceInfo
from winogen.opencl.rates import told

# Many wide compute units, whose items compute single numbers.
WIDE = DeviceInfo("wide", compute_units=132, megahertz=1980, group=1024, items=(1024, 1024, 64),
                  local_bytes=49152, largest_buffer=1 << 33, memory_bytes=1 << 36,
                  vector=1)  # fmt: skip
RATES = DeviceRates(3e13, 3.5e12, 5e-6, WIDE.wave)
NO_CLOCK = replace(WIDE, megahertz=0)


def problem(channels, size, layout="NHWC"):
    layer = Layer.of((channels, channels, 3, 3), "float32", padding=1, layout=layout)
    shape = (1, size, size, channels) if layout == "NHWC" else (1, channels, size, size)
    return layer.problem(shape)


def chosen(case, device, **asked):
    return choose(case, Request(threads=1, **asked), device, RATES)[0]


def items(case, device):
    """Work-items of all kernels of what runs."""
    work = chosen(case, device).work(case, device)
    return sum(prod(kernel.items) for kernel in work.kernels)


def test_compute_units_run_waves():
    cpu = DeviceInfo(kind="cpu", compute_units=4, megahertz=2000, vector=16)
    assert told(cpu).operations == 4 * 2e9 * 16
    assert told(WIDE).operations == 132 * 1.98e9 * 32
    assert (told(cpu).wave, told(WIDE).wave) == (1, 32)


def test_an_item_does_one_thing_at_a_time():
    few, many = (KernelDemand(1e9, 0, 0, 132, count) for count in (32, 256))
    assert few.seconds(WIDE, RATES) == pytest.approx(5e-6 + 1e9 / (132 * 32) / 1.98e9)
    assert many.seconds(WIDE, RATES) == pytest.approx(5e-6 + 1e9 / 3e13)
    assert few.seconds(NO_CLOCK, RATES) == many.seconds(NO_CLOCK, RATES)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_small_layers_have_many_small_items(layout):
    """So many that they fill the lanes that the rates tell of, or nearly."""
    case = problem(128, 28, layout)
    lanes = RATES.operations / 1.98e9
    assert items(case, NO_CLOCK) < lanes / 4 < 3 * lanes / 4 < items(case, WIDE)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_factors_come_from_local_memory_where_that_is_near(layout):
    case = problem(128, 56, layout)
    near = chosen(case, WIDE, algorithm="mcmr")
    assert near.parameters.staged == 16
    kernels = {one.name: one for one in near.work(case, WIDE).kernels}
    assert "local" in str(kernels["multiply"].body)
    far = chosen(case, replace(WIDE, local_is_near=False), algorithm="mcmr")
    assert far.parameters.staged == 0


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_groups_are_whole_waves(layout):
    case = problem(256, 14, layout)
    for one in choose(case, Request(threads=1), WIDE, RATES)[:3]:
        work = one.work(case, WIDE)
        assert all(prod(kernel.group) % WIDE.wave == 0 for kernel in work.kernels)
