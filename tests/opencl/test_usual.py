"""Points that are tried first follow from any device: registers, vectors, tiles without a rest."""

from dataclasses import replace
from itertools import pairwise, product
from math import prod
from random import Random

import pytest
from opencl.problems import case_of

from winogen.conv.problem import Layer
from winogen.conv.request import Request
from winogen.opencl import choice, rates
from winogen.opencl.constraints import MOST_PRIVATE
from winogen.opencl.devices import DeviceInfo
from winogen.opencl.direct import direct_work
from winogen.opencl.rates import DeviceRates, told
from winogen.opencl.space import DirectSpace
from winogen.opencl.usual import blocks, usual
from winogen.tuning.layers import load_layers

AVX512 = DeviceInfo(kind="cpu", group=4096, items=(4096, 4096, 4096), largest_buffer=1 << 33,
                    memory_bytes=1 << 34, local_is_near=False, vector=16)  # fmt: skip
AVX2 = replace(AVX512, vector=8)
GRAPHICS = DeviceInfo(vector=1, group=1024, items=(1024, 1024, 64), largest_buffer=1 << 33,
                      memory_bytes=1 << 34)  # fmt: skip
VGG = load_layers("vgg16")


def device_of(seed):
    random = Random(seed)
    group = random.choice((1, 3, 16, 64, 256, 1024))
    return DeviceInfo(
        kind=random.choice(("cpu", "gpu", "accelerator")),
        vector=random.choice((1, 2, 4, 8, 16)),
        lanes=random.choice((4, 16)),
        group=group,
        items=tuple(random.choice((1, group)) for _ in range(3)),
        largest_buffer=1 << random.choice((16, 24)),
        memory_bytes=1 << 26,
    )


@pytest.mark.parametrize("seed", range(40))
def test_points_are_valid_on_any_device(seed):
    problem, device = case_of(seed).problem, device_of(seed)
    space = DirectSpace(problem, device)
    found = usual(space, 16)
    assert len({*found}) == len(found) <= 16
    for point in found:
        assert space.valid(point)
        work = direct_work(problem, point, device)
        assert work.workspace_bytes == space.workspace_of(point)
        assert all(prod(kernel.group) <= device.group for kernel in work.kernels)


@pytest.mark.parametrize("kind", ["cpu", "gpu", "accelerator"])
@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16])
def test_blocks_fill_registers_with_the_fewest_reads(kind, lanes):
    device = DeviceInfo(kind=kind, vector=lanes)
    for filters, vector in product((1, 3, 10, 64), (1, 4, 8, 16)):
        found = blocks(device, filters, vector)
        assert found[-1] == (1, 1) and len({*found}) == len(found)
        for (k, s), (fewer_k, fewer_s) in pairwise(found):
            assert k * s >= 2 * fewer_k * fewer_s
        reads = {
            (k, s): (k + s) / (k * s)
            for k, s in product(range(1, 17), (1, 2, 4, 8))
            if filters % k == 0
            and k * s * vector <= MOST_PRIVATE
            and k * s + k + s <= device.registers
        }
        assert {*found} <= {*reads} and reads[found[0]] == min(reads.values())


def test_blocks_are_those_of_registers_that_are_known():
    assert blocks(AVX512, 64, 8)[0] == (4, 4) and blocks(AVX512, 64, 16)[0] == (4, 2)
    assert blocks(AVX2, 64, 8)[0] == (4, 2)
    assert blocks(GRAPHICS, 64, 1)[0] == (8, 4)


@pytest.mark.parametrize("device", [AVX512, AVX2, GRAPHICS])
@pytest.mark.parametrize("layer", VGG, ids=range(1, 10))
def test_tiles_leave_nothing_over(layer, device):
    """... and of the waves of a graphics processor less than a quarter idle."""
    problem = layer.problem("NHWC")
    space = DirectSpace(problem, device)
    for point in usual(space, 16):
        facts, wave = space.facts_of(point), device.wave
        computed = facts["tiles"] * facts["tile_windows"] / prod(problem.output_size)
        assert computed == 1 or device is GRAPHICS
        lanes = -(-point.local_windows // wave) * wave
        assert computed * lanes / point.local_windows <= 4 / 3


def test_vectors_of_half_the_lanes_come_among_the_first():
    space = DirectSpace(VGG[6].problem("NHWC"), AVX512)
    first = [(one.vector, one.filters, one.windows) for one in usual(space, 16)[:2]]
    assert first == [(16, 4, 2), (8, 4, 4)]


@pytest.mark.parametrize("weight, layout", [((8, 16, 3, 3), "NCHW"), ((8, 3, 3, 3), "NHWC")])
def test_copies_have_vectors_where_the_input_has_none(weight, layout):
    layer = Layer.of(weight, "float32", padding=1, layout=layout)
    space = DirectSpace(layer.problem((1, weight[1], 12, 12) if layer.planar
                                      else (1, 12, 12, weight[1])), AVX512)  # fmt: skip
    found = usual(space, 16)
    assert all(one.vector == 1 for one in found if not one.pad)
    assert any(one.vector >= 4 and one.pad for one in found)
    assert any(space.workspace_of(one) == 0 for one in found)


def cuts_of(device, channels):
    layer = Layer.of((64, channels, 3, 3), "float32", padding=1, layout="NHWC")
    problem = layer.problem((1, 28, 28, channels))
    asked = replace(Request(algorithm="mcmr", threads=1), tile=(4, 4))
    found = choice.tiled(problem, asked, device, told(device))
    return [one.parameters for one in found if not one.parameters.fused]


def test_products_of_a_cpu_keep_their_sums_in_registers():
    """Of chains of additions there are two sums each, so that half as many fit."""

    def most(device, channels):
        return max(one.filters * one.tiles // one.vector for one in cuts_of(device, channels))

    assert (most(AVX512, 64), most(AVX512, 128)) == (16, 8)
    assert (most(AVX2, 64), most(AVX2, 128)) == (8, 8)
    assert most(replace(AVX512, kind="gpu"), 128) == 16


def test_a_cpu_has_no_waves(monkeypatch, tmp_path):
    """... whatever multiple of work-items its driver prefers."""
    monkeypatch.setattr(rates, "_path", lambda device: tmp_path / "rates.json")
    monkeypatch.setattr(rates, "_found", {})
    monkeypatch.setattr(rates, "measured", lambda *_: DeviceRates(1e9, 1e9, 1e-5, 8))
    graphics = replace(GRAPHICS, name="graphics")
    assert rates._known(None, AVX512).wave == 1 and rates._known(None, graphics).wave == 8
