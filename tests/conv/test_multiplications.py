"""Multiplications of plans against the formulas of books: tiles, rounded up along each axis."""

from fractions import Fraction
from math import ceil

import numpy as np
import pytest

from winogen.conv import Conv2d
from winogen.conv.choice import Choice, calls, multiplications
from winogen.conv.problem import Layer

# Table 6.2 of Keane's thesis: how many times fewer multiplications F(2x2, 3x3), and F(2, 3)
# along rows, take for a map of H x H. Even sizes have no half tiles. The table prints 2.21498 for
# 127 cut, as 2.214.
GAINS = {
    13: (1.940, 1.393),
    27: (2.092, 1.446),
    127: (2.215, 1.488),
    227: (2.230, 1.493),
    **dict.fromkeys((14, 28, 56, 112, 224), (2.25, 1.5)),
}


@pytest.mark.parametrize("size, gains", GAINS.items())
def test_half_tiles_cost_what_the_table_says(size, gains):
    layer = Layer.of((8, 4, 3, 3), "float32", padding=1)
    problem = layer.problem((1, 4, size, size))
    halves = ceil(size / 2)
    formulas = (9 * size**2 / (16 * halves**2), 9 * size**2 / (12 * size * halves))
    for name, tile, gain, formula in zip(
        ("winograd2d", "winograd1d"), ((2, 2), (1, 2)), gains, formulas
    ):
        found = problem.direct_multiplications / multiplications(problem, Choice(name, tile))
        assert found == pytest.approx(formula, rel=1e-12)
        assert round(found, 3) == gain


# What Table 6.1 of Keane's thesis prints otherwise than n/r for filters and n/m for tiles.
PRINTED = {
    ("tiles", 4, 3): "1 1/3",
    ("filters", 2, 5): "1 1/6",
    ("filters", 3, 5): "1 2/7",
    ("tiles", 3, 5): "2 1/7",
    ("filters", 4, 5): "1 3/8",
}


@pytest.mark.parametrize("what, m, r", PRINTED)
def test_misprints_have_the_remainder_over_n(what, m, r):
    n = m + r - 1
    whole, rest = divmod(n, r if what == "filters" else m)
    assert rest and Fraction(rest, n) == Fraction(PRINTED[what, m, r].split()[1])
    assert str(whole) == PRINTED[what, m, r].split()[0]


def test_2_21498_is_printed_cut():
    gain = 9 * 127**2 / (16 * 64**2)
    assert f"{gain:.5f}" == "2.21498" and f"{gain:.3f}" == "2.215"


@pytest.mark.parametrize("algorithm", ["mcmr", "winograd2d", "winograd1d"])
@pytest.mark.parametrize("edge", ["discard", "direct"])
def test_any_layer_takes_whole_tiles_and_its_rim(algorithm, edge):
    """Of random layers, with strides of 1: the products of all tiles, and 1 for each tap of a point
    of the rim.
    """
    draw = np.random.default_rng(6)
    rims = 0
    for _ in range(300):
        taps, tile = draw.integers(1, 6, 2), draw.integers(1, 8, 2)
        if algorithm == "winograd1d":
            tile[0] = 1
        batch, groups = draw.integers(1, 4, 2)
        filters, channels = groups * draw.integers(1, 9, 2)
        size = draw.integers(taps, 40)
        layer = Layer.of((filters, channels // groups, *taps), "float32", groups=groups)
        problem = layer.problem((batch, channels, *size))
        choice = Choice(algorithm, tuple(map(int, tile)), edge=edge)
        height, width = size - taps + 1
        pairs = batch * filters * channels // groups
        rows = taps[0] if algorithm == "winograd1d" else tile[0] + taps[0] - 1
        products = rows * (tile[1] + taps[1] - 1)
        if edge == "discard":
            expected = ceil(height / tile[0]) * ceil(width / tile[1]) * products
        else:
            whole = (height // tile[0]) * (width // tile[1])
            rim = height * width - whole * tile[0] * tile[1]
            most = height * (tile[1] - 1) + width * (tile[0] - 1) - (tile[0] - 1) * (tile[1] - 1)
            assert rim <= most or height < tile[0] or width < tile[1]
            assert sum(part.size for part, _ in calls(problem, choice)) == height * width
            expected = whole * products + rim * taps[0] * taps[1]
            rims += rim > 0
        assert multiplications(problem, choice) == expected * pairs
    assert edge == "discard" or rims > 100


def test_plans_say_the_same():
    conv = Conv2d(np.ones((8, 4, 3, 3), np.float32), padding=1, algorithm="mcmr", tile=2)
    for height, width in ((13, 13), (14, 27), (1, 2)):
        plan = conv.plan((2, 4, height, width))
        tiles = ceil(height / 2) * ceil(width / 2)
        assert plan.multiplications == 2 * 8 * 4 * 16 * tiles
