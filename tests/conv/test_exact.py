"""Integers as data: every algorithm equals the int64 reference to the bit."""

import itertools
from fractions import Fraction
from math import prod

import numpy as np
import pytest
from conv import exact
from conv.exact import BORDERS, LAYOUTS, MODES, PLAIN, TILE, WINOGRAD
from conv.reference import convolve
from kernels.turns import turns

from winogen.conv import Conv2d, memory
from winogen.kernels import general
from winogen.records import Precision
from winogen.toolchain import host_target, host_targets

# Channels that fill a vector of 16 and leave a rest.
LARGEST_INPUT, CHANNELS, FILTERS = 2, 18, 5
# groups, channels and filters of a group: below, at and above the lanes of a vector and the two
# vectors of a register block; depthwise with and without multiplier.
GROUPINGS = [
    *((1, 1, 1), (1, 2, 33), (1, 16, 16), (1, 17, 31), (1, 70, 40), (1, 8, 65)),
    *((3, 5, 4), (2, 17, 20), (19, 1, 1), (32, 1, 1), (5, 1, 2), (4, 3, 1)),
]
# Height and width that make 1, 13, 14, 15 and 28 tiles of 3 x 4: around the 14 rows of a block.
TILE_COUNTS = [(3, 4), (3, 52), (6, 27), (15, 12), (12, 28)]


def rows_of(matrix):
    return max(sum(abs(x) for x in row) for row in matrix)


@pytest.mark.parametrize("algorithm", WINOGRAD)
@pytest.mark.parametrize(
    "tile, points", [(TILE, exact.POINTS), (exact.HALF_TILE, exact.HALF_POINTS)]
)
def test_the_data_leaves_no_room_for_rounding(algorithm, tile, points):
    """Sums of halves and quarters, all within the significand.

    A constant of a shortened program may be a third: it meets multiples of three, whose third is an
    integer that rounding finds back.
    """
    axes = exact.transforms(algorithm, tile, points)
    grains = [
        max(Fraction(x).denominator for row in matrix for x in row)
        for t in axes
        for matrix in (t.at, t.bt)
    ]
    assert all(grain in (1, 2, 4) for grain in grains)
    taps = exact.KERNEL[0] if algorithm == "winograd1d" else 1
    bound = exact.scale(algorithm, tile, points) * taps
    bound *= prod(rows_of(matrix) for t in axes for matrix in (t.g, t.bt, t.at))
    assert bound * CHANNELS * LARGEST_INPUT < 2**23  # one bit to spare for halves
    assert bound * max(channels for _, channels, _ in GROUPINGS) < 2**24


def sizes():
    """Heights and widths that leave every residue, some smaller than a tile."""
    return itertools.product(range(3, 3 + 2 * TILE[0]), range(3, 3 + 2 * TILE[1] - 1))


def padding(mode):
    """Unequal sides, none without padding, up to what the smallest input allows."""
    return ((2, 1), (1, 2)) if mode == "reflect" else ((1, 3), (2, 1))


def check_all(dtype, layout, edges=("discard",), *, factor, **algorithm):
    """Every size, padding mode and edge; ReLU in one of the modes."""
    rng = np.random.default_rng(0)
    x = exact.integers(rng, (2, CHANNELS, 9, 10), LARGEST_INPUT)
    w = exact.integers(rng, (FILTERS, CHANNELS, *exact.KERNEL), 1) * factor
    bias = exact.integers(rng, FILTERS, 50) * factor
    for mode, edge in itertools.product(MODES, edges):
        options = dict(padding=padding(mode), padding_mode=mode, layout=layout)
        convs = {}
        for height, width in sizes():
            exact.check(
                x[:, :, :height, :width],
                w,
                bias,
                dtype,
                convs=convs,
                relu=mode == "zeros",
                algorithm=dict(algorithm, edge=edge),
                **options,
            )


