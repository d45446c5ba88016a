"""Whole layers in narrow numbers, in numpy: as kernels have them, and as the definition says."""

import numpy as np
import pytest

from winogen.codegen import transforms
from winogen.conv import conv2d
from winogen.errors import InvalidValue
from winogen.numerics.emulated import EmulatedConv2d
from winogen.records import Precision
from winogen.rounding.formats import FORMATS
from winogen.rounding.stages import Stages

REAL = ("float32",) * 3


def stages_of(precision):
    return Stages.of(precision=precision, filters="float64")


def data(channels=40, filters=5, size=(11, 14)):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, channels, *size), np.float32)
    return x, rng.standard_normal((filters, channels, 3, 3), np.float32)


def exact(x, w, padding):
    return conv2d(x.astype("f8"), w.astype("f8"), padding=padding, algorithm="direct")


@pytest.mark.parametrize("m", [None, 2, 3, 4])
@pytest.mark.parametrize("padding", [(0, 0), (1, 2)])
def test_of_float32_it_is_the_convolution(m, padding):
    x, w = data()
    transform = None if m is None else transforms.load(m, 3)
    stages = stages_of(Precision.of("float32"))
    bias = np.arange(5, dtype=np.float32)
    y = EmulatedConv2d(w, bias, padding, transform, stages=stages)(x)
    y64 = exact(x, w, padding) + bias[:, None, None]
    assert y.shape == y64.shape and y.dtype == np.float32
    assert np.abs(y - y64).max() < 2e-6 * np.abs(y64).max()


@pytest.mark.parametrize(
    "m, options",
    [
        pytest.param(4, {"filter_dtype": "float16"}),
        pytest.param(4, {"filter_dtype": "bfloat16"}, marks=pytest.mark.thorough),
        pytest.param(None, {"filter_dtype": "float16"}, marks=pytest.mark.thorough),
    ],
)
def test_its_errors_are_those_of_kernels(options, m):
    x, w = data(size=(12, 12))
    stages = stages_of(Precision.of("float32", options["filter_dtype"]))
    transform = None if m is None else transforms.load(m, 3)
    y = EmulatedConv2d(w, None, (1, 1), transform, stages=stages)(x)
    way = {"algorithm": "direct"} if m is None else {"algorithm": "mcmr", "tile": m}
    kernel = conv2d(x, w, padding=1, **way, **options)
    error = kernel - exact(x, w, (1, 1))
    # What rounding U does is the same to the bit; float32 rounds a thousand times less. Kernels may
    # scale filters by powers of 2, which moves numbers between binades of none.
    assert np.abs(y - kernel).max() < 0.02 * np.abs(error).max()


@pytest.mark.thorough
def test_products_of_integers_as_their_kernels_have_them():
    x, w = data(channels=70, size=(12, 12))
    stages = stages_of(Precision.of("float32", products="int16"))
    y = EmulatedConv2d(w, None, (1, 1), transforms.load(4, 3), stages=stages)(x)
    kernel = conv2d(x, w, padding=1, algorithm="mcmr", tile=4, product_dtype="int16")
    y64 = exact(x, w, (1, 1))
    ours, theirs = (np.sqrt(np.mean((a - y64) ** 2)) for a in (y, kernel))
    assert theirs == pytest.approx(ours, rel=0.1)


def test_arrays_and_tiles_are_rounded():
    x, w = data()
    for precision, digits in (
        (Precision("float16", *REAL[:2], *REAL), 11),
        (Precision("float32", "float32", "bfloat16", *REAL), 8),
    ):
        y = EmulatedConv2d(w, None, (0, 0), transforms.load(2, 3), stages=stages_of(precision))(x)
        name = precision.arrays if digits == 11 else "float32"
        assert np.array_equal(y, FORMATS[name].round(y))
        error = np.abs(y - exact(x, w, (0, 0))).max() / np.abs(y).max()
        assert 0.2 * 2.0**-digits < error < 4 * 2.0**-digits


def test_direct_products_of_integers_are_refused():
    with pytest.raises(InvalidValue, match="precision: got products of integers with direct"):
        EmulatedConv2d(data()[1], stages=stages_of(Precision.of("float32", products="int16")))
