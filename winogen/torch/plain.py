"""Operators of a graph by torch's functions: for layers that stay torch's, and for gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from winogen.conv import arguments
from winogen.graph import (
    Activation,
    Add,
    Affine,
    AveragePool,
    Concat,
    Conv,
    ConvTranspose,
    GlobalAverage,
    Graph,
    GroupNorm,
    LayerNorm,
    MaxPool,
    Multiply,
    Node,
    Pad,
    Repeat,
    Shuffle,
    Slice,
    Softmax,
    Spread,
)
from winogen.graph.ops.base import Operator, by_axis
from winogen.torch.activations import apply
from winogen.torch.arrays import memory_format

_MODES = {
    "zeros": "constant",
    "reflect": "reflect",
    "replicate": "replicate",
    "circular": "circular",
}


def activate(y: torch.Tensor, activation: Any) -> torch.Tensor:
    """Return an activation, spelled as `winogen.conv2d` takes it."""
    asked = arguments.activation(activation)
    parameters = asked.parameters
    if asked.per_filter:
        parameters = (torch.as_tensor(activation[1], dtype=y.dtype),)
    return apply(asked.activation, parameters, y)


def pad(x: torch.Tensor, padding: Sequence[int], mode: str) -> torch.Tensor:
    """Return ``x`` padded before and after each axis."""
    return F.pad(x, from_last(padding), mode=_MODES[mode])


def from_last(padding: Sequence[int]) -> list[int]:
    """Return padding as `F.pad` takes it, whose first axis is the last."""
    return [end for ends in by_axis(padding)[::-1] for end in ends]


def _per_channel(numbers: Any, x: torch.Tensor) -> torch.Tensor:
    """Numbers of each channel, to be met with ``x``."""
    met: torch.Tensor = numbers.reshape(-1, *[1] * (x.dim() - 2))
    return met


def _of_rank(name: str, x: torch.Tensor) -> Any:
    """A function of torch for the axes of ``x``, as `F.conv2d`."""
    return getattr(F, f"{name}{x.dim() - 2}d")


class Plain(nn.Module):
    """One node of a graph, run by torch; takes what the node reads.

    Arrays of the operator are buffers. What torch does with each operator is in `_RUN`.
    """

    weight: Any
    bias: Any

    def __init__(self, node: Node):
        super().__init__()
        op = node.op
        self.label, self.text = node.label, str(op)
        self.has_add = bool(node.add)
        self.run: Callable[..., torch.Tensor] = _RUN[type(op)]
        self.op: Any = copy(op)
        shared = np.ascontiguousarray if op.is_convolution else np.array  # or copies
        for name, array in zip(("weight", "bias"), op.weights or (None, None)):
            self.register_buffer(name, None if array is None else torch.from_numpy(shared(array)))
        for name in vars(op).keys() & {"weight", "bias", "scale", "shift"}:
            object.__setattr__(self.op, name, None)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Compute the node."""
        return self.run(self, *inputs)

    def ordered(self, layout: str) -> Plain:
        """Return the same with filters that lie in memory as a layout has them."""
        if self.weight is not None:
            order = memory_format(layout, self.weight.dim())
            self.weight = self.weight.contiguous(memory_format=order)
        return self

    def extra_repr(self) -> str:
        """What it computes, and the layer it comes from."""
        return f"{self.label}: {self.text}" if self.label else self.text


def _conv(plain: Plain, x: torch.Tensor, *seams: torch.Tensor) -> torch.Tensor:
    op, weight, sides = plain.op, plain.weight, plain.op.padding
    padding = sides[::2]
    if op.padding_mode != "zeros" or padding != sides[1::2]:
        x, padding = pad(x, sides, op.padding_mode), (0,) * len(padding)
    if not any(sides) and _is_linear(plain, x):
        y = F.linear(x.movedim(1, -1), weight.flatten(1), plain.bias).movedim(-1, 1)
    elif x.dim() != weight.dim():  # a factor, which goes with any number of axes
        weight = weight.reshape(-1, *[1] * (x.dim() - 1))
        y = _of_rank("conv", x)(x, weight, plain.bias, groups=op.groups)
    else:
        options = op.stride, padding, op.dilation, op.groups
        y = _of_rank("conv", x)(x, weight, plain.bias, *options)
    if plain.has_add:
        y = y + seams[0]
    y = activate(y, op.activation)
    return y + seams[-1] if len(seams) > plain.has_add else y


def _is_linear(plain: Plain, x: torch.Tensor) -> bool:
    """Whether a convolution is one product with a matrix, of a single pixel."""
    pixel = (1,) * (x.dim() - 2)
    alone = x.shape[2:] == plain.weight.shape[2:] == pixel
    return alone and plain.op.groups == 1


def _transposed(plain: Plain, x: torch.Tensor) -> torch.Tensor:
    op = plain.op
    options = op.stride, op.padding[::2], op.output_padding, op.groups, op.dilation
    return activate(
        _of_rank("conv_transpose", x)(x, plain.weight, plain.bias, *options), op.activation
    )