@pytest.mark.parametrize("algorithm, border, layout", turns(WINOGRAD, BORDERS, LAYOUTS))
def test_winograd_at_every_residue_padding_and_edge(algorithm, border, layout):
    check_all(
        "float32",
        layout,
        ("discard", "direct"),
        factor=exact.scale(algorithm),
        border=border,
        **exact.chosen(algorithm),
    )


@pytest.mark.parametrize("algorithm, layout", turns(WINOGRAD, LAYOUTS))
def test_winograd_in_float64(algorithm, layout):
    half = exact.HALF_TILE, exact.HALF_POINTS
    factor = exact.scale(algorithm, *half)
    check_all("float64", layout, factor=factor, **exact.chosen(algorithm, *half))


@pytest.mark.parametrize("algorithm, dtype, layout", turns(PLAIN, ("float32", "float64"), LAYOUTS))
def test_plain_algorithms_at_every_size_and_padding(algorithm, dtype, layout):
    check_all(dtype, layout, factor=1, algorithm=algorithm)


def check_groupings(
    algorithm, layout, groupings=GROUPINGS, sizes=TILE_COUNTS, stride=exact.ONE, **way
):
    rng = np.random.default_rng(1)
    for groups, channels, filters in groupings:
        shape = (groups * filters, channels, *exact.KERNEL)
        w = exact.integers(rng, shape, 1) * exact.scale(algorithm, stride=stride)
        convs = {}
        for height, width in sizes:
            exact.check(
                exact.integers(rng, (1, groups * channels, height, width), 1),
                w,
                convs=convs,
                algorithm={**exact.chosen(algorithm, stride=stride), **way},
                padding=((1, 1), (0, 1)),
                groups=groups,
                layout=layout,
                stride=stride,
            )


# Both axes, one of them, and beyond the kernel's width: there its columns are apart.
STRIDES = [(2, 2), (2, 1), (1, 2), (2, 3)]


@pytest.mark.parametrize(
    "algorithm, layout, stride, border", turns(WINOGRAD, LAYOUTS, STRIDES, BORDERS)
)
def test_tiles_at_a_stride(algorithm, layout, stride, border):
    """Every variant, for sizes around whole tiles and rows of tiles in the lanes."""
    groupings = [(1, 3, 18), (2, 17, 20), (19, 1, 1)]
    sizes = [(5, 7), (12, 8), (13, 16), (9, 67), (24, 28)]
    check_groupings(algorithm, layout, groupings, sizes, stride, border=border, edge="direct")
    check_groupings(algorithm, layout, groupings, sizes[:1], stride, border=border)


# Both axes, one of them with a stride along the other, more phases than outputs.
DILATIONS = [((2, 2), (1, 1)), ((1, 3), (2, 1)), ((7, 8), (1, 1))]


@pytest.mark.parametrize(
    "algorithm, layout, dilated, border", turns(WINOGRAD, LAYOUTS, DILATIONS, BORDERS)
)
def test_tiles_of_every_phase_of_a_dilated_layer(algorithm, layout, dilated, border):
    """Phases of unequal sizes, every padding mode, and additions on both sides of an activation."""
    dilation, stride = dilated
    rng = np.random.default_rng(6)
    for groups, channels, filters in ((1, 3, 18), (2, 17, 20), (19, 1, 1)):
        shape = (groups * filters, channels, *exact.KERNEL)
        w = exact.integers(rng, shape, 1) * exact.scale(algorithm, stride=stride)
        convs = {mode: {} for mode in MODES}
        for (height, width), mode in itertools.product([(15, 9), (24, 33)], MODES):
            exact.check(
                exact.integers(rng, (2, groups * channels, height, width), 1),
                w,
                convs=convs[mode],
                activation=("leaky_relu", 0.5),
                seams=rng,
                algorithm={**exact.chosen(algorithm, stride=stride), "border": border},
                padding=((dilation[0], dilation[0] + 1), (1, dilation[1])),
                padding_mode=mode,
                groups=groups,
                layout=layout,
                dilation=dilation,
                stride=stride,
            )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("algorithm", PLAIN + WINOGRAD)
