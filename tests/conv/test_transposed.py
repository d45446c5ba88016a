"""Transposed layers: integers against a scatter of each input, torch's meaning, and refusals."""

import copy
import pickle

import numpy as np
import pytest
from conv.activations import activate
from hypothesis import given, settings
from hypothesis import strategies as st

import winogen
from winogen.conv import arguments
from winogen.conv.phases import joined, joined_weight, ordinary, phases
from winogen.errors import InvalidType, InvalidValue, Unsupported

FUNCTIONS = {
    1: winogen.conv_transpose1d, 2: winogen.conv_transpose2d, 3: winogen.conv_transpose3d,
}  # fmt: skip
CLASSES = {1: winogen.ConvTranspose1d, 2: winogen.ConvTranspose2d, 3: winogen.ConvTranspose3d}


def scattered(x, w, bias, stride, ends, more, groups, dilation):
    """The definition: each input, times the kernel, is added to the outputs. Channels first."""
    (n, c, *size), (_, own, *taps) = x.shape, w.shape
    rank = len(size)
    whole = [
        (i - 1) * s + d * (k - 1) + 1 + o for i, k, s, d, o in zip(size, taps, stride, dilation, more)
    ]
    y = np.zeros((n, groups, own, *whole))
    xs = x.reshape(n, groups, c // groups, *size).astype(np.float64)
    ws = w.reshape(groups, c // groups, own, *taps).astype(np.float64)
    for at in np.ndindex(*size):
        added = np.einsum("ngc,gcm...->ngm...", xs[(..., *at)], ws)
        places = tuple(
            slice(i * s, i * s + d * (k - 1) + 1, d) for i, s, d, k in zip(at, stride, dilation, taps)
        )
        y[(..., *places)] += added
    y = y.reshape(n, groups * own, *whole)
    y = y[(..., *(slice(before, count - after) for (before, after), count in zip(ends, whole)))]
    return y if bias is None else y + bias.reshape(-1, *[1] * rank)


def ints(rng, *shape):
    return rng.integers(-3, 4, shape).astype(np.float32)


def in_layout(x, last):
    return np.ascontiguousarray(np.moveaxis(x, 1, -1)) if last else x


@st.composite
def layers(draw):
    """A layer of small integers whose result every algorithm can hold exactly."""
    rank = draw(st.sampled_from([1, 2, 2, 2, 3]))
    axes = []
    for _ in range(rank):
        taps, stride, dilation = (draw(st.integers(1, most)) for most in (5, 4, 3))
        dilation = dilation if draw(st.booleans()) else 1
        size, more = draw(st.integers(1, 9)), draw(st.integers(0, max(stride, dilation) - 1))
        whole = (size - 1) * stride + dilation * (taps - 1) + 1 + more
        before = draw(st.integers(0, min(4, whole - 1)))
        after = draw(st.integers(0, min(4, whole - 1 - before)))
        axes.append((size, taps, stride, dilation, (before, after), more))
    channels, filters = draw(st.sampled_from([(1, 1), (3, 5), (4, 16), (9, 8)]))
    return rank, axes, channels, filters, draw(st.sampled_from([1, 1, 2])), draw(st.integers(0, 99))


@given(layers(), st.booleans(), st.sampled_from(["auto", "direct", "mcmr"]))
@settings(max_examples=60, deadline=None)
def test_integers_are_exact(layer, last, algorithm):
    rank, axes, channels, filters, groups, seed = layer
    size, taps, stride, dilation, ends, more = zip(*axes)
    rng = np.random.default_rng(seed)
    # F(2, 2) and F(2, 3) halve filters once or twice along each axis: even ones stay integers.
    x, w = ints(rng, 2, groups * channels, *size), 16 * ints(rng, groups * channels, filters, *taps)
    bias = ints(rng, groups * filters)
    expected = in_layout(scattered(x, w, bias, stride, ends, more, groups, dilation), last)
    layout = arguments.LAYOUTS[rank][last]
    how = {"algorithm": algorithm, "layout": layout}
    few = [-(-k // s) for k, s in zip(taps, stride)][-2:]
    if algorithm == "mcmr":
        if max(dilation[-2:]) > 1 or max(few) < 2 or max(few) > 3:
            with pytest.raises(Unsupported) if max(few) < 2 else pytest.raises(Unsupported) if max(
                dilation[-2:]
            ) > 1 else pytest.raises(ZeroDivisionError):
                FUNCTIONS[rank](x, w, stride=stride, dilation=dilation, groups=groups, **how)
                1 / 0
            return
        how["tile"] = 2
    elif algorithm == "auto":
        how["tolerance"] = 1e-9 if rank > 3 else None
        how["algorithm"] = "direct"
    out = np.full(expected.shape, np.nan, np.float32)
    given_ = FUNCTIONS[rank](
        in_layout(x, last), w, bias, stride, ends, more, groups, dilation, **how, out=out
    )
    assert given_ is out
    assert np.array_equal(out, expected)
