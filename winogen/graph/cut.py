"""Cutting a graph into segments, which run as one call each, and what the framework runs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from winogen.graph.ir import Graph, Node
from winogen.graph.ops import Operator


class Piece(NamedTuple):
    """A segment, or a node that the framework runs."""

    graph: Graph
    ours: bool  # whether it is a segment


def cut(
    graph: Graph,
    excluded: Collection[str] = (),
    takes: Callable[[Operator], bool] | None = None,
) -> list[Piece]:
    """Return pieces in an order in which they can be computed.

    ``takes``: which operators may be part of a segment; None: those that compute floats, in
    segments with a convolution.

    Opaque nodes stay with the framework, and so do nodes whose output is ``excluded``. A quantized
    convolution is a piece of its own, too, and whoever writes the graph knows it. A segment is as
    large as it can be without a way out of it and back. One without a convolution would save
    nothing and goes to the framework, too, node by node.

    >>> import numpy as np
    >>> from winogen.graph import Conv, Opaque
    >>> conv = Conv(np.ones((4, 4, 1, 1), np.float32))
    >>> nodes = [Node(conv, ("x",), ("a",)), Node(conv, ("a",), ("b",)),
    ...          Node(Opaque("pool"), ("b",), ("c",)), Node(conv, ("c",), ("d",))]
    >>> [(piece.ours, len(piece.graph.nodes)) for piece in cut(Graph(("x",), nodes, ("d",)))]
    [(True, 2), (False, 1), (True, 1)]
    """
    excluded = set(excluded)
    theirs = {
        id(node)
        for node in graph.nodes
        if not (takes(node.op) if takes else node.op.in_segments)
        or not excluded.isdisjoint(node.outputs)
    }
    while True:
        levels = _levels(graph, theirs)
        alone = set() if takes else _without_work(graph, theirs, levels)
        if not alone:
            break
        theirs |= alone
    return _pieces(graph, theirs, levels)


def _levels(graph: Graph, theirs: set[int]) -> list[int]:
    """How many segments, at most, precede each node: those of one level are one segment.

    A node of the framework has the level of the last segment that it waits for, and a node of ours
    reading from it a higher one. So no way leads from a level back to a lower one.
    """
    of_value: dict[str, tuple[int, bool]] = dict.fromkeys(graph.inputs, (0, True))
    levels = []
    for node in graph.nodes:
        mine = id(node) not in theirs
        before = [of_value[name] for name in node.reads]
        level = max((n + (mine and foreign) for n, foreign in before), default=int(mine))
        levels.append(level)
        of_value.update(dict.fromkeys(node.outputs, (level, not mine)))
    return levels


def _without_work(graph: Graph, theirs: set[int], levels: list[int]) -> set[int]:
    """The nodes of ours in segments that hold no convolution, or only factors."""
    ours = [(level, node) for level, node in zip(levels, graph.nodes) if id(node) not in theirs]
    worthy = {level for level, node in ours if node.op.is_worthy}
    return {id(node) for level, node in ours if level not in worthy}


def _pieces(graph: Graph, theirs: set[int], levels: list[int]) -> list[Piece]:
    groups: dict[tuple[int, int], list[Node]] = {}
    for place, (level, node) in enumerate(zip(levels, graph.nodes)):
        # Within a level, what the framework runs comes behind the segment that it may wait for.
        key = (level, place + 1) if id(node) in theirs else (level, 0)
        groups.setdefault(key, []).append(node)
    home = {name: key for key, nodes in groups.items() for node in nodes for name in node.outputs}
    outside = set(graph.outputs)
    for key, nodes in groups.items():
        outside |= {name for node in nodes for name in node.reads if home.get(name) != key}
    pieces = []
    for key in sorted(groups):
        nodes = groups[key]
        made = [name for node in nodes for name in node.outputs]
        reads = dict.fromkeys(name for node in nodes for name in node.reads)
        inputs = [name for name in reads if home.get(name) != key]
        ours = key[1] == 0
        outputs = [name for name in made if name in outside or not ours]
        pieces.append(Piece(Graph(inputs, nodes, outputs), ours))
    return pieces
