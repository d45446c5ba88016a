"""A graph by its definition, in numpy: integers stay exact, floats are float64."""

import numpy as np
from conv import activations
from conv.reference import convolve

from winogen.graph import (
    Activation,
    Add,
    Affine,
    AveragePool,
    Concat,
    Conv,
    ConvTranspose,
    GlobalAverage,
    GroupNorm,
    LayerNorm,
    MaxPool,
    Multiply,
    Pad,
    Repeat,
    Shuffle,
    Slice,
    Softmax,
    Spread,
)
from winogen.graph.ops.base import by_axis

_MODES = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def compute(graph, inputs):
    """All values of the graph, from inputs (N, C, H, W) or (N, C, D, H, W)."""
    values = dict(zip(graph.inputs, inputs))
    for node in graph.nodes:
        op, x = node.op, [values[name] for name in node.reads]
        if isinstance(op, Conv):
            bias, kind = op.bias, x[0].dtype
            op = op.of_rank(x[0].ndim - 2)
            y = convolve(
                x[0],
                np.asarray(op.weight, kind),
                None if bias is None else bias.astype(kind),
                op.stride,
                by_axis(op.padding),
                op.dilation,
                op.groups,
                op.padding_mode,
            )
            if node.add:
                y = y + values[node.add]
            y = activate(y, op.activation)
            if node.add_after:
                y = y + values[node.add_after]
        elif isinstance(op, ConvTranspose):
            y = activate(scattered(x[0], op), op.activation)
        elif isinstance(op, Affine):
            y = x[0] * per_channel(op.scale, x[0]).astype(x[0].dtype)
            y = y + per_channel(op.shift, x[0]).astype(x[0].dtype)
        elif isinstance(op, Activation):
            y = activate(x[0], op.activation)
        elif isinstance(op, Add):
            y = x[0] + x[1]
        elif isinstance(op, Concat):
            y = np.concatenate(x, axis=1)
        elif isinstance(op, Pad):
            y = np.pad(x[0], ((0, 0), (0, 0), *by_axis(op.padding)), mode=_MODES[op.mode])
        elif isinstance(op, Slice):
            y = x[0][:, op.start : op.stop]
        elif isinstance(op, MaxPool):
            y = largest(x[0], op)
        elif isinstance(op, AveragePool):
            y = mean(x[0], op)
        elif isinstance(op, GlobalAverage):
            y = x[0].mean(axis=pixels(x[0]), keepdims=True)
        elif isinstance(op, Multiply):
            y = x[0] * x[1]
        elif isinstance(op, (GroupNorm, LayerNorm)):
            y = normalized(sum(x), op)
        elif isinstance(op, Softmax):
            powers = np.exp(x[0] - x[0].max(axis=1, keepdims=True))
            y = powers / powers.sum(axis=1, keepdims=True)
        elif isinstance(op, Shuffle):
            y = shuffled(x[0], op.groups)
        elif isinstance(op, Repeat):
            y = x[0]
            for axis, count in enumerate(op.factor, 2):
                y = y.repeat(count, axis=axis)
        elif isinstance(op, Spread):
            y = spread(x[0], op)
        values[node.output] = y
    return values


def activate(y, activation):
    """What an activation means; volumes have their planes below each other."""
    flat = y.reshape(*y.shape[:2], -1, y.shape[-1])
    return activations.activate(flat, activation).reshape(y.shape)


def pixels(x):
    """The axes of height and width, of volumes of the depth, too."""
    return tuple(range(2, x.ndim))


def per_channel(numbers, x):
    """Numbers of each channel, to be met with x."""
    return numbers.reshape(-1, *[1] * (x.ndim - 2))


def scattered(x, op):
    """Each input, times the kernel, is added to the outputs."""
    n, channels, *size = x.shape
    filters, _, *taps = op.weight.shape
    taps = [d * (k - 1) + 1 for k, d in zip(taps, op.dilation)]
    whole = [
        (count - 1) * step + k + more
        for count, step, k, more in zip(size, op.stride, taps, op.output_padding)
    ]
    y = np.zeros((n, op.groups, filters // op.groups, *whole), x.dtype)
    weight = np.asarray(op.weight, x.dtype).reshape(op.groups, -1, *op.weight.shape[1:])
    parts = x.reshape(n, op.groups, channels // op.groups, *size)
    for pixel in np.ndindex(*size):
        added = np.einsum("ngc,gmc...->ngm...", parts[(..., *pixel)], weight)
        axes = zip(pixel, op.stride, taps, op.dilation)
        places = [slice(i * s, i * s + k, d) for i, s, k, d in axes]
        y[(..., *places)] += added
    kept = [slice(before, count - after) for count, (before, after) in zip(whole, op.ends)]
    y = y[(..., *kept)].reshape(n, filters, *op.sizes(size))
    return y if op.bias is None else y + per_channel(op.bias.astype(x.dtype), y)


def largest(x, op):
    """Maxima of windows; what is padded is smaller than all."""
    smallest = x.min() if np.issubdtype(x.dtype, np.integer) else -np.inf
    x = np.pad(x, ((0, 0), (0, 0), *by_axis(op.padding)), constant_values=smallest)
    reach = [d * (k - 1) + 1 for d, k in zip(op.dilation, op.kernel)]
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, axis=pixels(x))
    windows = windows[(..., *(slice(None, None, step) for step in op.dilation))]
    return stepped(windows, op.stride).max(axis=tuple(range(x.ndim, windows.ndim)))


def stepped(windows, stride):
    """Those windows that a stride leaves."""
    return windows[(slice(None), slice(None), *(slice(None, None, step) for step in stride))]


def mean(x, op):
    """Means of windows, of what is there or of all."""

    def sums(x):
        x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), *by_axis(op.padding)))
        windows = np.lib.stride_tricks.sliding_window_view(x, op.kernel, axis=pixels(x))
        return stepped(windows, op.stride).sum(axis=tuple(range(x.ndim, windows.ndim)))

    return sums(x) / (np.prod(op.kernel) if op.counted else sums(np.ones_like(x)))


def normalized(x, op):
    """Numbers less their mean, by their deviation: of groups of channels, or of each pixel."""
    groups, axes = (op.groups, None) if isinstance(op, GroupNorm) else (1, (1, 2))
    axes = axes or tuple(range(2, x.ndim + 1))
    parts = x.astype(np.float64).reshape(len(x), groups, -1, *x.shape[2:])
    apart = parts - parts.mean(axis=axes, keepdims=True)
    y = (apart / np.sqrt((apart**2).mean(axis=axes, keepdims=True) + op.epsilon)).reshape(x.shape)
    for array, meet in ((op.scale, np.multiply), (op.shift, np.add)):
        y = y if array is None else meet(y, per_channel(array, y))
    return activate(y, op.activation)


def shuffled(x, groups):
    """Channels (g, c) as (c, g)."""
    n, c, *size = x.shape
    return x.reshape(n, groups, c // groups, *size).swapaxes(1, 2).reshape(x.shape)


def spread(x, op):
    """Channels over blocks of pixels."""
    (high, wide), (n, c, height, width) = op.factor, x.shape
    m = c // (high * wide)
    if op.order == "channels":
        x = x.reshape(n, m, high, wide, height, width).transpose(0, 1, 4, 2, 5, 3)
    else:
        x = x.reshape(n, high, wide, m, height, width).transpose(0, 3, 4, 1, 5, 2)
    y = x.reshape(n, m, height * high, width * wide)
    top, bottom, left, right = op.crop
    return y[:, :, top : y.shape[2] - bottom, left : y.shape[3] - right]