def _affine(plain: Plain, x: torch.Tensor) -> torch.Tensor:
    return x * _per_channel(plain.weight, x) + _per_channel(plain.bias, x)


def _activation(plain: Plain, x: torch.Tensor) -> torch.Tensor:
    return activate(x, plain.op.activation)


def _group_norm(plain: Plain, x: torch.Tensor, *added: torch.Tensor) -> torch.Tensor:
    op, x = plain.op, sum(added, x)
    if op.needs == "image":
        y = F.instance_norm(x, weight=plain.weight, bias=plain.bias, eps=op.epsilon)
    else:
        y = F.group_norm(x, op.groups, plain.weight, plain.bias, op.epsilon)
    return activate(y, op.activation)


def _layer_norm(plain: Plain, x: torch.Tensor) -> torch.Tensor:
    last, sizes = x.movedim(1, -1), (x.shape[1],)
    y = F.layer_norm(last, sizes, plain.weight, plain.bias, plain.op.epsilon)
    return activate(y.movedim(-1, 1), plain.op.activation)


def _pad(plain: Plain, x: torch.Tensor) -> torch.Tensor:
    return pad(x, plain.op.padding, plain.op.mode)


def _slice(plain: Plain, x: torch.Tensor) -> torch.Tensor:
    return x[:, plain.op.start : plain.op.stop]


def _concat(plain: Plain, *inputs: torch.Tensor) -> torch.Tensor:
    return torch.cat(inputs, 1)


def _add(plain: Plain, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return x + other


def _multiply(plain: Plain, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return x * other


def _max_pool(plain: Plain, x: torch.Tensor) -> torch.Tensor:
    op = plain.op
    padding = op.padding[::2]
    if padding != op.padding[1::2] or any(2 * n > k for n, k in zip(padding, op.kernel)):
        x, padding = F.pad(x, from_last(op.padding), value=-torch.inf), (0,) * len(padding)
    pool = _of_rank("max_pool", x)
    largest: torch.Tensor = pool(x, op.kernel, op.stride, padding, op.dilation)
    return largest


def _average_pool(plain: Plain, x: torch.Tensor) -> torch.Tensor:
    op = plain.op
    x, there = (F.pad(y, from_last(op.padding)) for y in (x, torch.ones_like(x[:1, :1])))
    pool = _of_rank("avg_pool", x)
    means: torch.Tensor = pool(x, op.kernel, op.stride)
    return means if op.counted else means / pool(there, op.kernel, op.stride)


def _global_average(plain: Plain, x: torch.Tensor) -> torch.Tensor:
    return x.mean(tuple(range(2, x.dim())), keepdim=True)


def _softmax(plain: Plain, x: torch.Tensor) -> torch.Tensor:
    return x.softmax(1)


def _shuffle(plain: Plain, x: torch.Tensor) -> torch.Tensor:
    return x.unflatten(1, (plain.op.groups, -1)).transpose(1, 2).flatten(1, 2)


def _repeat(plain: Plain, x: torch.Tensor) -> torch.Tensor:
    for axis, count in enumerate(plain.op.factor, 2):
        x = x.repeat_interleave(count, axis)
    return x


def _spread(plain: Plain, x: torch.Tensor) -> torch.Tensor:
    high, wide = plain.op.factor
    n, c, height, width = x.shape
    m = c // (high * wide)
    if plain.op.order == "channels":
        x = x.reshape(n, m, high, wide, height, width).permute(0, 1, 4, 2, 5, 3)
    else:
        x = x.reshape(n, high, wide, m, height, width).permute(0, 3, 4, 1, 5, 2)
    return x.reshape(n, m, height * high, width * wide)


# What torch does with each operator, with the module and what its node reads.
_RUN: dict[type[Operator], Callable[..., torch.Tensor]] = {
    Activation: _activation,
    Add: _add,
    Affine: _affine,
    AveragePool: _average_pool,
    Concat: _concat,
    Conv: _conv,
    ConvTranspose: _transposed,
    GlobalAverage: _global_average,
    GroupNorm: _group_norm,
    LayerNorm: _layer_norm,
    MaxPool: _max_pool,
    Multiply: _multiply,
    Pad: _pad,
    Repeat: _repeat,
    Shuffle: _shuffle,
    Slice: _slice,
    Softmax: _softmax,
    Spread: _spread,
}


class PlainGraph(nn.Module):
    """A graph without Opaque nodes, run by torch node by node."""

    def __init__(self, graph: Graph):
        super().__init__()
        self.inputs, self.outputs = graph.inputs, graph.outputs
        self.steps = [(node.reads, node.output) for node in graph.nodes]
        self.plain = nn.ModuleList(Plain(node) for node in graph.nodes)

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """Return the outputs."""
        values = dict(zip(self.inputs, inputs))
        for (reads, output), node in zip(self.steps, self.plain):
            values[output] = node(*(values[name] for name in reads))
        return [values[name] for name in self.outputs]
