"""Both stages as one call: the bits of two calls, and two calls where a segment cannot run them."""

import pickle

import numpy as np
import pytest

from winogen.lowrank import LowRank


def random(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


W, B = random(8, 4, 3, 3), random(8, seed=1)


def is_one_call(layer):
    segment = layer._pipeline._segment
    return segment is not None and bool(segment._bound)


def two_calls(layer, x, **more):
    one, other = layer._pipeline.each
    return other(one(x), **more)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_one_call_has_the_bits_of_two(layout):
    slopes = random(8, seed=3)
    layer = LowRank.from_conv(
        W, B, rank=5, padding=((1, 2), (0, 1)), stride=(2, 1), layout=layout,
        activation=("prelu", slopes),
    )  # fmt: skip
    x = random(2, 4, 9, 10, seed=2)
    x = x if layout == "NCHW" else np.ascontiguousarray(np.moveaxis(x, 1, -1))
    y = layer(x)
    assert is_one_call(layer)
    np.testing.assert_array_equal(y, two_calls(layer, x))
    np.testing.assert_array_equal(layer(x[1]), two_calls(layer, x[1]))  # no axis of images
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(layer))(x[:, ::-1]), layer(x[:, ::-1]))
    assert layer(x[:0]).shape == (0, *y.shape[1:])


def test_strips():
    """Maps of 4 MB between the stages: strips of rows are tried, and change no bit."""
    layer = LowRank.from_conv(random(8, 8, 3, 3), rank=8, padding=1, threads=1)
    x = random(1, 8, 360, 360)
    np.testing.assert_array_equal(layer(x), two_calls(layer, x))
    assert layer._pipeline._segment.plan([x.shape]).possible


def test_outputs_and_additions():
    layer = LowRank.from_conv(W, B, rank=5, padding=1)
    x, more = random(2, 4, 9, 10, seed=2), random(2, 8, 9, 10, seed=3)
    y = layer(x)
    out = np.empty_like(y)
    assert layer(x, out) is out
    np.testing.assert_array_equal(out, y)
    np.testing.assert_array_equal(layer(x, add_after=more), two_calls(layer, x, add_after=more))
    around = np.zeros((2, 12, 9, 10), np.float32)
    assert layer(x, around[:, 2:10]).base is around
    np.testing.assert_array_equal(around[:, 2:10], y)
    assert not around[:, :2].any() and not around[:, 10:].any()
    with pytest.raises(ValueError, match="out: got an array that overlaps input"):
        LowRank.from_conv(random(4, 4, 3, 3), rank=2, padding=1)(x, x)


@pytest.mark.parametrize(
    "options, dtype",
    [
        ({}, np.float16),
        ({"workspace_limit": 1 << 20}, np.float32),
        ({"algorithm": "fft"}, np.float32),
        ({"filter_dtype": "bfloat16"}, np.float32),
    ],
)
def test_two_calls(options, dtype):
    layer = LowRank.from_conv(W.astype(dtype), rank=5, padding=1, **options)
    assert layer(random(1, 4, 9, 10, dtype=dtype)).dtype == dtype
    assert not is_one_call(layer)
