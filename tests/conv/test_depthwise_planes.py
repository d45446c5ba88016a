"""Depthwise layers in NCHW: rows of planes of any length, whatever surrounds them."""

import numpy as np
import pytest
from conv import exact
from kernels.samples import work_for
from kernels.turns import turns

import winogen
from winogen.kernels import named
from winogen.records import TARGETS
from winogen.toolchain import host_targets

ISAS = [target.name for target in host_targets()]
# Height and width of a kernel, stride, dilation.
LAYERS = [
    ((3, 3), 1, (1, 1)),
    ((3, 3), 2, (1, 1)),
    ((5, 5), 1, (2, 1)),
    ((5, 4), 2, (1, 1)),
    ((7, 7), 1, (1, 3)),
    ((7, 2), 2, (1, 1)),
    ((3, 11), 1, (3, 2)),
    ((3, 3), 1, (12, 12)),
    ((2, 4), 1, (2, 1)),
    ((1, 5), 2, (1, 1)),
    ((31, 5), 2, (1, 1)),
    ((1, 1), 1, (1, 1)),
    ((1, 1), 2, (1, 1)),
]
# Fewer columns than the least vector has lanes, than others have, and more than two vectors.
SIZES = [(3, 2), (7, 7), (14, 13), (9, 16), (17, 35), (6, 70), (70, 40)]


@pytest.mark.thorough
@pytest.mark.parametrize("isa, layer", turns(ISAS, range(len(LAYERS))))
def test_planes_of_every_size(isa, layer, monkeypatch):
    monkeypatch.setenv("WINOGEN_ISA", isa)
    (high, wide), stride, dilation = LAYERS[layer]
    rng = np.random.default_rng(layer)
    for index, size in enumerate(SIZES):
        groups = (1, 6, 13)[index % 3]
        mode = exact.MODES[index % 4] if min(size) > 6 and max(dilation) < 4 else "zeros"
        ends = ((high - 1) * dilation[0], (wide - 1) * dilation[1])
        padding = [
            (rest // 2, rest - rest // 2) if mode == "zeros" else (min(2, rest), min(3, rest))
            for rest in ends
        ]
        if any(n + sum(at) <= rest for n, at, rest in zip(size, padding, ends)):
            continue
        dtype = ("float32", "float64", "float16")[(index + layer) % 3]
        exact.check(
            exact.integers(rng, (2, groups, *size), 2),
            exact.integers(rng, (groups, 1, high, wide), 2),
            exact.integers(rng, groups, 9) if index % 2 else None,
            dtype=dtype,
            algorithm={"algorithm": "direct", "threads": 1 + index % 2},
            activation=(None, "relu", ("leaky_relu", 0.5))[(index + layer) % 3],
            seams=rng if index % 2 else None,
            groups=groups,
            stride=(stride, stride),
            dilation=dilation,
            padding=tuple(padding),
            padding_mode=mode,
        )


def test_which_layers_are_planes():
    def variant(kernel, **options):
        return work_for((8, 1, *kernel), (1, 60, 60), "direct", TARGETS["avx512"], groups=8,
                        **options).variant  # fmt: skip

    assert variant((7, 9), dilation=(3, 5)) == variant((3, 3), stride=(2, 2)) == "depthwise_planes"
    assert variant((31, 2), dilation=(1, 5)) == variant((4, 4), stride=(2, 2)) == "depthwise_planes"
    assert variant((1, 4)) == variant((1, 1), stride=(2, 2)) == "depthwise_planes"
    assert variant((32, 3)) == variant((3, 3), stride=(1, 2)) == "pixels"
    row = work_for((8, 1, 1, 5), (1, 1, 60), "direct", TARGETS["avx512"], groups=8)
    assert row.variant == "pixels"
    assert variant((3, 3), stride=(2, 2), dilation=(2, 2)) == "pixels"
    # Planes that are soon done share a part of the work.
    small = work_for((96, 1, 3, 3), (1, 9, 9), "direct", TARGETS["avx512"], groups=96)
    assert small.variant == "depthwise_planes" and small.groups < 96


def test_outputs_of_stride_2_are_picked_late_where_that_takes_less():
    def is_late(target, width, stride=2):
        work = work_for((8, 1, 3, 3), (1, 60, width), "direct", TARGETS[target], groups=8,
                        stride=(stride, stride))  # fmt: skip
        return named(work.variant).picks_late(work)

    # Few columns fill one vector instead of two; AVX2 takes long to part even and odd columns.
    assert is_late("avx512", 17) and not is_late("avx512", 19) and not is_late("sse2", 19)
    assert is_late("avx2", 60) and not is_late("avx2", 60, stride=1)


@pytest.mark.parametrize("shape", [(2, 11, 40, 1), (9, 13, 1), (2, 50, 1), (1, 5, 6, 7, 1)])
def test_one_channel_is_first_and_last(shape):
    """Its numbers lie the same way, so planes compute it in either layout."""
    rank = len(shape) - 2 if len(shape) > 3 or shape[0] == 2 else len(shape) - 1
    call = (winogen.conv1d, winogen.conv2d, winogen.conv3d)[rank - 1]
    last, first = (("NWC", "NCW"), ("NHWC", "NCHW"), ("NDHWC", "NCDHW"))[rank - 1]
    rng = np.random.default_rng(0)
    x, w = exact.integers(rng, shape, 2), exact.integers(rng, (1, 1) + (3,) * rank, 2)
    x, w = x.astype(np.float32), w.astype(np.float32)
    options = {"padding": 1, "add": np.ones_like(x), "activation": "relu"}
    y = call(x, w, layout=last, out=np.full_like(x, np.nan), **options)
    options["add"] = np.moveaxis(options["add"], -1, -1 - rank)
    expected = call(np.moveaxis(x, -1, -1 - rank), w, layout=first, algorithm="direct", **options)
    assert np.array_equal(np.moveaxis(y, -1, -1 - rank), expected)


def test_a_picture_is_computed_by_planes_in_either_layout():
    weight = np.ones((1, 1, 5, 5), np.float32)
    conv = winogen.Conv2d(weight, layout="NHWC", padding=2)
    plan = conv.plan((1, 60, 90, 1))
    assert (plan.variant, plan.layout) == ("depthwise_planes", "NHWC")
    assert plan.output_shape == (1, 60, 90, 1)
    asked = winogen.Conv2d(weight, layout="NHWC", padding=2, algorithm="mcmr", tile=(2, 3))
    assert asked.plan((1, 60, 90, 1)).tile == (2, 3)


def test_one_tap_meets_rows_and_not_a_single_one():
    """All pixels are one row for sums over channels; a row alone has nothing to share."""
    rng = np.random.default_rng(4)
    for size in ((60, 61), (3, 5), (1, 40)):
        x, w = (
            exact.integers(rng, shape, 3).astype(np.float32)
            for shape in ((2, 8, *size), (8, 1, 1, 1))
        )
        conv = winogen.Conv2d(w, groups=8)
        assert np.array_equal(conv(x), x * w[:, 0])
        expected = "depthwise_planes" if size[0] > 1 else "pixels"
        assert conv.plan(x.shape).variant == expected
