"""Layers of few filters, and pictures of few channels, in NHWC: the lanes are full all the same."""

from dataclasses import replace

import numpy as np
import pytest
from conv import exact
from conv.fuzz import case_of
from conv.reference import convolve
from kernels.samples import work_for
from kernels.turns import turns

import winogen
from winogen.conv import Conv2d
from winogen.kernels import named
from winogen.records import TARGETS
from winogen.toolchain import host_target, host_targets

FEW, ROWS = named("few_filters"), named("depthwise_rows")
ISAS = [target.name for target in host_targets()]


def few(filters, channels, groups=1, target="avx512", kernel=(3, 3), **options):
    """The kernel call of a layer, by `direct`."""
    weight, shape = (groups * filters, channels, *kernel), (1, 20, 37)
    return work_for(weight, shape, "direct", TARGETS[target], layout="NHWC", groups=groups,
                    padding=((1, 1), (1, 1)), **options)  # fmt: skip


@pytest.mark.parametrize("filters", (1, 2, 3, 4, 6, 8, 12))
@pytest.mark.parametrize("channels", (32, 48, 64))
def test_three_quarters_of_the_lanes_multiply(filters, channels):
    work = few(filters, channels)
    assert work.variant == "few_filters" and FEW.lanes_used(work) >= 0.75
    assert FEW.lanes_used(work) > filters / 16


def test_where_filters_fill_the_lanes_or_sums_are_short_they_stay_there():
    assert few(16, 64).variant == "direct"
    assert few(12, 8, kernel=(1, 1)).variant == "direct"  # adding lanes would take longer
    assert few(4, 64, target="neon").variant == "direct"
    assert few(3, 64, target="neon").variant == "few_filters"


@pytest.mark.parametrize("isa, filters", turns(ISAS, range(1, 17)))
def test_every_count_of_filters_and_channels(isa, filters, monkeypatch):
    monkeypatch.setenv("WINOGEN_ISA", isa)
    rng = np.random.default_rng(filters)
    for index, channels in enumerate((2, 3, 7, 12, 16, 17, 24, 40)):
        groups = 1 + index % 3 // 2
        x = exact.integers(rng, (1 + index % 2, groups * channels, 6, 40 - 9 * (index % 4)), 3)
        w = exact.integers(rng, (groups * filters, channels, 3, 2), 3)
        exact.check(
            x,
            w,
            exact.integers(rng, (groups * filters,), 9) if index % 2 else None,
            algorithm={"algorithm": "direct", "threads": 1 + index % 3},
            activation=(None, "relu", ("leaky_relu", 0.5))[(index + filters) % 3],
            seams=rng if (index + filters) % 3 else None,
            groups=groups,
            layout="NHWC",
            padding=((1, 0), (1, 2)),
            padding_mode=exact.MODES[(index + filters) % 4],
        )


GEOMETRIES = [
    # height, width, kernel, stride, dilation, padding
    (1, 1, (3, 3), (1, 1), (1, 1), ((1, 1), (1, 1))),
    (1, 1, (1, 1), (1, 1), (1, 1), ((0, 0), (0, 0))),
    (2, 3, (2, 2), (1, 1), (1, 1), ((0, 12), (11, 0))),
    (9, 70, (3, 3), (1, 1), (1, 1), ((12, 0), (0, 9))),
    (9, 70, (5, 1), (2, 3), (1, 2), ((1, 2), (2, 1))),
    (7, 33, (1, 5), (1, 1), (3, 2), ((0, 0), (4, 4))),
    (11, 80, (3, 3), (2, 2), (1, 1), ((1, 1), (1, 1))),
    (8, 21, (1, 1), (7, 9), (1, 1), ((0, 0), (0, 0))),
    (13, 12, (11, 11), (1, 1), (1, 1), ((5, 5), (5, 5))),
]


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize(
    "groups, channels, filters", [(1, 32, 3), (2, 20, 2), (3, 1, 1), (5, 1, 1), (3, 1, 4)]
)
def test_every_geometry(geometry, groups, channels, filters):
    height, width, kernel, stride, dilation, padding = geometry
    rng = np.random.default_rng(height)
    x = exact.integers(rng, (2, groups * channels, height, width), 3)
    w = exact.integers(rng, (groups * filters, channels, *kernel), 3)
    options = dict(padding=padding, stride=stride, dilation=dilation, groups=groups, layout="NHWC")
    for threads in (1, 3):
        exact.check(x, w, algorithm={"algorithm": "direct", "threads": threads}, **options)
    reach = max(map(max, padding))
    for mode in exact.MODES[1:]:
        if reach < min(height, width):
            exact.check(x, w, algorithm={"algorithm": "direct"}, padding_mode=mode, **options)


@pytest.mark.parametrize("isa", ISAS)
def test_every_count_of_channels_and_multiplier(isa, monkeypatch):
    monkeypatch.setenv("WINOGEN_ISA", isa)
    rng = np.random.default_rng(5)
    for groups in range(2, 14):
        multiplier = 1 + groups % 3
        exact.check(
            exact.integers(rng, (2, groups, 7, 41), 3),
            exact.integers(rng, (groups * multiplier, 1, 3, 3), 3),
            exact.integers(rng, (groups * multiplier,), 9) if groups % 2 else None,
            algorithm={"algorithm": "direct", "threads": 1 + groups % 2},
            activation=(None, "relu", ("prelu", 0.5))[groups % 3],
            seams=rng if groups % 4 > 1 else None,
            groups=groups,
            layout="NHWC",
            padding=((1, 1), (2, 0)),
            padding_mode=exact.MODES[groups % 4],
        )


