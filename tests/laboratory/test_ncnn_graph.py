"""Nets from ncnn's files on numpy arrays, beside the definition of every layer."""

from itertools import pairwise

import numpy as np
import pytest

from winogen.demo.photograph import photograph
from winogen.errors import InvalidValue
from winogen_lab.nets import NETS
from winogen_lab.nets.ncnn_files import NcnnLayer, read
from winogen_lab.nets.ncnn_graph import NumpyNet
from winogen_lab.nets.tiles import first_tile, in_tiles, spans

rng = np.random.default_rng(0)


def numbers(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def net(*layers):
    return NumpyNet([NcnnLayer("Input", "in", (), ("x",)), *layers], threads=1)


def transposed(x, weight, bias, stride, crop):
    """Every input adds its taps to the outputs; the definition, in float64."""
    height, width = x.shape[2:]
    filters, _, taps, _ = weight.shape
    y = np.zeros((1, filters, (height - 1) * stride + taps, (width - 1) * stride + taps))
    for i in range(height):
        for j in range(width):
            patch = np.einsum("c,mckl->mkl", x[0, :, i, j].astype(float), weight.astype(float))
            y[0, :, i * stride : i * stride + taps, j * stride : j * stride + taps] += patch
    y += np.reshape(bias, (1, -1, 1, 1))
    return y[:, :, crop : y.shape[2] - crop, crop : y.shape[3] - crop]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "taps, stride, crop", [(4, 2, 3), (2, 2, 0), (4, 2, 1), (3, 1, 1), (3, 2, 1)]
)
def test_a_transposed_convolution(taps, stride, crop):
    weight, bias, x = numbers(5, 6, taps, taps), numbers(5), numbers(1, 6, 7, 8)
    options = {0: 5, 1: taps, 3: stride, 4: crop, 5: 1, 6: weight.size, 9: 2, 10: (0.1,)}
    parts = {"weight": weight, "bias": bias}
    y = net(NcnnLayer("Deconvolution", "up", ("x",), ("y",), options, parts))(x)
    exact = transposed(x, weight, bias, stride, crop)
    np.testing.assert_allclose(y, np.where(exact < 0, 0.1 * exact, exact), atol=2e-5)


def test_shuffle_nearest_sum_slopes_and_concatenation():
    x, slopes = numbers(1, 4, 5, 6), np.float32([0.5, -1.0, 0.0, 2.0])
    split = NcnnLayer("Split", "s", ("x",), ("a", "b", "c", "d"))
    y = net(
        split,
        NcnnLayer("PReLU", "p", ("a",), ("e",), {0: 4}, {"slopes": slopes}),
        NcnnLayer("BinaryOp", "plus", ("e", "b"), ("f",)),
        NcnnLayer("Concat", "side by side", ("f", "c"), ("g",)),
        NcnnLayer("ReLU", "leak", ("g",), ("h",), {0: 0.25}),
        NcnnLayer("PixelShuffle", "shuffle", ("h",), ("i",), {0: 2}),
        NcnnLayer("Interp", "twice", ("i",), ("j",), {0: 1, 1: 2.0, 2: 3.0}),
    )(x)
    bent = np.where(x < 0, x * slopes[:, None, None], x) + x
    both = np.concatenate([bent, x], 1)
    both = np.where(both < 0, 0.25 * both, both)
    shuffled = np.zeros((1, 2, 10, 12))
    for channel in range(8):
        shuffled[:, channel // 4, channel % 4 // 2 :: 2, channel % 2 :: 2] = both[:, channel]
    np.testing.assert_allclose(y, np.kron(shuffled, np.ones((2, 3))), atol=1e-6)


@pytest.mark.parametrize(
    "layer, message",
    [
        (NcnnLayer("Interp", "n", ("x",), ("y",), {0: 2, 1: 2.0, 2: 2.0}), "Interp n: got mode 2"),
        (NcnnLayer("Eltwise", "n", ("x", "x"), ("y",), {0: 0}), "Eltwise n: got a function"),
        (
            NcnnLayer("Eltwise", "n", ("x", "x"), ("y",), {0: 1, 1: (1.0, 0.2)}),
            "Eltwise n: got a function",
        ),
        (NcnnLayer("Pooling", "n", ("x",), ("y",), {}), "Pooling n: got a layer that only torch"),
        (
            NcnnLayer(
                "Deconvolution", "n", ("x",), ("y",), {1: 3, 2: 2}, {"weight": numbers(1, 1, 3, 3)}
            ),
            "Deconvolution n: got kernel (3, 3), stride (1, 1)",
        ),
        (
            NcnnLayer("Convolution", "n", ("x",), ("y",), {9: 5}, {"weight": numbers(1, 1, 3, 3)}),
            "Convolution n: got activation 5; allowed: 0, 1, 2",
        ),
    ],
)
def test_what_it_does_not_have_is_refused_at_once(layer, message):
    with pytest.raises(InvalidValue) as error:
        net(layer)
    assert message in str(error.value)


@pytest.fixture(scope="module")
def tiny():
    weights = NETS["tiny"].weights
    return NumpyNet(read(weights.file(".param"), weights.file(".bin")), threads=1)


@pytest.mark.thorough
def test_the_tiny_net_beats_repeated_pixels(tiny):
    part = photograph()[:, 360:440, 200:300]  # below what it was trained with
    small = part.reshape(3, 40, 2, 50, 2).mean((2, 4))
    repeated = small.repeat(2, 1).repeat(2, 2)
    assert ((tiny(small[None])[0] - part) ** 2).mean() < 0.7 * ((repeated - part) ** 2).mean()


@pytest.mark.thorough
def test_tiles_give_the_whole_picture(tiny):
    picture = photograph()[:, 100:161, 200:247]
    whole = tiny(np.ascontiguousarray(picture[None]))[0]
    told = []
    tiled = in_tiles(
        tiny, picture, most=20, margin=3, step=lambda done, total, _: told.append((done, total))
    )
    assert tiled.shape == (3, 122, 94) and told == [(k, 12) for k in range(12)]
    np.testing.assert_allclose(tiled, whole, atol=5e-5)
    assert first_tile(picture, 20, 3).shape == (1, 3, 20, 20)
    # With a smaller margin than the net looks around, the seams show.
    assert abs(in_tiles(tiny, picture, most=20, margin=1) - whole).max() > 1e-3


@pytest.mark.parametrize("length", [1, 19, 20, 21, 33, 34, 35, 100])
@pytest.mark.parametrize("most, margin", [(20, 3), (8, 3), (20, 0)])
def test_spans_cover_everything_once(length, most, margin):
    found = spans(length, most, margin)
    assert len({span.end - span.begin for span in found}) == 1
    assert found[0].first == 0 and found[-1].last == length
    for span, following in pairwise(found):
        assert span.last == following.first
    for span in found:
        assert 0 <= span.begin <= span.first < span.last <= span.end <= length
        assert span.end - span.begin <= most
        assert span.first - span.begin >= margin or span.begin == 0
        assert span.end - span.last >= margin or span.end == length
