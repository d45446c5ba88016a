"""Convolution by its definition, in numpy, knowing nothing of winogen.

Integers stay int64, so that results can be compared to the bit; floats are computed in float64.
"""

import numpy as np
from conv.activations import activate

_NUMPY_MODE = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def convolve(
    x,
    w,
    bias=None,
    stride=(1, 1),
    padding=((0, 0), (0, 0)),
    dilation=(1, 1),
    groups=1,
    padding_mode="zeros",
    layout="NCHW",
    activation=None,
    add=None,
    add_after=None,
):
    """x (N, C, ...) or (N, ..., C), w (M, C/groups, ...), of any axes; everything for each axis."""
    kind = np.int64 if np.issubdtype(x.dtype, np.integer) else np.float64
    x, w = x.astype(kind), w.astype(kind)
    last = layout[-1] == "C"
    if last:
        x = np.moveaxis(x, -1, 1)
    x = np.pad(x, ((0, 0), (0, 0), *padding), mode=_NUMPY_MODE[padding_mode])
    (n, c, *size), (m, _, *taps) = x.shape, w.shape
    axes = list(zip(size, taps, stride, dilation))
    out = [(size - d * (k - 1) - 1) // s + 1 for size, k, s, d in axes]
    y = np.zeros((n, groups, m // groups, *out), kind)
    x = x.reshape(n, groups, c // groups, *size)
    w = w.reshape(groups, m // groups, c // groups, *taps)
    for tap in np.ndindex(*taps):
        places = (
            slice(i * d, i * d + (count - 1) * s + 1, s)
            for i, count, (_, _, s, d) in zip(tap, out, axes)
        )
        y += np.einsum("ngc...,gmc->ngm...", x[(..., *places)], w[(..., *tap)])
    y = y.reshape(n, m, *out)
    if bias is not None:
        y += bias.astype(kind)[(slice(None), *[None] * len(out))]
    if add is not None:
        y = y + (np.moveaxis(add, -1, 1) if last else add)
    y = activate(y, activation)
    if add_after is not None:
        y = y + (np.moveaxis(add_after, -1, 1) if last else add_after)
    return np.moveaxis(y, 1, -1) if last else y


def slowly(x, w, stride=(1, 1), padding=((0, 0), (0, 0)), dilation=(1, 1), groups=1, mode="zeros"):
    """The same by loops over single numbers, to check `convolve` itself; NCHW integers."""
    n, _, height, width = x.shape
    m, per_group, kh, kw = w.shape
    (top, bottom), (left, right) = padding
    out_h = (height + top + bottom - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    out_w = (width + left + right - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    y = np.zeros((n, m, out_h, out_w), np.int64)
    for index in np.ndindex(*y.shape):
        image, filter, row, col = index
        first = filter // (m // groups) * per_group
        for channel, i, j in np.ndindex(per_group, kh, kw):
            at = (
                _source(row * stride[0] + i * dilation[0] - top, height, mode),
                _source(col * stride[1] + j * dilation[1] - left, width, mode),
            )
            if None not in at:
                y[index] += int(w[filter, channel, i, j]) * int(x[(image, first + channel, *at)])
    return y


def _source(position, size, mode):
    if 0 <= position < size:
        return position
    if mode == "zeros":
        return None
    if mode == "replicate":
        return min(max(position, 0), size - 1)
    if mode == "circular":
        return position % size
    return -position if position < 0 else 2 * (size - 1) - position
