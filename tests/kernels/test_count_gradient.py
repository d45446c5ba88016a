"""What the gradient of weights counts is what its problem needs."""

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winogen.conv import gradient_planner
from winogen.conv.problem import Layer
from winogen.records import TARGETS, Machine

TILES = ((1, 1), (2, 2), (4, 4), (6, 6))


def work_of(channels, filters, size, groups=1, batch=1, tile=(1, 1), target="avx512", **options):
    weight = (groups * filters, channels, 3, 3)
    layer = Layer.of(weight, "float32", groups=groups, padding=1, **options)
    image = (groups * channels, *size)
    if layer.layout == "NHWC":
        image = (*size, groups * channels)
    problem = layer.problem((batch, *image))
    return gradient_planner.choose(problem, tile, 1, None, TARGETS[target], Machine())


problems = st.builds(
    work_of,
    channels=st.integers(1, 70),
    filters=st.integers(1, 70),
    size=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    groups=st.integers(1, 3),
    batch=st.integers(1, 3),
    tile=st.sampled_from(TILES),
    target=st.sampled_from(["avx512", "avx2", "sse2", "neon", "generic"]),
)


@given(problems)
def test_counts_are_those_of_the_problem(work):
    transforms, products, finish = work.count()
    tiles = work.batch * prod(-(-out // m) for out, m in zip(work.output_size, work.tile))
    positions = prod(m + 3 - 1 for m in work.tile)
    numbers = work.groups * tiles * positions * work.channels * work.filters
    assert products.products == numbers
    assert products.steps * work.lanes >= numbers
    assert transforms.bytes("input") >= 4 * work.batch * work.groups * work.channels * prod(
        work.size
    )
    grad = work.groups * work.filters * prod(work.output_size)
    assert transforms.bytes("grad") == 4 * work.batch * grad
    for buffer in "VE":
        assert transforms.bytes(buffer, writes=True) == products.bytes(buffer) > 0
    assert finish.bytes("output", writes=True) == 4 * work.groups * work.filters * work.channels * 9
    assert work.cycles(Machine()) > 0


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_tiles_of_one_pixel_multiply_as_the_definition_does(layout):
    work = work_of(32, 32, (20, 20), layout=layout)
    _, products, _ = work.count()
    assert products.products == work.products == products.steps * work.lanes


def test_more_passes_read_the_input_again(monkeypatch):
    few, many = work_of(64, 64, (8, 8)), work_of(64, 64, (8, 8))
    object.__setattr__(many, "band_filters", 32)
    assert many.bands == 2
    once, twice = few.count()[0], many.count()[0]
    assert twice.bytes("input") == 2 * once.bytes("input")
    assert twice.bytes("grad") == once.bytes("grad")
    assert twice.stored > once.stored
