"""Fusing: activations and additions go into the seams of the convolution before them."""

from __future__ import annotations

from dataclasses import replace

from winogen.graph.ir import Graph, Node
from winogen.graph.ops import Add


def fuse(graph: Graph) -> Graph:
    """Fuse every Activation and Add into a convolution that it alone reads.

    conv -> activation             conv's activation, unless it has one or adds behind it
    conv -> add                    conv's `add`; behind an activation, its `add_after`
    add of a pixel -> group norm    the norm's own addition
    group norm, layer norm -> ReLU, SiLU    the norm's activation

    Of two added convolutions, the one without an activation takes the other, so that an activation
    behind the sum is fused too; else the later one. The fused convolution stands where the Add
    stood: what it adds is ready there.

    >>> import numpy as np
    >>> from winogen.graph import Activation, Conv
    >>> conv = Conv(np.ones((4, 4, 1, 1), np.float32))
    >>> nodes = [Node(conv, ("x",), ("y",)), Node(Add(), ("x", "y"), ("s",)),
    ...          Node(Activation("relu"), ("s",), ("z",)), Node(Add(), ("z", "x"), ("t",))]
    >>> print(fuse(Graph(("x",), nodes, ("t",))))
    x ->
    t = conv 1x1 4->4 + relu (x, x, x)
    -> t
    """
    uses = graph.uses
    nodes: dict[str, Node] = {}  # by their first output, in order
    order = {node.outputs[0]: n for n, node in enumerate(graph.nodes) if node.outputs}
    for place, node in enumerate(graph.nodes):
        before = nodes.get(node.inputs[0]) if node.inputs else None
        if node.op == Add():
            node = _added(node, nodes, uses, order)
        elif before and uses[node.inputs[0]] == 1:
            op = None if before.add_after else node.op.fused(before.op)
            if op is not None:
                del nodes[node.inputs[0]]
                node = replace(before, op=op, outputs=node.outputs)
            elif node.op.fuses_pixel and not node.add and before.op == Add(repeated=True):
                del nodes[node.inputs[0]]
                node = replace(node, inputs=before.inputs)
        nodes[node.outputs[0] if node.outputs else f" {place}"] = node
    return graph.with_nodes(list(nodes.values()))


def _added(node: Node, nodes: dict[str, Node], uses: dict[str, int], order: dict[str, int]) -> Node:
    """The convolution in place of the Add; or the Add. ``order``: of values in the graph."""
    first, second = node.inputs
    if first == second:
        return node
    best: tuple[bool, int, str, str] | None = None
    for mine, other in ((first, second), (second, first)):
        before = nodes.get(mine)
        if before is None or uses[mine] != 1 or not before.op.fuses_sums or before.add_after:
            continue
        rank = (before.op.conv.activation is None and not before.add, order[mine], mine, other)
        if best is None or rank > best:
            best = rank
    if best is None:
        return node
    _, _, mine, other = best
    before = nodes.pop(mine)
    # Before an activation still to come, or behind one that is there already.
    free = before.op.conv.activation is None and not before.add
    seams = (other, "") if free else (before.add, other)
    return replace(before.seams(*seams), outputs=node.outputs)
