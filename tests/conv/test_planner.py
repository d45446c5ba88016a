"""The planner's arithmetic, without compiling anything."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from winogen.conv import Layer, planner
from winogen.conv.planner import Choice, Request
from winogen.errors import Unsupported

WINOGRAD = ("winograd2d", "winograd1d", "mcmr")


def layer(weight=(64, 64, 3, 3), **options):
    return Layer.of(weight, "float32", **options)


def choose(made, shape, **options):
    return planner.choose(made.problem(shape), planner.request(made, threads=1, **options))


@pytest.mark.parametrize(
    "options, shape",
    [
        (dict(stride=2), (1, 64, 56, 56)),
        (dict(dilation=(1, 2)), (1, 64, 56, 56)),
        (dict(weight=(64, 1, 3, 3), groups=64), (1, 64, 56, 56)),
        (dict(weight=(64, 3, 3, 3)), (1, 3, 224, 224)),
        (dict(weight=(64, 64, 1, 1)), (1, 64, 56, 56)),
        (dict(weight=(64, 64, 11, 11), padding=5), (1, 64, 56, 56)),
    ],
)
def test_auto_falls_back_to_direct(options, shape):
    assert choose(layer(**options), shape).algorithm == "direct"


@pytest.mark.parametrize("size, tile", [(56, (6, 6)), (12, (6, 6)), (10, (5, 5)), (8, (4, 4))])
def test_auto_fits_the_tile_to_the_map(size, tile):
    chosen = choose(layer(padding=1), (1, 64, size, size))
    assert (chosen.algorithm, chosen.tile) == ("mcmr", tile)


def test_auto_transforms_only_the_axes_that_gain():
    chosen = choose(layer((64, 64, 1, 7), padding="same"), (1, 64, 17, 17))
    assert chosen.algorithm == "mcmr" and chosen.tile == (1, 2)


def test_a_tile_or_points_ask_for_winograd():
    assert choose(layer(), (1, 64, 9, 9), tile=4).tile == (4, 4)
    chosen = choose(layer(), (1, 64, 9, 9), points=("0,1,-1,inf", None))
    assert chosen.algorithm == "mcmr" and chosen.tile[0] == 2
    assert chosen.points == (("0", "1", "-1", "inf"), None)


def test_an_int_tile_is_meant_for_the_long_axes():
    assert choose(layer((4, 4, 1, 3)), (1, 4, 9, 9), algorithm="mcmr", tile=4).tile == (1, 4)
    assert choose(layer((4, 4, 3, 1)), (1, 4, 9, 9), algorithm="mcmr", tile=4).tile == (4, 1)
    assert choose(layer(), (1, 64, 9, 9), algorithm="winograd1d", tile=4).tile == (1, 4)
    assert choose(layer(), (1, 64, 9, 9), algorithm="mcmr", tile=(2, 4)).tile == (2, 4)


@pytest.mark.parametrize("algorithm", WINOGRAD)
@pytest.mark.parametrize("kernel", [(1, 1), (1, 7), (7, 1), (2, 2), (4, 6), (11, 11), (3, 18)])
def test_explicit_winograd_finds_a_tile_for_any_kernel(algorithm, kernel):
    made = layer((4, 4, *kernel), padding=9)
    chosen = choose(made, (1, 4, 20, 20), algorithm=algorithm)
    assert chosen.algorithm == algorithm
    for m, r in zip(chosen.tile, (1 if algorithm == "winograd1d" else kernel[0], kernel[1])):
        assert m == 1 if r == 1 else m + r - 1 <= 18


@pytest.mark.parametrize("algorithm", WINOGRAD)
@pytest.mark.parametrize("options", [dict(stride=(1, 2)), dict(dilation=2)])
def test_winograd_says_why_it_does_not_apply(algorithm, options):
    with pytest.raises(Unsupported, match=f'"{algorithm}" with .*neighbours.*"direct"'):
        choose(layer(**options), (1, 64, 20, 20), algorithm=algorithm)
    with pytest.raises(Unsupported):
        choose(layer(**options), (1, 64, 20, 20), tile=2)


@settings(max_examples=200)
@given(
    out=st.tuples(st.integers(1, 30), st.integers(1, 30)),
    tile=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    edge=st.sampled_from(("discard", "direct")),
)
def test_rectangles_cover_every_output_once(out, tile, edge):
    problem = layer((4, 4, 1, 1)).problem((1, 4, *out))
    choice = Choice("mcmr", tile, (None, None), edge, "unswitch", 1)
    seen = np.zeros(out, int)
    first, *rim = planner.rectangles(problem, choice)
    for part in (first, *rim):
        seen[part.row_begin : part.row_end, part.col_begin : part.col_end] += 1
    assert (seen == 1).all()
    if edge == "direct":
        assert (first.row_end % tile[0], first.col_end % tile[1]) == (0, 0)
    else:
        assert not rim


def test_multiplications_count_the_waste():
    problem = layer((8, 2, 3, 5), groups=4).problem((3, 8, 12, 14))  # outputs 10 x 10
    pairs = 3 * 8 * 2

    def count(algorithm, tile, edge="discard"):
        choice = Choice(algorithm, tile, (None, None), edge, "unswitch", 1)
        return planner.multiplications(problem, choice)

    assert count("direct", None) == pairs * 100 * 15
    assert count("mcmr", (4, 4)) == count("winograd2d", (4, 4)) == pairs * 3 * 3 * 6 * 8
    assert count("mcmr", (5, 2)) == pairs * 2 * 5 * 7 * 6
    assert count("winograd1d", (1, 4)) == pairs * 10 * 3 * 3 * 8
    assert count("mcmr", (4, 4), "direct") == pairs * (2 * 2 * 6 * 8 + 36 * 15)
    assert count("winograd1d", (1, 4), "direct") == pairs * (10 * 2 * 3 * 8 + 20 * 15)
    assert count("mcmr", (16, 16), "direct") == pairs * 100 * 15


@pytest.mark.parametrize("algorithm", ("direct", "im2col", *WINOGRAD))
@pytest.mark.parametrize("threads", (1, 2, 64))
@pytest.mark.parametrize("made", (layer(padding=1), layer((2048, 2048, 3, 3), padding=1)))
def test_blocks_fit_the_problem_and_the_cache(algorithm, threads, made):
    for size, batch in itertools.product(((1, 1), (7, 7), (56, 56), (3, 1000)), (0, 1, 3)):
        problem = made.problem((batch, made.channels, *size))
        request = Request(algorithm, threads=threads)
        if algorithm == "winograd1d":
            request = planner.request(made, algorithm=algorithm, threads=threads)
        chosen = planner.choose(problem, request)
        part = planner.rectangles(problem, chosen)[0]
        rows, cols, split = planner.blocking(problem, chosen, part)
        m_h, m_w = chosen.tile or (1, 1)
        assert 1 <= rows <= -(-size[0] // m_h) and 1 <= cols <= -(-size[1] // m_w)
        assert split in (0, 1) and (threads > 1 or not split)
        if (rows, cols) != (1, 1):
            size = planner._footprint(made, chosen, rows, cols) * 4
            most = planner._FLAT_BYTES if rows * cols <= planner._FLAT else planner._BLOCK_BYTES
            assert size <= most
