"""The least that direct convolution demands is no more than its kernels do, and near it."""

from dataclasses import replace
from random import Random

import pytest
from opencl.problems import case_of

from winogen.conv.problem import Layer
from winogen.conv.request import Request
from winogen.opencl import choice
from winogen.opencl.bounds import by_least_seconds, least
from winogen.opencl.counting import demands, seconds
from winogen.opencl.devices import DeviceInfo
from winogen.opencl.direct import direct_work
from winogen.opencl.rates import told
from winogen.opencl.space import DirectSpace
from winogen.opencl.usual import usual

BOUNDED = ("pad_input", "sum_windows", "add_chunks")
DEVICE = DeviceInfo()
CPU = DeviceInfo(kind="cpu", vector=8, cache_bytes=0)


def planned(weight, size, **options):
    layer = Layer.of(weight, "float32", **options)
    channels = layer.channels
    image = (*size, channels) if layer.layout == "NHWC" else (channels, *size)
    return layer.problem((1, *image))


@pytest.mark.parametrize("seed", range(12))
def test_no_kernel_demands_less(seed):
    random = Random(seed)
    problem = case_of(seed).problem
    device = replace(DEVICE, vector=random.choice((1, 4, 16)), cache_bytes=random.choice((0, 4096)))
    space, rates = DirectSpace(problem, device), told(device)
    for point in [*usual(space, 6), *(space.draw(random) for _ in range(6))]:
        work = direct_work(problem, point, device)
        needed = demands(work, device)
        bounded = [one for one, k in zip(needed, work.kernels) if k.name in BOUNDED]
        for low, real in zip(least(space, point), bounded, strict=True):
            assert low.operations <= real.operations and low.bytes <= real.bytes
            assert low.groups <= real.groups and low.items == real.items
        ((low, _),) = by_least_seconds(space, [point], rates)
        assert low <= seconds(work, device, rates)
        assert space.workspace_of(point) == work.workspace_bytes


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_it_is_what_is_demanded_where_all_pixels_exist(layout):
    problem = planned((8, 4, 3, 3), (10, 10), layout=layout)
    space = DirectSpace(problem, DEVICE, extra_height=(0,), extra_width=(0,), pad=(0,))
    for point in [space.draw(Random(seed)) for seed in range(20)]:
        assert least(space, point) == demands(direct_work(problem, point, DEVICE), DEVICE)


LAYERS = {
    "padded": planned((16, 8, 3, 3), (28, 28), padding=1),
    "NHWC": planned((16, 8, 3, 3), (28, 28), padding=1, layout="NHWC"),
    "strided": planned((16, 3, 7, 7), (32, 32), padding=3, stride=2),
    "of one tap": planned((16, 8, 1, 1), (14, 14)),
    "depthwise": planned((8, 1, 3, 3), (14, 14), padding=1, groups=8),
}


@pytest.mark.parametrize("limit", [None, 0, 1 << 16])
@pytest.mark.parametrize("device", [DEVICE, CPU])
@pytest.mark.parametrize("name", LAYERS)
def test_few_kernels_are_made_to_find_the_fastest(name, device, limit, monkeypatch):
    problem, rates, made = LAYERS[name], told(device), []

    def counted(problem, point, device, **options):
        made.append(point)
        return direct_work(problem, point, device, **options)

    points = usual(DirectSpace(problem, device), 16)
    every = [choice.direct_candidate(problem, point, device, rates) for point in points]
    within = [one for one in every if limit is None or one.workspace_bytes <= limit]
    monkeypatch.setattr(choice, "direct_work", counted)
    asked = Request(algorithm="direct", threads=1, workspace_limit=limit)
    found = choice.direct(problem, asked, device, rates)
    assert min(one.seconds for one in found) == min(one.seconds for one in within)
    assert len(made) <= len(within) / 2
