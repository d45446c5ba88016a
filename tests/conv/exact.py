"""Data that every algorithm computes without any rounding, so that results compare to the bit.

Weights are multiples of the filter transform's denominators and points are small integers: every
number met on the way is an integer (or a small fraction of two) that the dtype holds exactly.
`test_exact.py` proves it from the matrices.
"""

from fractions import Fraction
from math import lcm, prod

import numpy as np
from conv.reference import convolve

from winogen.codegen.transforms import load
from winogen.conv import Conv2d

MODES = ("zeros", "reflect", "replicate", "circular")
BORDERS = ("unswitch", "buffer", "indirect")
LAYOUTS = ("NCHW", "NHWC")
WINOGRAD = ("winograd2d", "winograd1d", "mcmr")
PLAIN = ("direct", "im2col")

# m != r - 1 along both axes, m != n, and no axis is like the other.
KERNEL, TILE = (3, 2), (3, 4)
POINTS = "0,1,-1,2,inf"
ONE = (
    1,
    1,
)  # the usual stride; others have default points, whose parts F(3,2) and F(4,1) are exact
# float64 rounds the filters to 53 bits, so there only halves are exact: F(2,3) x F(3,2).
HALF_TILE, HALF_POINTS = (2, 3), "0,1,-1,inf"


def transforms(algorithm, tile=TILE, points=POINTS, stride=ONE):
    """The transforms of the axes that the algorithm transforms."""
    axes = [
        load(m, r, points) if step == 1 else load(m, r, stride=step)
        for m, r, step in zip(tile, KERNEL, stride)
    ]
    return axes[1:] if algorithm == "winograd1d" else axes


def equal(found, wanted):
    """Whether outputs are the integers that are wanted.

    Filters are transformed in double. Where a compiler does not contract multiply-adds, what
    cancels there may leave 1e-16 of the filter: less than any rounding of a float32 by far.
    """
    if found.dtype == np.float64:
        return np.array_equal(found, wanted)
    left = np.abs(found.astype(np.float64) - wanted).max(initial=0)
    return left <= 1e-13 * max(1, np.abs(wanted).max(initial=0))


def scale(algorithm, tile=TILE, points=POINTS, stride=ONE):
    """The least integer that clears all denominators of the filter transform."""
    if algorithm in PLAIN:
        return 1
    axes = transforms(algorithm, tile, points, stride)
    return prod(lcm(*(Fraction(x).denominator for row in t.g for x in row)) for t in axes)


def chosen(algorithm, tile=TILE, points=POINTS, stride=ONE):
    """The options of conv2d that ask for just this algorithm, tile and points."""
    if algorithm in PLAIN:
        return dict(algorithm=algorithm)
    tile = (1, tile[1]) if algorithm == "winograd1d" else tile
    if stride != ONE:
        height, width = (points if step == 1 else None for step in stride)
        points = (None if algorithm == "winograd1d" else height), width
    return dict(algorithm=algorithm, tile=tile, points=points)


def integers(rng, shape, largest):
    """Random integers in -largest..largest."""
    return rng.integers(-largest, largest + 1, shape)


def guarded(shape, dtype):
    """An array of NaN in the middle of a larger one, and a check that just the array changed."""
    size, room = prod(shape), 64
    buffer = np.full(size + 2 * room, 7.5, dtype)
    out = buffer[room : room + size].reshape(shape)
    out[...] = np.nan

    def check():
        assert (buffer[:room] == 7.5).all() and (buffer[room + size :] == 7.5).all()
        assert not np.isnan(out).any()

    return out, check


def slice_of(array, layout, rng, around):
    """A copy of the array as a slice of the channels of one that holds ``around`` elsewhere.

    Returns the slice, and a check that nothing else changed.
    """
    axis = array.ndim - 3 if layout == "NCHW" else array.ndim - 1
    before, count, after = rng.integers(0, 20), array.shape[axis], rng.integers(0, 20)
    shape = list(array.shape)
    shape[axis] = before + count + after
    whole = np.full(shape, around, array.dtype)
    place = tuple(
        slice(before, before + count) if i == axis else slice(None) for i in range(array.ndim)
    )
    whole[place] = array

    def check():
        copy = whole.copy()
        copy[place] = around
        assert copy.tobytes() == np.full(shape, around, array.dtype).tobytes()

    return whole[place], check


def check(
    x,
    w,
    bias=None,
    dtype="float32",
    *,
    convs=None,
    relu=False,
    activation=None,
    algorithm,
    seams=None,
    **options,
):
    """Assert that conv2d of integers (x in NCHW) equals the reference and writes nothing else.

    ``options`` are those of the reference; ``algorithm`` holds further ones of conv2d. ``convs``
    keeps the Conv2d for the next call with the same weights and options. ``seams``: a random
    generator, to add arrays before and behind the activation; all arrays are slices then.
    """
    x = x if options.get("layout") != "NHWC" else x.transpose(0, 2, 3, 1)
    activation = "relu" if relu else activation
    wanted = convolve(x, w, bias, activation=activation, **options)
    layout, added = options.get("layout", "NCHW"), {}
    if seams is not None:
        added = {name: integers(seams, wanted.shape, 9) for name in ("add", "add_after")}
        wanted = convolve(x, w, bias, activation=activation, **added, **options)
        added = {
            name: slice_of(array.astype(dtype), layout, seams, np.nan)[0]
            for name, array in added.items()
        }
    convs = {} if convs is None else convs
    if "conv" not in convs:
        convs["conv"] = Conv2d(
            w.astype(dtype),
            None if bias is None else bias.astype(dtype),
            activation=activation,
            **options,
            **algorithm,
        )
    out, unharmed = guarded(wanted.shape, dtype)
    given = np.ascontiguousarray(x, dtype)
    if seams is not None:
        given, _ = slice_of(given, layout, seams, np.nan)
        out, unharmed = slice_of(out, layout, seams, 7.5)
    given.flags.writeable = False
    assert convs["conv"](given, out, **added) is out
    unharmed()
    assert equal(out, wanted), (x.shape, options, algorithm)


def check_slice_of_pixels(size, weight_shape):
    """The image of a layer in NHWC is a slice of wider pixels, and only its numbers are read."""
    rng = np.random.default_rng(2)
    channels = weight_shape[1]
    whole = np.full((1, *size, channels + 9), np.inf, np.float32)
    x = whole[..., 4 : 4 + channels]
    x[...] = rng.integers(-3, 4, x.shape)
    w = rng.integers(-3, 4, weight_shape).astype(np.float32)
    y = Conv2d(w, layout="NHWC", algorithm="direct")(x)
    assert np.array_equal(y, convolve(x, w, layout="NHWC"))
