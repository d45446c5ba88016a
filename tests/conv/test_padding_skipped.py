"""Taps that read only zeros around the image are neither computed nor given a place."""

from dataclasses import replace

import numpy as np
import pytest
from conv import exact, reference
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kernels.turns import first

from winogen import Conv2d
from winogen.conv import Layer
from winogen.conv.choice import Choice
from winogen.conv.cuts import work_of
from winogen.kernels import assign
from winogen.kernels.geometry import strip_size, trimmed
from winogen.records import TARGETS, Axis

numbers = st.integers


@st.composite
def layers(draw):
    """Dilated kernels on small maps: options, channels and filters of a group, kernel, sizes."""
    kernel = draw(st.tuples(numbers(1, 5), numbers(1, 5)))
    dilation = draw(st.tuples(numbers(1, 30), numbers(1, 30)))
    size = draw(st.tuples(numbers(1, 17), numbers(1, 30)))
    padding = tuple(
        (max(0, -(-((k - 1) * d + 1 - n) // 2)) + draw(numbers(0, 3)),) * 2
        for k, d, n in zip(kernel, dilation, size)
    )
    depthwise = draw(st.booleans())
    groups = draw(st.sampled_from((16, 17, 32))) if depthwise else draw(numbers(1, 2))
    channels, filters = (1, 1) if depthwise else (draw(numbers(1, 40)), draw(numbers(1, 40)))
    options = dict(
        stride=draw(st.tuples(numbers(1, 3), numbers(1, 3))),
        padding=padding,
        dilation=dilation,
        groups=groups,
        layout=draw(st.sampled_from(exact.LAYOUTS)),
    )
    return options, (groups * filters, channels, *kernel), size


@pytest.mark.parametrize("threads", first(1, [(1,), (2,)]))
@settings(max_examples=300)
@given(layer=layers())
@example((dict(padding=((24, 24), (24, 24)), dilation=(24, 24)), (20, 40, 3, 3), (14, 14)))
@example((dict(padding=((12, 12), (12, 12)), dilation=(12, 12)), (40, 20, 3, 3), (28, 28)))
@example((dict(padding=((5, 5), (5, 5))), (8, 8, 3, 3), (2, 2)))  # outputs that see zeros only
@example((dict(padding=((9, 9), (1, 1)), dilation=(10, 1)), (9, 3, 3, 3), (7, 9)))
@example((dict(padding=((0, 0), (1, 1)), dilation=(1, 2)), (2, 1, 1, 2), (1, 1)))  # only zeros
def test_dilated_layers_equal_the_reference(threads, layer):
    options, weight, size = layer
    rng = np.random.default_rng(sum(weight + size))
    shape = (2, weight[1] * options.get("groups", 1), *size)
    exact.check(
        exact.integers(rng, shape, 9),
        exact.integers(rng, weight, 9),
        exact.integers(rng, weight[0], 9),
        algorithm=dict(algorithm="direct", threads=threads),
        **options,
    )


@given(
    kernel=numbers(1, 7),
    stride=numbers(1, 4),
    dilation=numbers(1, 30),
    before=numbers(0, 40),
    size=numbers(1, 30),
    outputs=numbers(1, 20),
)
def test_taps_inside_are_those_that_read_the_input(kernel, stride, dilation, before, size, outputs):
    taps = Axis(kernel, stride, dilation, before).inside(size, outputs)
    at = np.arange(outputs)[:, None] * stride - before + np.arange(kernel) * dilation
    read = np.flatnonzero(((at >= 0) & (at < size)).any(axis=0)).tolist()
    assert set(read) <= set(taps) and len(taps) >= 1 and set(taps) <= set(range(kernel))
    if read:
        # The ranges of taps that are kept begin and end with taps that may read the input.
        assert at[:, taps[0]].max() >= 0 and at[:, taps[-1]].min() < size


def work(dilation, size, layout="NHWC"):
    layer = Layer.of((32, 64, 3, 3), "float32", padding=dilation, dilation=dilation, layout=layout)
    shape = (1, 64, size, size) if layout == "NCHW" else (1, size, size, 64)
    return assign(work_of(layer.problem(shape), Choice("direct"), TARGETS["avx2"]))


def test_a_kernel_wider_than_the_map_is_one_of_single_pixels():
    seen = work(24, 14)
    assert (seen.kernel, seen.padding, seen.dilation) == ((1, 1), (0, 0), (1, 1))
    assert (seen.filter_taps, seen.first_tap) == (9, 4)
    assert strip_size(replace(seen, block=(14, 14))) == (14, 14)


def test_rows_between_distant_taps_have_no_place():
    seen = work(6, 14)
    assert seen.kernel == (3, 3) and trimmed(seen) == seen
    assert strip_size(replace(seen, block=(1, 14))) == (3, 26)
    assert strip_size(replace(seen, block=(4, 14))) == (12, 26)
    assert strip_size(replace(seen, block=(14, 14))) == (26, 26)


@pytest.mark.parametrize("layout", exact.LAYOUTS)
def test_filters_packed_for_one_size_serve_all(layout):
    """The taps that are left out depend on the map, the packed filters do not."""
    rng = np.random.default_rng(5)
    w = exact.integers(rng, (20, 24, 3, 3), 9).astype(np.float32)
    conv = Conv2d(w, padding=8, dilation=8, layout=layout, algorithm="direct")
    for size in (5, 30, 9, 5):
        x = exact.integers(rng, (1, 24, size, size), 9).astype(np.float32)
        if layout == "NHWC":
            x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        y = reference.convolve(x, w, padding=((8, 8), (8, 8)), dilation=(8, 8), layout=layout)
        np.testing.assert_array_equal(conv(x), y)


@pytest.mark.parametrize("groups", [1, 32])
@pytest.mark.parametrize("threads", [1, 3])
def test_zeros_around_the_image_are_not_multiplied(groups, threads):
    """Nothing is added where rows of taps meet zeros, whatever the filters are."""
    rng = np.random.default_rng(6)
    w = exact.integers(rng, (32, 32 // groups, 3, 3), 9).astype(np.float32)
    w[:, :, 0] = np.inf
    x = 1 + np.abs(exact.integers(rng, (1, 9, 9, 32), 9)).astype(np.float32)
    y = Conv2d(
        w, padding=(1, 0), groups=groups, layout="NHWC", algorithm="direct", threads=threads
    )(x)
    w[:, :, 0] = 0
    finite = reference.convolve(x, w, padding=((1, 1), (0, 0)), groups=groups, layout="NHWC")
    np.testing.assert_array_equal(y[:, 0], finite[:, 0])
    assert not np.isfinite(y[:, 1:]).any()
