"""Use an installed winogen as someone without a compiler would; scripts/test_wheel.py runs this.

Every kind of kernel computes something, which is compared with numpy. The last line has the
seconds from the start to the first result.
"""

import time

BEGIN = time.perf_counter()

import numpy as np  # noqa: E402

import winogen  # noqa: E402
from winogen.conv.gradients import weight_gradient  # noqa: E402

RANDOM = np.random.default_rng(0)


def floats(*shape):
    """Return small integers as float32: their sums have nothing to round."""
    return RANDOM.integers(-4, 5, shape).astype(np.float32)


def direct(x, weight, padding, stride=1):
    """The convolution by its definition, in NCHW; groups of channels by the weights' shape."""
    x = np.pad(x.astype(np.int64), [(0, 0), (0, 0), (padding,) * 2, (padding,) * 2])
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride]
    groups = x.shape[1] // weight.shape[1]
    parts = zip(np.split(windows, groups, axis=1), np.split(weight.astype(np.int64), groups))
    sums = [np.einsum("nchwij,mcij->nmhw", some, few, optimize=True) for some, few in parts]
    return np.concatenate(sums, axis=1)


def close(y, expected):
    """Compare: transforms have fractions, so that sums are rounded."""
    error = np.abs(y - expected).max() / max(1, np.abs(expected).max())
    assert error < 1e-5, error


x, weight = floats(1, 64, 28, 28), floats(64, 64, 3, 3)
y = winogen.conv2d(x, weight, padding=1)
FIRST = time.perf_counter() - BEGIN
close(y, direct(x, weight, 1))

for shape, filters, options in (
    ((2, 3, 33, 31), (16, 3, 7, 7), {"stride": 2, "padding": 3}),
    ((1, 64, 14, 14), (128, 64, 1, 1), {}),
    ((1, 48, 17, 19), (48, 1, 3, 3), {"padding": 1, "groups": 48}),
    ((1, 12, 20, 20), (8, 6, 5, 5), {"padding": 2, "groups": 2}),
):
    x, weight = floats(*shape), floats(*filters)
    expected = direct(x, weight, options.get("padding", 0), options.get("stride", 1))
    close(winogen.conv2d(x, weight, **options), expected)
    pixels = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    y = winogen.conv2d(pixels, weight, layout="NHWC", **options)
    close(y.transpose(0, 3, 1, 2), expected)

x = RANDOM.integers(0, 255, (1, 32, 15, 15)).astype(np.uint8)
weight = RANDOM.integers(-127, 128, (32, 32, 3, 3)).astype(np.int8)
sums = winogen.QConv2d(weight, padding=1)(x)
assert np.array_equal(sums, direct(x, weight, 1))

a, b = floats(37, 50), floats(50, 96)
assert np.array_equal(winogen.gemm(a, b), a @ b)

x, dy = floats(2, 16, 12, 12), floats(2, 16, 12, 12)
gradient = weight_gradient(x, dy, (3, 3), padding=1)
padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
close(gradient, np.einsum("nchwij,nmhw->mcij", windows, dy, optimize=True))

print(f"{FIRST:.2f} s to the first result; winogen {winogen.__version__}, numpy {np.__version__}")
