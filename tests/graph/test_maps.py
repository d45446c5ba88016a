"""Pooling, repeated pixels, channels spread over pixels: exact for every size, NaN let through."""

import numpy as np
import pytest
from graph.reference import compute

from winogen.errors import InvalidValue
from winogen.graph import Graph, MaxPool, Node, Repeat, Segment, Spread, shapes

RNG = np.random.default_rng(5)
OPERATORS = (
    (MaxPool((3, 3), (2, 2), (1, 1, 1, 1)), 5),
    (MaxPool((2, 2), (2, 2)), 70),  # more channels than are kept at once
    (MaxPool((3, 2), (1, 3), (0, 1, 1, 0)), 130),
    (MaxPool((2, 256), (1, 1), (0, 0, 60, 199)), 3),
    (Repeat((2, 3)), 7),
    (Spread((2, 2)), 12),
    (Spread((2, 3), "pixels"), 12),
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