def test_every_count_of_channels_filters_groups_and_tiles(algorithm, layout):
    check_groupings(algorithm, layout)


@pytest.mark.parametrize(
    "target, algorithm, layout",
    turns([target.name for target in host_targets()[1:]], PLAIN + WINOGRAD, LAYOUTS),
)
def test_every_instruction_set_of_this_cpu(target, algorithm, layout, monkeypatch):
    monkeypatch.setenv("WINOGEN_ISA", target)
    check_groupings(algorithm, layout, GROUPINGS[3:], TILE_COUNTS[:3])


FEW_CHANNELS = [
    *((1, 3, 5), (2, 2, 3), (1, 8, 2), (1, 1, 40), (1, 3, 64), (1, 4, 16), (3, 1, 9)),
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_few_channels_in_rows_of_many_tiles(layout):
    """Tiles fill the lanes: rows of several vectors of tiles, the last of them partly filled."""
    sizes = [(7, 150), (4, 67), (9, 64), (6, 257)]
    check_groupings("winograd2d", layout, FEW_CHANNELS, sizes)


@pytest.mark.thorough
@pytest.mark.parametrize("target", [target.name for target in host_targets()[1:]])
def test_few_channels_on_every_instruction_set(target, monkeypatch):
    monkeypatch.setenv("WINOGEN_ISA", target)
    check_groupings("winograd2d", "NHWC", FEW_CHANNELS, sizes=[(7, 67)])


def check_large(
    algorithm,
    channels,
    filters,
    width,
    offset,
    *,
    layout="NHWC",
    dtype="float32",
    tile=(TILE, exact.POINTS),
    **groups,
):
    """Outputs past the caches are all written, ``offset`` elements behind a line's start."""
    least = general(algorithm).tuning(host_target(), Precision.of(dtype)).non_temporal
    height = least // (width * filters * np.dtype(dtype).itemsize) + 1
    rng = np.random.default_rng(2)
    shape = (1, height, width, channels) if layout == "NHWC" else (1, channels, height, width)
    x = exact.integers(rng, shape, 1)
    weight = (filters, channels // groups.get("groups", 1), *exact.KERNEL)
    w = exact.integers(rng, weight, 1) * exact.scale(algorithm, *tile)
    options = dict(padding=((1, 1), (0, 1)), layout=layout, **groups)
    wanted = convolve(x, w, **options)
    out = memory.empty((wanted.size + 1,), np.dtype(dtype), "output")
    out = out[offset : wanted.size + offset].reshape(wanted.shape)
    out[...] = np.nan
    Conv2d(w.astype(dtype), **options, **exact.chosen(algorithm, *tile))(x.astype(dtype), out)
    assert out.nbytes >= least and exact.equal(out, wanted)


@pytest.mark.parametrize("dtype", ("float32", "float64"))
@pytest.mark.parametrize("filters, offset", [(64, 0), (64, 1), (36, 0)])
@pytest.mark.parametrize("layout", ("NCHW", "NHWC"))
def test_outputs_too_large_for_a_cache(layout, filters, offset, dtype):
    """Whole lines of them may be written past it, if they begin where lines do."""
    tile = exact.TILE, exact.POINTS
    if dtype == "float64":
        tile = exact.HALF_TILE, exact.HALF_POINTS
    check_large("winograd2d", 3, filters, 208, offset, layout=layout, dtype=dtype, tile=tile)


@pytest.mark.parametrize("filters, offset", [(64, 0), (64, 1), (36, 0)])
@pytest.mark.parametrize("algorithm", (*WINOGRAD, *PLAIN))
def test_large_outputs_of_many_channels(algorithm, filters, offset):
    """In NHWC their lines go past the caches, if they begin where lines do."""
    check_large(algorithm, 10, filters, 101, offset)


@pytest.mark.parametrize("channels", (64, 36))
def test_large_outputs_of_a_depthwise_layer(channels):
    check_large("direct", channels, channels, 201, 0, groups=channels)
