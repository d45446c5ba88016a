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
from winogen.graph.ir import Moving
from winogen.torch.activations import apply

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
    """Return ``x`` padded at the top, bottom, left and right."""
    top, bottom, left, right = padding
    return F.pad(x, (left, right, top, bottom), mode=_MODES[mode])


def averaged(x: torch.Tensor, op: AveragePool) -> torch.Tensor:
    """Return the means of windows."""
    top, bottom, left, right = op.padding
    x, there = (F.pad(y, (left, right, top, bottom)) for y in (x, torch.ones_like(x[:1, :1])))
    means = F.avg_pool2d(x, op.kernel, op.stride)
    return means if op.counted else means / F.avg_pool2d(there, op.kernel, op.stride)


def moved(x: torch.Tensor, op: Any) -> torch.Tensor:
    """Return what an operator makes of ``x`` alone that is a step as it is."""
    if isinstance(op, MaxPool):
        top, bottom, left, right = op.padding
        high, wide = op.kernel
        if (top, left) != (bottom, right) or 2 * top > high or 2 * left > wide:
            x, top, left = F.pad(x, (left, right, top, bottom), value=-torch.inf), 0, 0
        return F.max_pool2d(x, op.kernel, op.stride, (top, left), op.dilation)
    if isinstance(op, AveragePool):
        return averaged(x, op)
    if isinstance(op, GlobalAverage):
        return x.mean((2, 3), keepdim=True)
    if isinstance(op, Softmax):
        return x.softmax(1)
    if isinstance(op, Shuffle):
        return x.unflatten(1, (op.groups, -1)).transpose(1, 2).flatten(1, 2)
    high, wide = op.factor
    if isinstance(op, Repeat):
        return x.repeat_interleave(high, 2).repeat_interleave(wide, 3)
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
            self.kind, self.op = "conv", op.options
        elif isinstance(op, ConvTranspose):
            self._set(ordinary(np.asarray(op.weight), op.groups), op.bias)  # its own inverse
            high, wide = op.ends
            options = op.stride, (high[0], wide[0]), op.output_padding, op.groups
            self.kind, self.op = "transposed", (options, op.activation)
        elif isinstance(op, Affine):
            self._set(op.scale[:, None, None], op.shift[:, None, None])
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
        elif isinstance(op, Moving) and not isinstance(op, Multiply):
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
            return x * self.weight + self.bias
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
            last, sizes = x.permute(0, 2, 3, 1), (x.shape[1],)
            y = F.layer_norm(last, sizes, self.weight, self.bias, op.epsilon).permute(0, 3, 1, 2)
        return activate(y, op.activation)

    def _conv(self, x: torch.Tensor, seams: tuple[torch.Tensor, ...]) -> torch.Tensor:
        options = self.op
        (top, bottom), (left, right) = options["padding"]
        mode, padding = options["padding_mode"], (top, left)
        if mode != "zeros" or (top, left) != (bottom, right):
            x, padding = pad(x, (top, bottom, left, right), mode), (0, 0)
        if not any((top, bottom, left, right)) and self._is_linear(x):
            filters = self.weight.flatten(1)
            y = F.linear(x.permute(0, 2, 3, 1), filters, self.bias).permute(0, 3, 1, 2)
        else:
            y = self._convolved(x, padding)
        if self.has_add:
            y = y + seams[0]
        y = activate(y, options["activation"])
        return y + seams[-1] if len(seams) > self.has_add else y

    def _transposed(self, x: torch.Tensor) -> torch.Tensor:
        options, activation = self.op
        return activate(F.conv_transpose2d(x, self.weight, self.bias, *options), activation)

    def _is_linear(self, x: torch.Tensor) -> bool:
        """Whether it is one product with a matrix, of a single pixel."""
        alone = x.shape[2:] == (1, 1) and self.weight.shape[2:] == (1, 1)
        return alone and self.op["groups"] == 1

    def _convolved(self, x: torch.Tensor, padding: tuple[int, int]) -> torch.Tensor:
        options = self.op
        return F.conv2d(
            x,
            self.weight,
            self.bias,
            options["stride"],
            padding,
            options["dilation"],
            options["groups"],
        )

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
