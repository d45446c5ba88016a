"""Folding: what is linear goes into the weights, what is padded into the padding.

A convolution whose module is used twice is two nodes with the same arrays. Folding leaves them as
they are, so that the other node is not touched.
"""

from __future__ import annotations

from dataclasses import replace

from winogen.graph.ir import Graph, Node


def fold_affine(graph: Graph) -> Graph:
    """Fold every Affine into the convolution or the Affine before it, where it alone reads that.

    conv -> affine                 conv with scaled filters and bias
    norm -> affine                 norm with another scale and shift
    affine -> affine               one affine
    otherwise                      a depthwise convolution 1x1, which takes on what follows

    A convolution that already has an activation or adds something stays as it is, and so does
    what a scale would make infinite or NaN: the numbers that it reads may be as small as the scale
    is large. Scales are applied in float64 and rounded once.

    >>> import numpy as np
    >>> from winogen.graph import Affine, Conv
    >>> weight, scale = np.ones((1, 1, 3, 3), np.float32), np.float32([2])
    >>> nodes = [Node(Conv(weight), ("x",), ("y",)), Node(Affine(scale, scale), ("y",), ("z",))]
    >>> folded = fold_affine(Graph(("x",), nodes, ("z",))).nodes
    >>> len(folded), np.asarray(folded[0].op.weight).max(), folded[0].op.bias.tolist()
    (1, np.float32(2.0), [2.0])
    """
    uses = graph.uses
    nodes: dict[str, Node] = {}  # by their first output, in order
    for place, node in enumerate(graph.nodes):
        before = nodes.get(node.inputs[0]) if node.inputs else None
        if before is not None and uses[node.inputs[0]] == 1:
            op = node.op.folded(before.op, alone=len(before.inputs) == 1)
            if op is not None:
                del nodes[node.inputs[0]]
                label = before.label or node.label
                node = replace(node, op=op, inputs=before.inputs, label=label)
        nodes[node.outputs[0] if node.outputs else f" {place}"] = node
    return graph.with_nodes(list(nodes.values()))


def depthwise_affine(graph: Graph) -> Graph:
    """Turn every Affine that is left into a depthwise convolution 1x1.

    So the normalization and ReLU before a convolution are one pass over memory.
    """
    return graph.with_nodes([replace(node, op=node.op.depthwise) for node in graph.nodes])


def fold_pad(graph: Graph) -> Graph:
    """Fold every Pad into the padding of all convolutions that read it.

    Zeros go with zeros; other modes only into a convolution that pads nothing itself. A Pad with
    another reader stays for it.
    """
    makers = graph.makers
    nodes = []
    for node in graph.nodes:
        before = makers.get(node.inputs[0]) if node.inputs else None
        op = None if before is None else before.op.put_before(node.op)
        if before is not None and op is not None:
            node = replace(node, op=op, inputs=(before.inputs[0], *node.inputs[1:]))
        nodes.append(node)
    return graph.with_nodes(nodes).without_dead()