@pytest.mark.parametrize("groups, filters, expected", [
    (3, 1, "depthwise_rows"), (4, 1, "depthwise_rows"), (12, 1, "depthwise_rows"),
    (17, 1, "depthwise_rows"), (3, 4, "depthwise_rows"), (32, 2, "depthwise_rows"),
    (13, 1, "depthwise_strip"), (16, 1, "depthwise_in_place"), (40, 1, "depthwise_strip"),
    (256, 3, "direct"),
])  # fmt: skip
def test_which_depthwise_layers_are_rows_of_numbers(groups, filters, expected):
    assert few(filters, 1, groups).variant == expected


def test_numbers_beside_the_channels_do_not_matter():
    """Lanes that meet no filter see zeros, never what lies beside the slice: 0 * inf is no 0."""
    rng = np.random.default_rng(2)
    for groups, channels, filters in ((1, 21, 3), (1, 5, 1), (3, 1, 1)):
        whole = np.full((1, 5, 40, groups * channels + 9), np.inf, np.float32)
        x = whole[..., 4 : 4 + groups * channels]
        x[...] = rng.integers(-3, 4, x.shape)
        w = rng.integers(-3, 4, (groups * filters, channels, 3, 3)).astype(np.float32)
        y = winogen.conv2d(x, w, groups=groups, layout="NHWC", algorithm="direct")
        assert np.array_equal(y, convolve(x, w, groups=groups, layout="NHWC"))


def test_the_bits_are_the_same_for_any_threads_and_width():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((1, 23, 101, 35), np.float32)
    w = rng.standard_normal((3, 35, 3, 3), np.float32)
    one, three = (
        Conv2d(w, padding=1, layout="NHWC", algorithm="direct", threads=n)(x) for n in (1, 3)
    )
    assert np.array_equal(one, three)
    narrow = winogen.conv2d(x[:, :, 40:60], w, layout="NHWC", algorithm="direct")
    assert np.array_equal(narrow, one[:, 1:-1, 41:59])


def test_sums_of_many_terms_are_cut():
    """Several runs of taps: sums wait in memory in between."""
    rng = np.random.default_rng(4)
    x, w = exact.integers(rng, (1, 1000, 6, 5), 3), exact.integers(rng, (2, 1000, 3, 3), 3)
    work = few(2, 1000)
    assert work.variant == "few_filters" and FEW.depth(work) < 9
    exact.check(x, w, algorithm={"algorithm": "direct"}, layout="NHWC", padding=((1, 1), (1, 1)))


def test_the_fuzzer_reaches_both():
    """Among a few hundred of its problems, without running them."""
    met = set()
    for index in range(400):
        case = case_of(1, index)
        if case.layout != "NHWC" or case.asked["algorithm"] != "direct":
            continue
        filters = case.weight[0] // case.groups
        work = work_for(
            (case.groups * filters, *case.weight[1:]), case.image, "direct", TARGETS["avx512"],
            layout="NHWC", groups=case.groups, padding=case.padding, stride=case.stride,
            dilation=case.dilation, padding_mode=case.padding_mode,
        )  # fmt: skip
        met.add(work.variant)
    assert {"few_filters", "depthwise_rows"} <= met


def test_auto_takes_them():
    w = np.ones((3, 64, 3, 3), np.float32)
    plan = Conv2d(w, padding=1, layout="NHWC", threads=1).plan((1, 180, 320, 64))
    assert plan.variant == "few_filters"
    rgb = Conv2d(np.ones((3, 1, 5, 5), np.float32), groups=3, layout="NHWC")
    assert rgb.plan((1, 480, 640, 3)).variant == "depthwise_rows"


def test_half_empty_vectors_are_for_cores_that_halve_them():
    mcmr, whole = named("mcmr"), few(8, 64)
    halved = replace(whole, target=replace(whole.target, core="zen4"))
    assert mcmr.suits(halved) and not mcmr.suits(whole)
    assert mcmr.suits(replace(whole, filters=12)) and mcmr.suits(replace(whole, layout="NCHW"))


@pytest.mark.skipif(
    "avx512" not in [target.name for target in host_targets()], reason="needs AVX-512"
)
@pytest.mark.parametrize("algorithm", exact.WINOGRAD)
@pytest.mark.parametrize("filters", (8, 37, 44))
def test_halved_vectors_and_two_chains_sum_exactly(monkeypatch, algorithm, filters):
    monkeypatch.setenv("WINOGEN_CPU", "zen4")
    monkeypatch.delenv("WINOGEN_ISA", raising=False)
    assert host_target().core == "zen4"
    rng = np.random.default_rng(filters)
    w = exact.integers(rng, (filters, 37, *exact.KERNEL), 1) * exact.scale(algorithm)
    exact.check(
        exact.integers(rng, (2, 37, 13, 22), 1),
        w,
        algorithm={**exact.chosen(algorithm), "threads": 1},
        padding=((1, 1), (1, 0)),
        layout="NHWC",
    )
