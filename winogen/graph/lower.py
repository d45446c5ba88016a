"""A segment as steps, each of them one convolution that reads and writes channels of buffers.

Steps that compute no sums, such as pooling, are their own. Whatever else could not be fused becomes
a depthwise convolution 1x1 with weights of one: a sum adds by its seam, an activation follows,
padding pads, and a copy copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from winogen.graph.ir import (
    Activation,
    Add,
    Affine,
    Concat,
    Conv,
    Graph,
    MaxPool,
    Moving,
    Node,
    Pad,
    QConv,
    Repeat,
    Slice,
    Spread,
)
from winogen.graph.places import Buffer, Place, places
from winogen.graph.relayout import Relayout
from winogen.graph.shapes import Shape

COPY = "copy"
MOVING = (MaxPool, Repeat, Spread)


@dataclass(frozen=True, eq=False)
class Step:
    """A convolution between places, or what moves numbers.

    ``key`` names its parameters, which steps for other shapes share. Parameters of a convolution
    that come with each call, "weight", "bias" or "slopes", are in ``arrays``.
    """

    key: str
    label: str
    op: Conv | QConv | Moving | Relayout
    shape: Shape  # of its input
    input: Place
    output: Place
    add: Place | None = None
    add_after: Place | None = None
    arrays: Mapping[str, Place] = field(default_factory=dict)

    @property
    def reads(self) -> tuple[Place, ...]:
        """The places of all that it reads."""
        return tuple(p for p in (self.input, self.add, self.add_after) if p is not None)


def lower(
    graph: Graph, shapes: Mapping[str, Shape], dtype: np.dtype
) -> tuple[list[Step], dict[Buffer, Shape]]:
    """Return the steps of a graph without Opaque nodes, and the shapes of all buffers.

    ``shapes`` are those of the values.

    Steps of nodes come in their order. A concatenation is no step where its parts were written to
    their places right away; what could not be is copied.
    """
    where = places(graph, shapes)
    steps: list[Step] = []
    buffers: dict[Buffer, Shape] = {}
    for name, place in where.items():
        batch, _, *size = shapes[name]
        end = max(buffers.get(place.buffer, (0, 0))[1], place.channel + place.channels)
        buffers[place.buffer] = (batch, end, *size)

    def copy(key: str, name: str, target: Place) -> None:
        source, shape = where[name], shapes[name]
        buffers.setdefault(target.buffer, shape)  # an output that is an input, or given twice
        steps.append(Step(key, COPY, _identity(shape[1], dtype), shape, source, target))

    for node in graph.nodes:
        target, op = where[node.output], node.op
        if isinstance(op, Concat):
            channel = target.channel
            for part, name in enumerate(node.inputs):
                source = where[name]
                if (source.buffer, source.channel) != (target.buffer, channel):
                    copy(
                        f"{node.output} {part}",
                        name,
                        Place(target.buffer, channel, source.channels),
                    )
                channel += source.channels
            continue
        source, shape = where[node.inputs[0]], shapes[node.inputs[0]]
        if isinstance(op, Slice):
            source, shape = source.cut(op.start, op.stop), shapes[node.output]
            if source != target:
                one = _identity(shape[1], dtype)
                steps.append(Step(node.output, COPY, one, shape, source, target))
            continue
        step = op if isinstance(op, (QConv, *MOVING)) else as_conv(node, shape[1], dtype)
        add, after = (where[name] if name else None for name in (*node.inputs[1:], "", "")[:2])
        label = node.label or str(op)
        steps.append(Step(node.output, label, step, shape, source, target, add, after))
    for number, name in enumerate(graph.outputs):
        wanted = Place(("output", number), 0, shapes[name][1])
        if where[name] != wanted:
            copy(f"output {number}", name, wanted)
    return steps, buffers


def as_conv(node: Node, channels: int, dtype: np.dtype) -> Conv:
    """Return the convolution that computes a node, of an input with so many channels."""
    op = node.op
    if isinstance(op, Conv):
        return op
    if isinstance(op, Affine):
        weight = np.ascontiguousarray(op.scale)[:, None, None, None]
        return Conv(weight, op.shift, groups=channels)
    one = _identity(channels, dtype)
    if isinstance(op, Add):
        return one
    if isinstance(op, Activation):
        return Conv(one.weight, groups=channels, activation=op.activation)
    assert isinstance(op, Pad)
    return Conv(one.weight, groups=channels, padding=op.padding, padding_mode=op.mode)


def _identity(channels: int, dtype: np.dtype) -> Conv:
    return Conv(np.ones((channels, 1, 1, 1), dtype), groups=channels)
