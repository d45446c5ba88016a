"""Where every value of a segment lies: channels of a buffer, which parts of it share.

The parts of a concatenation are slices of the channels of one array: whoever makes a part writes it
there, and others that read it read the slice. So a dense block or a U-Net copies nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from winogen.graph.ir import Concat, Graph, Opaque
from winogen.graph.shapes import Shape

# ("input", i) and ("output", i) are arrays of the caller, ("arena", i) is memory of the segment.
Buffer = tuple[str, int]


class Place(NamedTuple):
    """Channels of a buffer, from ``channel`` on."""

    buffer: Buffer
    channel: int
    channels: int

    def overlaps(self, other: Place) -> bool:
        """Whether they have numbers in common."""
        apart = (
            self.buffer != other.buffer
            or self.channel + self.channels <= other.channel
            or other.channel + other.channels <= self.channel
        )
        return not apart


def places(graph: Graph, shapes: Mapping[str, Shape]) -> dict[str, Place]:
    """Return the place of every value.

    A value that is an output of the graph has the caller's array, all of it. Concatenations are
    placed from the last to the first, so that the largest of a dense block holds the others.
    """
    placed = {name: Place(("input", i), 0, shapes[name][1]) for i, name in enumerate(graph.inputs)}
    for i, name in enumerate(graph.outputs):
        placed.setdefault(name, Place(("output", i), 0, shapes[name][1]))
    arenas = 0

    def arena(name: str) -> Place:
        nonlocal arenas
        arenas += 1
        return Place(("arena", arenas - 1), 0, shapes[name][1])

    for node in reversed(graph.nodes):
        if not isinstance(node.op, Concat):
            continue
        if node.output not in placed:
            placed[node.output] = _there_already(node.inputs, placed) or arena(node.output)
        buffer, channel, _ = placed[node.output]
        for name in node.inputs:
            part = Place(buffer, channel, shapes[name][1])
            placed.setdefault(name, part)
            channel += part.channels
    for node in graph.nodes:
        assert not isinstance(node.op, Opaque)
        if node.output not in placed:
            placed[node.output] = arena(node.output)
    return placed


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
