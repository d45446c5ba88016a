"""Geometry where nobody looks: one-pixel maps, lop-sided padding, strides beyond everything."""

import itertools

import numpy as np
import pytest
from conv import exact
from kernels.turns import turns

from winogen import Conv2d, conv2d
from winogen.conv import Layer
from winogen.errors import InvalidValue

# Strides of 1x1 kernels where the output happens to be as large as the input.
POINTWISE = [
    (size, stride, padding)
    for size in ((1, 16), (1, 17), (4, 16), (16, 1), (1, 1))
    for stride in ((1, 1), (1, 2), (2, 1), (2, 2), (3, 5))
    for padding in (
        ((0, 0), (0, 0)),
        ((0, 0), (0, (stride[1] - 1) * (size[1] - 1))),
        ((0, (stride[0] - 1) * (size[0] - 1)), (0, 0)),
        ((0, 0), ((stride[1] - 1) * (size[1] - 1), 0)),
        ((2, 0), (0, 3)),
    )
]


def test_strides_of_pixels_as_padding_makes_them_up():
    image = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 1, 16)
    y = conv2d(image, np.ones((16, 1, 1, 1), np.float32), stride=2, padding=((0, 0), (0, 15)))
    assert y.shape == (1, 16, 1, 16)
    assert (y == [*range(1, 17, 2), *[0] * 8]).all()


@pytest.mark.parametrize("filters, layout", turns((3, 9, 33), exact.LAYOUTS))
def test_1x1_kernels_at_every_stride_padding_side_and_height(layout, filters):
    rng = np.random.default_rng(0)
    for (size, stride, padding), algorithm in itertools.product(POINTWISE, exact.PLAIN):
        exact.check(
            exact.integers(rng, (1, 5, *size), 9),
            exact.integers(rng, (filters, 5, 1, 1), 9),
            algorithm=dict(algorithm=algorithm),
            stride=stride,
            padding=padding,
            layout=layout,
        )


@pytest.mark.parametrize("layout", exact.LAYOUTS)
def test_a_stride_beyond_everything_costs_nothing(layout):
    conv = Conv2d(np.full((1, 1, 1, 1), 3, np.float32), stride=2**31 - 1, layout=layout)
    assert conv(np.full((1, 1, 1, 1), 2, np.float32)).ravel().tolist() == [6]
    assert conv.plan((1, 1, 1, 1)).workspace_bytes < 1 << 16
    wide = Conv2d(np.ones((1, 1, 1, 3), np.float32), stride=(2**31 - 1, 2), layout=layout)
    shape = (1, 1, 5, 1) if layout == "NHWC" else (1, 1, 1, 5)
    assert wide(np.arange(5, dtype=np.float32).reshape(shape)).ravel().tolist() == [3, 9]


@pytest.mark.parametrize(
    "options",
    [
        dict(stride=2**31 - 1, padding=2**31 - 1),
        dict(weight=(1, 1, 3, 3), padding=2**31 - 1, dilation=2**30, stride=2**28),
    ],
)
def test_padding_beyond_any_memory_is_refused_before_anything_overflows(options):
    layer = Layer.of(options.pop("weight", (1, 1, 1, 1)), "float32", **options)
    with pytest.raises(InvalidValue, match="padding: got .*allowed: at most"):
        layer.problem((1, 1, 1, 1))


@pytest.mark.parametrize("taps", (19, 25))
def test_winograd1d_takes_kernels_of_any_height(taps):
    rng = np.random.default_rng(0)
    weight = exact.integers(rng, (4, 3, taps, 2), 1) * exact.scale("winograd1d")
    x = exact.integers(rng, (1, 3, taps + 4, 9), 1)
    exact.check(x, weight, algorithm=exact.chosen("winograd1d"))
    plan = Conv2d(weight.astype(np.float32), algorithm="winograd1d").plan(x.shape)
    assert plan.algorithm == "winograd1d" and plan.tile[0] == 1


@pytest.mark.parametrize("algorithm", exact.WINOGRAD)
@pytest.mark.parametrize("size", ((3, 3), (2, 4), (30, 3)))
def test_a_plan_without_a_single_whole_tile(algorithm, size):
    rng = np.random.default_rng(0)
    weight = exact.integers(rng, (6, 5, *exact.KERNEL), 1).astype(np.float32)
    conv = Conv2d(weight, algorithm=algorithm, edge="direct", padding=1, tile=6)
    plan = conv.plan((1, 5, *size))
    assert plan.algorithm == algorithm and plan.variant in ("direct", "pixels")
    assert algorithm in str(plan)
    x = exact.integers(rng, (1, 5, *size), 3).astype(np.float32)
    assert np.array_equal(conv(x), conv2d(x, weight, padding=1, algorithm="direct"))


@pytest.mark.parametrize("shape", ((-8, 3, 3, 3), (8, 3, -3, 3), (8, 0, 3, 3)))
def test_sizes_of_weights_are_positive(shape):
    with pytest.raises(InvalidValue, match="weight: got shape .*; allowed: axes of at least 1"):
        Layer.of(shape, "float32")
