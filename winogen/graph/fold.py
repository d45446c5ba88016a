"""Folding: what is linear goes into the weights, what is padded into the padding.

A convolution whose module is used twice is two nodes with the same arrays. Folding leaves them as
they are, so that the other node is not touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from winogen.graph.ir import (
    Affine,
    Conv,
    Convolution,
    Graph,
    GroupNorm,
    Joined,
    LayerNorm,
    Node,
    Pad,
    Scaled,
)


def fold_affine(graph: Graph) -> Graph:
    """Fold every Affine into the convolution or the Affine before it, where it alone reads that.

    conv -> affine                 conv with scaled filters and bias
    norm -> affine                 norm with another scale and shift
    affine -> affine               one affine
    otherwise                      a depthwise convolution 1x1, which takes on what follows

    A convolution that already has an activation or adds something stays as it is, and so does
    what a scale would make infinite or NaN: the numbers that it reads may be as small as the scale
    is large. Scales are applied in float64 and rounded once.

    >>> weight, scale = np.ones((1, 1, 3, 3), np.float32), np.float32([2])
    >>> nodes = [Node(Conv(weight), ("x",), ("y",)), Node(Affine(scale, scale), ("y",), ("z",))]
    >>> folded = fold_affine(Graph(("x",), nodes, ("z",))).nodes
    >>> len(folded), np.asarray(folded[0].op.weight).max(), folded[0].op.bias.tolist()
    (1, np.float32(2.0), [2.0])
    """
    uses = graph.uses
    nodes: dict[str, Node] = {}  # by their first output, in order
    for place, node in enumerate(graph.nodes):
        if isinstance(node.op, Affine):
            before = nodes.get(node.inputs[0])
            if before is not None and uses[node.inputs[0]] == 1 and _takes_affine(before):
                op = _scaled(before.op, node.op)
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
    return graph.with_nodes(
        [
            replace(node, op=_depthwise(node.op)) if isinstance(node.op, Affine) else node
            for node in graph.nodes
        ]
    )


def fold_pad(graph: Graph) -> Graph:
    """Fold every Pad into the padding of all convolutions that read it.

    Zeros go with zeros; other modes only into a convolution that pads nothing itself. A Pad with
    another reader stays for it.
    """
    makers = graph.makers
    nodes = []
    for node in graph.nodes:
        before = makers.get(node.inputs[0]) if node.inputs else None
        if isinstance(node.op, Conv) and before is not None and isinstance(before.op, Pad):
            op, pad = node.op, before.op
            same = op.padding_mode == pad.mode == "zeros"
            if same or not any(op.padding):
                padding = tuple(a + b for a, b in zip(op.padding, pad.padding, strict=True))
                node = replace(
                    node,
                    op=replace(op, padding=padding, padding_mode=pad.mode),
                    inputs=(before.inputs[0], *node.inputs[1:]),
                )
        nodes.append(node)
    return graph.with_nodes(nodes).without_dead()


def _takes_affine(node: Node) -> bool:
    if isinstance(node.op, Affine):
        return True
    if isinstance(node.op, (GroupNorm, LayerNorm)):
        return node.op.activation is None
    return isinstance(node.op, Convolution) and node.op.activation is None and len(node.inputs) == 1


def _scaled(op: object, affine: Affine) -> Convolution | Affine | GroupNorm | LayerNorm | None:
    """An operator and the affine behind it as one; None where a number of it would be too large."""
    scale, shift = affine.scale.astype(np.float64), affine.shift.astype(np.float64)
    kind = affine.scale.dtype
    with np.errstate(all="ignore"):
        if isinstance(op, Affine):
            return _finite(kind, op.scale * scale, op.shift * scale + shift, Affine)
        if isinstance(op, (GroupNorm, LayerNorm)):
            if op.shift is not None:
                shift = op.shift * scale + shift
            if op.scale is not None:
                scale = op.scale * scale
            return _finite(
                kind, scale, shift, lambda scale, shift: replace(op, scale=scale, shift=shift)
            )
        assert isinstance(op, Convolution)
        old = op.weight
        assert not isinstance(old, Joined)  # only in steps
        weight = old.times(scale) if isinstance(old, Scaled) else Scaled(old, scale)
        bias = shift if op.bias is None else op.bias * scale + shift
        return _finite(
            old.dtype, weight.largest, bias, lambda _, bias: replace(op, weight=weight, bias=bias)
        )


def _finite(kind: Any, one: Any, other: Any, make: Callable[[Any, Any], Any]) -> Any:
    """What is made of two arrays in a type; None where a number of them is too large for it."""
    one, other = one.astype(kind), other.astype(kind)
    return make(one, other) if np.isfinite(one).all() and np.isfinite(other).all() else None


def _depthwise(op: Affine) -> Conv:
    weight = np.ascontiguousarray(op.scale)[:, None, None, None]
    return Conv(weight, op.shift if op.shift.any() else None, groups=len(op.scale))
