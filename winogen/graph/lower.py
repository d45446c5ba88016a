"""A segment as steps: convolutions and maps that read and write channels of buffers.

What could not be fused becomes a map: factors with a ReLU or without, sums, copies. Paddings and
other activations become depthwise convolutions 1x1 with weights of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from winogen.graph.ir import Graph, Node
from winogen.graph.maps import Map, Stage, stages_of
from winogen.graph.ops import Concat, ConvTranspose, Operator, Plain, Point, Slice, Spread
from winogen.graph.ops.base import by_axis
from winogen.graph.places import Buffer, Place, places
from winogen.graph.shapes import Shape

COPY = "copy"


@dataclass(frozen=True, eq=False)
class Step:
    """A convolution between places, or a map.

    ``key`` names its parameters, which steps for other shapes share. Parameters that come with each
    call, "weight", "bias" or "slopes", are in ``arrays``. ``add`` is the second operand of a map,
    ``others`` are all further operands of a `Plain` operator.
    ``planes`` says of a map whether it is one of each plane of volumes.
    """

    key: str
    label: str
    op: Operator  # a convolution, a map, a `Plain` or a `Relayout`
    shape: Shape  # of its input
    input: Place
    output: Place
    add: Place | None = None
    add_after: Place | None = None
    arrays: Mapping[str, Place] = field(default_factory=dict)
    others: tuple[Place, ...] = ()
    planes: bool = False

    @property
    def reads(self) -> tuple[Place, ...]:
        """The places of all that it reads."""
        return tuple(p for p in (self.input, self.add, self.add_after, *self.others) if p)


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
        steps.append(Step(key, COPY, Point(), shape, source, target))

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
                steps.append(Step(node.output, COPY, Point(), shape, source, target))
            continue
        if isinstance(op, Plain):
            others = tuple(where[name] for name in node.inputs[1:])
            label = node.label or op.name
            steps.append(Step(node.output, label, op, shape, source, target, others=others))
            continue
        if isinstance(op, ConvTranspose):
            steps += _transposed(node, op, shape, source, target, buffers)
            continue
        if len(shape) == 5 and op.goes_by_stages:
            steps += _by_stages(node, stages_of(op), shape, source, target, buffers)
            continue
        step = op.step(shape, dtype, bool(node.add), bool(node.add_after))
        add, after = (where[name] if name else None for name in (*node.inputs[1:], "", "")[:2])
        label = node.label or str(op)
        steps.append(Step(node.output, label, step, shape, source, target, add, after))
    for number, name in enumerate(graph.outputs):
        wanted = Place(("output", number), 0, shapes[name][1])
        if where[name] != wanted:
            copy(f"output {number}", name, wanted)
    return steps, buffers


def _transposed(
    node: Node,
    op: ConvTranspose,
    shape: Shape,
    source: Place,
    target: Place,
    buffers: dict[Buffer, Shape],
) -> Iterator[Step]:
    """A convolution of all phases, with a buffer of its own, and the steps that spread it."""
    conv, label = op.conv, node.label or str(op)
    order = "pixels" if op.groups == 1 else "channels"
    if set(op.stride) == {1} and not any(op.crop):
        yield Step(node.output, label, conv, shape, source, target)
        return
    filters, _, *taps = conv.weight.shape
    sizes = zip(shape[2:], by_axis(conv.padding), taps, conv.dilation)
    phases = (shape[0], filters, *(n + sum(ends) - d * (k - 1) for n, ends, k, d in sizes))
    inner = _between(phases, buffers)
    yield Step(node.output, label, conv, shape, source, inner)
    *deep, high, wide = op.stride
    # The steps take the phases off in the order in which channels have them, the outermost first.
    stages = [Stage(Spread((step, 1), order, (*op.crop[:2], 0, 0)), False) for step in deep]
    stages.append(Stage(Spread((high, wide), order, op.crop[-4:]), bool(deep)))
    if order == "channels":  # channel, depth, plane: from behind
        stages.reverse()
    spread = replace(node, outputs=(f"{node.output} spread",), label=label)
    yield from _by_stages(spread, stages, phases, inner, target, buffers)


def _between(shape: Shape, buffers: dict[Buffer, Shape]) -> Place:
    """A buffer of its own for what one node's steps hand on."""
    buffer = ("arena", sum(kind == "arena" for kind, _ in buffers))
    buffers[buffer] = shape
    return Place(buffer, 0, shape[1])


def _by_stages(
    node: Node,
    stages: Sequence[Stage],
    shape: Shape,
    source: Place,
    target: Place,
    buffers: dict[Buffer, Shape],
) -> Iterator[Step]:
    """The steps of an operator of volumes, one behind the other; of maps there is one."""
    label = node.label or str(node.op)
    for number, (op, planes) in enumerate(stages):
        last = number == len(stages) - 1
        made = shape if last else _after(op, shape, planes)
        place = target if last else _between(made, buffers)
        key = node.output if not number else f"{node.output} {number}"
        yield Step(key, label, op, shape, source, place, planes=planes)
        source, shape = place, made


def _after(op: Map, shape: Shape, planes: bool) -> Shape:
    """The shape that a stage makes of volumes."""
    batch, channels, *size = shape
    axes = slice(1, 3) if planes else slice(0, 1)
    size[axes] = op.sizes_after(size[axes])
    return (batch, op.channels_after(channels), *size)
