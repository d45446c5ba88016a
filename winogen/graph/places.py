"""Where every value of a segment lies: channels of a buffer, which parts of it share.

The parts of a concatenation are slices of the channels of one array: whoever makes a part writes it
there, and others that read it read the slice. So a dense block or a U-Net copies nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from winogen.graph.ir import Graph, Node
from winogen.graph.shapes import Shape

# ("input", i) and ("output", i) are arrays of the caller, ("arena", i) is memory of the segment.
Buffer = tuple[str, int]


class Place(NamedTuple):
    """Channels of a buffer, from ``channel`` on."""

    buffer: Buffer
    channel: int
    channels: int

    def cut(self, start: int, stop: int) -> Place:
        """Return some of these channels."""
        return Place(self.buffer, self.channel + start, stop - start)


def places(graph: Graph, shapes: Mapping[str, Shape]) -> dict[str, Place]:
    """Return the place of every value.

    A value that is an output of the graph has the caller's array, all of it. Concatenations are
    placed from the last to the first, so that the largest of a dense block holds the others. A
    slice lies where it is cut from.
    """
    placed = {name: Place(("input", i), 0, shapes[name][1]) for i, name in enumerate(graph.inputs)}
    for i, name in enumerate(graph.outputs):
        placed.setdefault(name, Place(("output", i), 0, shapes[name][1]))
    arenas, makers = 0, graph.makers

    def arena(name: str) -> Place:
        nonlocal arenas
        arenas += 1
        return Place(("arena", arenas - 1), 0, shapes[name][1])

    for node in reversed(graph.nodes):
        if not node.op.is_concat:
            continue
        if node.output not in placed:
            placed[node.output] = _there_already(node.inputs, placed) or arena(node.output)
        buffer, channel, _ = placed[node.output]
        for i, name in enumerate(node.inputs):
            part = Place(buffer, channel, shapes[name][1])
            maker = makers.get(name)
            if maker is None or maker.op.view is None:
                placed.setdefault(name, part)
            else:
                source = maker.inputs[0]
                if _whole(node.inputs[i:], source, shapes[source][1], makers):
                    placed.setdefault(source, Place(buffer, channel, shapes[source][1]))
            channel += part.channels
    for node in graph.nodes:
        if node.output not in placed:
            view = node.op.view
            whole = arena(node.output) if view is None else placed[node.inputs[0]]
            placed[node.output] = whole if view is None else whole.cut(*view)
    return placed


def _whole(names: tuple[str, ...], source: str, channels: int, makers: Mapping[str, Node]) -> bool:
    """Whether names begin with slices that make all of a source, in their order."""
    end = 0
    for name in names:
        node = makers.get(name)
        if node is None or node.op.view is None or node.inputs[0] != source:
            return False
        start, stop = node.op.view
        if start != end:
            return False
        end = stop
        if end == channels:
            return True
    return False


def _there_already(inputs: tuple[str, ...], placed: Mapping[str, Place]) -> Place | None:
    """Where the parts lie side by side, in their order; None where they don't."""
    if any(name not in placed for name in inputs):
        return None
    first = placed[inputs[0]]
    end = first.channel
    for name in inputs:
        if placed[name][:2] != (first.buffer, end):
            return None
        end += placed[name].channels
    if first.buffer[0] == "input":
        return None
    return Place(first.buffer, first.channel, end - first.channel)
