"""A segment as steps: convolutions and maps that read and write channels of buffers.

What could not be fused becomes a map: factors with a ReLU or without, sums, copies. Paddings and
other activations become depthwise convolutions 1x1 with weights of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
    lowering = _Lowering(graph, shapes, dtype)
    steps = [step for node in graph.nodes for step in lowering.steps(node)]
    for number, name in enumerate(graph.outputs):
        steps += lowering.copy(
            f"output {number}", name, Place(("output", number), 0, shapes[name][1])
        )
    return steps, lowering.buffers


class _Lowering:
    """Where the values of a graph are, and the buffers so far."""

    def __init__(self, graph: Graph, shapes: Mapping[str, Shape], dtype: np.dtype):
        self.where, self.shapes, self.dtype = places(graph, shapes), shapes, dtype
        self.buffers: dict[Buffer, Shape] = {}
        for name, place in self.where.items():
            batch, _, *size = shapes[name]
            end = max(self.buffers.get(place.buffer, (0, 0))[1], place.channel + place.channels)
            self.buffers[place.buffer] = (batch, end, *size)

    def steps(self, node: Node) -> Iterator[Step]:
        """The steps of a node."""
        lowered = _LOWERED.get(type(node.op), _Lowering._usual)
        return lowered(self, node, node.op, self.where[node.output])

    def _read(self, node: Node) -> tuple[Place, Shape]:
        """Where the first input of a node is, and its shape."""
        return self.where[node.inputs[0]], self.shapes[node.inputs[0]]

    def copy(self, key: str, name: str, target: Place) -> Iterator[Step]:
        """The step that brings a value to a place, unless it is there."""
        source, shape = self.where[name], self.shapes[name]
        if source != target:
            self.buffers.setdefault(target.buffer, shape)  # an output that is an input, or twice
            yield Step(key, COPY, Point(), shape, source, target)

    # ---- of each operator ------------------------------------------------------------------------

    def _usual(self, node: Node, op: Operator, target: Place) -> Iterator[Step]:
        source, shape = self._read(node)
        if len(shape) == 5 and op.goes_by_stages:
            yield from self._by_stages(node, stages_of(op), shape, source, target)
            return
        step = op.step(shape, self.dtype, bool(node.add), bool(node.add_after))
        add, after = (self.where[n] if n else None for n in (*node.inputs[1:], "", "")[:2])
        label = node.label or str(op)
        yield Step(node.output, label, step, shape, source, target, add, after)

    def _concat(self, node: Node, op: Concat, target: Place) -> Iterator[Step]:
        channel = target.channel
        for part, name in enumerate(node.inputs):
            place = Place(target.buffer, channel, self.where[name].channels)
            yield from self.copy(f"{node.output} {part}", name, place)
            channel += place.channels

    def _slice(self, node: Node, op: Slice, target: Place) -> Iterator[Step]:
        cut = self.where[node.inputs[0]].cut(op.start, op.stop)
        if cut != target:
            yield Step(node.output, COPY, Point(), self.shapes[node.output], cut, target)

    def _plain(self, node: Node, op: Plain, target: Place) -> Iterator[Step]:
        source, shape = self._read(node)
        others = tuple(self.where[name] for name in node.inputs[1:])
        label = node.label or op.name
        yield Step(node.output, label, op, shape, source, target, others=others)

    def _transposed(self, node: Node, op: ConvTranspose, target: Place) -> Iterator[Step]:
        """A convolution of all phases, with a buffer of its own, and the steps that spread it."""
        source, shape = self._read(node)
        conv, label = op.conv, node.label or str(op)
        order = "pixels" if op.groups == 1 else "channels"
        if set(op.stride) == {1} and not any(op.crop):
            yield Step(node.output, label, conv, shape, source, target)
            return
        filters, _, *taps = conv.weight.shape
        sizes = zip(shape[2:], by_axis(conv.padding), taps, conv.dilation)
        phases = (shape[0], filters, *(n + sum(ends) - d * (k - 1) for n, ends, k, d in sizes))
        inner = self._between(phases)
        yield Step(node.output, label, conv, shape, source, inner)
        *deep, high, wide = op.stride
        # The steps take the phases off in the order in which channels have them, outermost first.
        stages = [Stage(Spread((step, 1), order, (*op.crop[:2], 0, 0)), False) for step in deep]
        stages.append(Stage(Spread((high, wide), order, op.crop[-4:]), bool(deep)))
        if order == "channels":  # channel, depth, plane: from behind
            stages.reverse()
        spread = replace(node, outputs=(f"{node.output} spread",), label=label)
        yield from self._by_stages(spread, stages, phases, inner, target)

    def _between(self, shape: Shape) -> Place:
        """A buffer of its own for what one node's steps hand on."""
        buffer = ("arena", sum(kind == "arena" for kind, _ in self.buffers))
        self.buffers[buffer] = shape
        return Place(buffer, 0, shape[1])

    def _by_stages(
        self, node: Node, stages: Sequence[Stage], shape: Shape, source: Place, target: Place
    ) -> Iterator[Step]:
        """The steps of an operator of volumes, one behind the other; of maps there is one."""
        label = node.label or str(node.op)
        for number, (op, planes) in enumerate(stages):
            last = number == len(stages) - 1
            made = shape if last else _after(op, shape, planes)
            place = target if last else self._between(made)
            key = node.output if not number else f"{node.output} {number}"
            yield Step(key, label, op, shape, source, place, planes=planes)
            source, shape = place, made


# The steps of each operator that is not one step as it is.
_LOWERED: dict[type[Operator], Callable[..., Iterator[Step]]] = {
    Concat: _Lowering._concat,
    ConvTranspose: _Lowering._transposed,
    Plain: _Lowering._plain,
    Slice: _Lowering._slice,
}


def _after(op: Map, shape: Shape, planes: bool) -> Shape:
    """The shape that a stage makes of volumes."""
    batch, channels, *size = shape
    axes = slice(1, 3) if planes else slice(0, 1)
    size[axes] = op.sizes_after(size[axes])
    return (batch, op.channels_after(channels), *size)
