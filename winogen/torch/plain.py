"""Operators of a graph by torch's functions: for layers that stay torch's, and for gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from winogen.conv import arguments
from winogen.conv.phases import ordinary
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
)
from winogen.graph.ops.base import by_axis
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


def averaged(x: torch.Tensor, op: AveragePool) -> torch.Tensor:
    """Return the means of windows."""
    x, there = (F.pad(y, from_last(op.padding)) for y in (x, torch.ones_like(x[:1, :1])))
    pool = _of_rank("avg_pool", x)
    means: torch.Tensor = pool(x, op.kernel, op.stride)
    return means if op.counted else means / pool(there, op.kernel, op.stride)


def moved(x: torch.Tensor, op: Any) -> torch.Tensor:
    """Return what an operator makes of ``x`` alone that is a step as it is."""
    if isinstance(op, MaxPool):
        padding = op.padding[::2]
        if padding != op.padding[1::2] or any(2 * n > k for n, k in zip(padding, op.kernel)):
            x, padding = F.pad(x, from_last(op.padding), value=-torch.inf), (0,) * len(padding)
        largest: torch.Tensor = _of_rank("max_pool", x)(
            x, op.kernel, op.stride, padding, op.dilation
        )
        return largest
    if isinstance(op, AveragePool):
        return averaged(x, op)
    if isinstance(op, GlobalAverage):
        return x.mean(tuple(range(2, x.dim())), keepdim=True)
    if isinstance(op, Softmax):
        return x.softmax(1)
    if isinstance(op, Shuffle):
        return x.unflatten(1, (op.groups, -1)).transpose(1, 2).flatten(1, 2)
    if isinstance(op, Repeat):
        for axis, count in enumerate(op.factor, 2):
            x = x.repeat_interleave(count, axis)
        return x
    high, wide = op.factor
    n, c, height, width = x.shape
    m = c // (high * wide)
    if op.order == "channels":
        x = x.reshape(n, m, high, wide, height, width).permute(0, 1, 4, 2, 5, 3)
    else:
        x = x.reshape(n, high, wide, m, height, width).permute(0, 3, 4, 1, 5, 2)
    return x.reshape(n, m, height * high, width * wide)


class Plain(nn.Module):
    """One node of a graph, run by torch; takes what the node reads."""

    def __init__(self, node: Node):
        super().__init__()
        op = node.op
        self.label, self.text = node.label, str(op)
        self.has_add = bool(node.add)
        self.op: Any = None  # without its arrays, which are buffers
        self.register_buffer("weight", None)
        self.register_buffer("bias", None)
        if isinstance(op, Conv):
            self._set(np.asarray(op.weight), op.bias)
            self.kind, self.op = "conv", op.options | {"padding": op.padding}
            self.is_factor = op.is_factor  # which goes with any number of axes
        elif isinstance(op, ConvTranspose):
            self._set(ordinary(np.asarray(op.weight), op.groups), op.bias)  # its own inverse
            options = op.stride, op.padding[::2], op.output_padding, op.groups, op.dilation
            self.kind, self.op = "transposed", (options, op.activation)
        elif isinstance(op, Affine):
            self._set(op.scale, op.shift)
            self.kind = "affine"
        elif isinstance(op, Activation):
            self.kind, self.op = "activation", op.activation
        elif isinstance(op, Pad):
            self.kind, self.op = "pad", (op.padding, op.mode)
        elif isinstance(op, Slice):
            self.kind, self.op = "slice", op
        elif isinstance(op, (GroupNorm, LayerNorm)):
            self.kind, self.op = "norm", replace(op, scale=None, shift=None)
            for name, array in (("weight", op.scale), ("bias", op.shift)):
                setattr(self, name, None if array is None else torch.from_numpy(array.copy()))
        elif op.kinds and op.inputs == range(1, 2):
            self.kind, self.op = "moving", op
        else:
            self.kind = {Add: "add", Multiply: "multiply", Concat: "concat"}[type(op)]

    def _set(self, weight: np.ndarray, bias: np.ndarray | None) -> None:
        self.weight = torch.from_numpy(np.ascontiguousarray(weight))
        self.bias = None if bias is None else torch.from_numpy(np.ascontiguousarray(bias))

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Compute the node."""
        x = inputs[0]
        if self.kind == "conv":
            return self._conv(x, inputs[1:])
        if self.kind == "transposed":
            return self._transposed(x)
        if self.kind == "norm":
            return self._norm(x if len(inputs) == 1 else x + inputs[1])
        if self.kind == "affine":
            return x * _per_channel(self.weight, x) + _per_channel(self.bias, x)
        if self.kind == "activation":
            return activate(x, self.op)
        if self.kind == "pad":
            return pad(x, *self.op)
        if self.kind == "slice":
            return x[:, self.op.start : self.op.stop]
        if self.kind == "moving":
            return moved(x, self.op)
        if self.kind == "multiply":
            return x * inputs[1]
        return x + inputs[1] if self.kind == "add" else torch.cat(inputs, 1)

    def _norm(self, x: torch.Tensor) -> torch.Tensor:
        op = self.op
        if isinstance(op, GroupNorm) and op.needs == "image":
            y = F.instance_norm(x, weight=self.weight, bias=self.bias, eps=op.epsilon)
        elif isinstance(op, GroupNorm):
            y = F.group_norm(x, op.groups, self.weight, self.bias, op.epsilon)
        else:
            last, sizes = x.movedim(1, -1), (x.shape[1],)
            y = F.layer_norm(last, sizes, self.weight, self.bias, op.epsilon).movedim(-1, 1)
        return activate(y, op.activation)

    def _conv(self, x: torch.Tensor, seams: tuple[torch.Tensor, ...]) -> torch.Tensor:
        op = self.op
        sides, mode, groups = op["padding"], op["padding_mode"], op["groups"]
        padding = sides[::2]
        if mode != "zeros" or padding != sides[1::2]:
            x, padding = pad(x, sides, mode), (0,) * len(padding)
        if not any(sides) and self._is_linear(x):
            y = F.linear(x.movedim(1, -1), self.weight.flatten(1), self.bias).movedim(-1, 1)
        elif self.is_factor and x.dim() != self.weight.dim():
            weight = self.weight.reshape(-1, *[1] * (x.dim() - 1))
            y = _of_rank("conv", x)(x, weight, self.bias, groups=groups)
        else:
            options = op["stride"], padding, op["dilation"], groups
            y = _of_rank("conv", x)(x, self.weight, self.bias, *options)
        if self.has_add:
            y = y + seams[0]
        y = activate(y, op["activation"])
        return y + seams[-1] if len(seams) > self.has_add else y

    def _transposed(self, x: torch.Tensor) -> torch.Tensor:
        options, activation = self.op
        y = _of_rank("conv_transpose", x)(x, self.weight, self.bias, *options)
        return activate(y, activation)

    def _is_linear(self, x: torch.Tensor) -> bool:
        """Whether it is one product with a matrix, of a single pixel."""
        pixel = (1,) * (x.dim() - 2)
        alone = x.shape[2:] == self.weight.shape[2:] == pixel
        return alone and self.op["groups"] == 1

    def ordered(self, layout: str) -> Plain:
        """Return the same with filters that lie in memory as a layout has them."""
        if self.weight is not None:
            order = memory_format(layout, self.weight.dim())
            self.weight = self.weight.contiguous(memory_format=order)
        return self

    def extra_repr(self) -> str:
        """What it computes, and the layer it comes from."""
        return f"{self.label}: {self.text}" if self.label else self.text


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
