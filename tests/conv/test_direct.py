"""`direct` and `im2col` serve every layer: strides, dilations, groups, any kernel and padding."""

import numpy as np
import pytest
from conv import exact
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kernels.turns import first, turns

numbers = st.integers


@st.composite
def problems(draw):
    """Options of a layer, its weights' shape, a fitting input size, and the batch."""
    groups = draw(numbers(1, 3))
    options = dict(
        stride=draw(st.tuples(numbers(1, 4), numbers(1, 4))),
        dilation=draw(st.tuples(numbers(1, 3), numbers(1, 3))),
        padding=tuple(draw(st.tuples(numbers(0, 4), numbers(0, 4))) for _ in range(2)),
        padding_mode=draw(st.sampled_from(exact.MODES)),
        layout=draw(st.sampled_from(exact.LAYOUTS)),
        groups=groups,
    )
    filters, channels = draw(numbers(1, 20)), draw(numbers(1, 20))
    kernel = draw(st.tuples(numbers(1, 5), numbers(1, 5)))
    spare = {"zeros": None, "replicate": None, "circular": 0, "reflect": 1}[options["padding_mode"]]
    size = []
    for taps, dilation, ends in zip(kernel, options["dilation"], options["padding"]):
        least = max(1, dilation * (taps - 1) + 1 - sum(ends))
        if spare is not None:
            least = max(least, max(ends) + spare)
        size.append(least + draw(numbers(0, 12)))
    return options, (groups * filters, channels, *kernel), tuple(size), draw(numbers(1, 2))


@pytest.mark.parametrize("algorithm", first(1, zip(exact.PLAIN)))
@settings(max_examples=300)
@given(problem=problems())
@example(problem=(dict(stride=(5, 7)), (2, 3, 2, 2), (9, 16), 1))  # strides beyond the kernel
@example(problem=(dict(dilation=(4, 6)), (2, 3, 3, 3), (9, 13), 1))  # one output
@example(problem=(dict(padding=((9, 9), (9, 9))), (2, 3, 1, 1), (1, 1), 1))  # mostly padding
@example(problem=(dict(stride=(1, 2), groups=24), (24, 1, 3, 3), (9, 33), 2))  # depthwise
@example(problem=(dict(), (3, 2, 1, 11), (4, 70), 1))  # wider than a register block
@example(problem=(dict(groups=2), (66, 600, 1, 1), (5, 19), 2))  # where the planes lie
def test_any_layer_equals_the_reference(algorithm, problem):
    options, weight, size, batch = problem
    shape = (batch, weight[1] * options.get("groups", 1), *size)
    rng = np.random.default_rng(sum(shape + weight))
    exact.check(
        exact.integers(rng, shape, 9),
        exact.integers(rng, weight, 9),
        exact.integers(rng, weight[0], 9),
        relu=size[0] % 2 == 1,
        algorithm=dict(algorithm=algorithm),
        **options,
    )


@pytest.mark.parametrize("layout", first(1, zip(exact.LAYOUTS)))
@settings(max_examples=150)
@given(
    groups=numbers(1, 3),
    channels=numbers(1, 70),
    filters=numbers(1, 70),
    size=st.tuples(numbers(1, 20), numbers(1, 40)),
    batch=numbers(1, 2),
    threads=numbers(1, 3),
)
def test_any_layer_of_single_pixels(layout, groups, channels, filters, size, batch, threads):
    """1x1 kernels: rows and planes of any length, where they lie."""
    rng = np.random.default_rng(channels * filters)
    exact.check(
        exact.integers(rng, (batch, groups * channels, *size), 9),
        exact.integers(rng, (groups * filters, channels, 1, 1), 9),
        exact.integers(rng, groups * filters, 9),
        relu=size[0] % 2 == 1,
        algorithm=dict(algorithm="direct", threads=threads),
        groups=groups,
        layout=layout,
    )


@pytest.mark.parametrize(
    "algorithm, size, layout", turns(exact.WINOGRAD, [(11, 13), (4, 16), (3, 5)], exact.LAYOUTS)
)
def test_the_rim_of_tiles_of_single_pixels(algorithm, size, layout):
    rng = np.random.default_rng(0)
    tile = (1, 4) if algorithm == "winograd1d" else (4, 4)
    exact.check(
        exact.integers(rng, (2, 20, *size), 9),
        exact.integers(rng, (20, 20, 1, 1), 9),
        algorithm=dict(algorithm=algorithm, tile=tile, edge="direct"),
        layout=layout,
    )


@pytest.mark.parametrize("layout", first(1, zip(exact.LAYOUTS[::-1])))
@settings(max_examples=150)
@given(
    groups=st.sampled_from((1, 5, 16, 32, 37, 48)),
    kernel=st.sampled_from((3, 5)),
    stride=st.tuples(numbers(1, 3), numbers(1, 3)),
    padding=st.tuples(*[st.tuples(numbers(0, 3), numbers(0, 3))] * 2),
    mode=st.sampled_from(("zeros", "zeros", "replicate")),
    size=st.tuples(numbers(5, 20), numbers(5, 80)),
    threads=numbers(1, 2),
)
def test_any_depthwise_layer(layout, groups, kernel, stride, padding, mode, size, threads):
    rng = np.random.default_rng(size[0] * size[1])
    exact.check(
        exact.integers(rng, (2, groups, *size), 9),
        exact.integers(rng, (groups, 1, kernel, kernel), 9),
        exact.integers(rng, groups, 9),
        relu=size[0] % 2 == 1,
        algorithm=dict(algorithm="direct", threads=threads),
        groups=groups,
        stride=stride,
        padding=padding,
        padding_mode=mode,
        layout=layout,
    )
