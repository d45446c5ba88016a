"""The choice of kernels that are compiled ahead, and the list of them."""

from dataclasses import replace

import pytest

from winogen.codegen.render import recipe
from winogen.kernels import named
from winogen.kernels.spec import KernelSpec
from winogen.lab.cover import listing
from winogen.lab.cover.greedy import cover
from winogen.lab.cover.problems import Instance, Way, instances
from winogen.records import TARGETS, Precision
from winogen.tuning.layers import BenchLayer

LAYER = BenchLayer.from_dict({"name": "a", "input": [1, 16, 12, 12], "weight": [16, 16, 3, 3]})
AVX2 = TARGETS["avx2"]


def kernel(variant="direct", **sizes):
    precision = Precision.of("float32")
    tuning = named(variant).tuning(AVX2, precision).with_sizes(tuple(sizes.items())).compiled
    return KernelSpec(variant, "NCHW", precision, AVX2, tuning)


A, B, C = (kernel(vectors=number) for number in (2, 1, 3))
PLANES = kernel("planes")


def problem(*ways):
    return Instance("avx2", tuple(Way(*way) for way in ways))


def test_kernels_come_in_the_order_of_the_loss_that_they_avoid():
    found = [problem((1.0, PLANES), (3.0, A)), problem((1.0, PLANES), (3.0, A)),
             problem((4.0, A), (2.0, B))]  # fmt: skip
    steps = cover(found, 0.0)
    assert [step.kernel for step in steps] == [A, PLANES, B]
    assert [step.worst for step in steps] == [3.0, 2.0, 1.0]
    assert steps[0].mean == pytest.approx(18 ** (1 / 3))
    assert [step.kernel for step in cover(found, 0.3)] == [A, PLANES]


def test_what_is_accurate_may_take_longer():
    fast, accurate = (1.0, A), (1.1, PLANES, 1.18)
    assert [step.kernel for step in cover([problem(fast, accurate)], 0.0)] == [PLANES]


def test_a_variant_has_two_register_blocks_at_most():
    found = [problem((1.0, one), (9.0, PLANES)) for one in (A, A, A, B, B, C)]
    steps = cover(found, 0.0)
    assert [step.kernel for step in steps] == [PLANES, A, B]
    assert steps[-1].worst == 9


@pytest.fixture(scope="module")
def found():
    return list(instances([LAYER], (1,)))


def test_every_kernel_of_a_layer_can_be_listed(found):
    kernels = {way.kernel for one in found for way in one.ways}
    assert len(kernels) > 100
    for one in kernels:
        again = listing.from_dict(listing.to_dict(one))
        assert again == one
        assert recipe(again) == recipe(one)  # what wheels have is found by it


def test_targets_and_kinds_are_covered_apart(found):
    groups = {one.group for one in found}
    assert {"avx512", "avx2", "sse2", "avx2 gradients"} <= groups
    assert {"avx512+amx+vnni bytes", "avx2+avxvnni bytes", "sse2 bytes"} <= groups
    for step in cover(found, 0.02):
        assert step.kernel.target.name == step.group.split("+")[0].split()[0]


def test_the_list_has_what_computes_every_layer():
    kernels = listing.read()
    assert len(set(kernels)) == len(kernels)
    assert [listing.from_dict(listing.to_dict(one)) for one in kernels] == kernels
    for name in ("avx512", "avx2", "sse2"):
        for layout in ("NCHW", "NHWC"):
            direct = [
                one
                for one in kernels
                if isinstance(one, KernelSpec)
                and (one.target.name, one.variant, one.layout) == (name, "direct", layout)
            ]
            usual = named("direct").tuning(TARGETS[name], Precision.of("float32")).compiled
            assert usual in [one.tuning for one in direct]


def test_a_core_s_blocks_are_listed_by_its_name():
    zen = replace(TARGETS["avx512"], core="zen4")
    precision = Precision.of("float32")
    tuning = named("mcmr").tuning(zen, precision).compiled
    tiles = listing.from_dict(
        {
            "kind": "convolution",
            "target": "avx512",
            "variant": "mcmr",
            "layout": "NCHW",
            "tiles": ["f4_3_gaussian", "f1_1"],
            "core": "zen4",
        }
    )
    assert tiles.tuning == tuning
    assert listing.to_dict(tiles)["core"] == "zen4"
