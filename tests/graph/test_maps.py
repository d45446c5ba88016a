"""Pooling, repeated pixels, channels spread over pixels: exact for every size, NaN let through."""

import numpy as np
import pytest
from graph.reference import compute

from winogen.errors import InvalidValue
from winogen.graph import (
    Add,
    AveragePool,
    GlobalAverage,
    Graph,
    MaxPool,
    Multiply,
    Node,
    Repeat,
    Segment,
    Shuffle,
    Spread,
    shapes,
)

RNG = np.random.default_rng(5)
OPERATORS = (
    (MaxPool((3, 3), (2, 2), (1, 1, 1, 1)), 5),
    (MaxPool((2, 2), (2, 2)), 70),  # more channels than are kept at once
    (MaxPool((3, 2), (1, 3), (0, 1, 1, 0)), 130),
    (MaxPool((2, 256), (1, 1), (0, 0, 60, 199)), 3),
    (MaxPool((3, 3), (1, 1), (1, 1, 1, 1)), 3),
    (MaxPool((5, 5), (1, 1), (2, 2, 2, 2)), 66),
    (MaxPool((2, 2), (1, 2), (0, 1, 1, 1), (2, 3)), 70),
    (MaxPool((2, 3), (2, 2), (1, 1, 2, 2)), 3),
    (MaxPool((20, 2), (3, 2), (18, 19, 1, 0)), 66),  # higher than the rows that wait
    (Repeat((2, 3)), 7),
    (Shuffle(2), 12),
    (Shuffle(3), 129),
    (Spread((2, 2)), 12),
    (Spread((2, 3), "pixels"), 12),
    (Spread((2, 2), "channels", (1, 0, 0, 1)), 12),
    (Spread((2, 3), "pixels", (0, 1, 2, 1)), 12),
)


def alone(op):
    return Graph(("x",), [Node(op, ("x",), ("y",))], ("y",))


def run(op, x, layout, **options):
    x = x if layout == "NCHW" else np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    (y,) = Segment(alone(op), layout=layout, **options)(x)
    return y if layout == "NCHW" else y.transpose(0, 3, 1, 2)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("op, channels", OPERATORS, ids=str)
def test_every_size(op, channels, layout, threads):
    for size in ((9, 200), (3, 3), (2, 5), (2, 3)):
        x = RNG.integers(-50, 50, (2, channels, *size))
        wanted = compute(alone(op), [x])["y"]
        assert np.array_equal(run(op, x.astype(np.float32), layout, threads=threads), wanted)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_maxima_of_nan_and_infinity(layout):
    x = np.full((1, 1, 2, 6), -np.inf, np.float32)
    x[0, 0, 1, 0], x[0, 0, 0, 2], x[0, 0, 1, 2] = np.nan, np.nan, 7
    y = run(MaxPool((2, 2), (2, 2)), x, layout)
    assert np.array_equal(y[0, 0, 0], [np.nan, np.nan, -np.inf], equal_nan=True)


def test_shapes_that_do_not_fit():
    with pytest.raises(InvalidValue, match="multiple of 6"):
        shapes(alone(Spread((2, 3))), {"x": (1, 4, 2, 2)})
    with pytest.raises(InvalidValue, match="at least as large"):
        shapes(alone(MaxPool((3, 3), (1, 1))), {"x": (1, 4, 2, 5)})


MEANS = (
    (AveragePool((3, 3), (1, 1), (1, 1, 1, 1)), 5),
    (AveragePool((3, 3), (1, 1), (1, 1, 1, 1), True), 70),
    (AveragePool((2, 2), (2, 2)), 3),
    (AveragePool((2, 3), (2, 1), (0, 1, 2, 1)), 65),
    (AveragePool((20, 2), (3, 2), (18, 19, 1, 0)), 3),
    (AveragePool((3, 300), (1, 7), (1, 1, 200, 250)), 3),
    (AveragePool((9, 9), (1, 1), (4, 4, 4, 4)), 3),  # more numbers than are looked at at once
    (GlobalAverage(), 5),
    (GlobalAverage(), 130),
)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("op, channels", MEANS, ids=str)
def test_means_of_every_size(op, channels, layout):
    for size in ((9, 200), (3, 60), (2, 51)):
        x = RNG.standard_normal((2, channels, *size))
        wanted = compute(alone(op), [x])["y"]
        y = run(op, x.astype(np.float32), layout, threads=2)
        assert y.shape == wanted.shape
        assert np.abs(y - wanted).max() <= 1e-6 * np.abs(x).max()


@pytest.mark.parametrize("layout, threads", [("NCHW", 1), ("NCHW", 2), ("NHWC", 1), ("NHWC", 2)])
def test_a_mean_of_many_numbers_that_are_alike(layout, threads):
    """Sums of such numbers err the same way with each addition."""
    value = np.float32(1.1)
    y = run(GlobalAverage(), np.full((1, 3, 509, 512), value), layout, threads=threads)
    assert np.abs(y.astype(np.float64) / np.float64(value) - 1).max() <= 1e-6


def test_a_mean_of_ones_beside_zeros():
    x = np.ones((1, 1, 4, 5), np.float32)
    inside = run(AveragePool((3, 3), (1, 1), (1, 1, 1, 1)), x, "NCHW")
    counted = run(AveragePool((3, 3), (1, 1), (1, 1, 1, 1), True), x, "NCHW")
    assert np.allclose(inside, 1, atol=1e-7)
    assert np.allclose(counted[0, 0, 0], [4 / 9, 6 / 9, 6 / 9, 6 / 9, 4 / 9])


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("op", [Add(), Multiply()], ids=str)
@pytest.mark.parametrize("channels", [1, 5, 70])
def test_two_maps(op, channels, layout):
    graph = Graph(("x", "g"), [Node(op, ("x", "g"), ("y",))], ("y",))
    segment = Segment(graph, layout=layout, threads=2)
    sizes = [(6, 37)] if isinstance(op, Add) else [(6, 37), (1, 1)]
    for size in sizes:
        arrays = [RNG.integers(-50, 50, (2, channels, *s)) for s in ((6, 37), size)]
        wanted = compute(graph, arrays)["y"]
        given = [x.astype(np.float32) for x in arrays]
        if layout == "NHWC":
            given = [np.ascontiguousarray(x.transpose(0, 2, 3, 1)) for x in given]
        (y,) = segment(*given)
        assert np.array_equal(y if layout == "NCHW" else y.transpose(0, 3, 1, 2), wanted)


def test_the_other_factor_has_one_pixel_or_all():
    graph = Graph(("x", "g"), [Node(Multiply(), ("x", "g"), ("y",))], ("y",))
    with pytest.raises(InvalidValue, match="g|multiply"):
        shapes(graph, {"x": (1, 4, 3, 5), "g": (1, 4, 1, 5)})
