"""Whether a part of codes computes the codes of the model, layer by layer.

The model sums products as floats and rounds after each addition, winogen as integers, once. A bias
is rounded to whole steps of the sums. So a number that lies near a half between two codes may
become the other one: a code differs by one step at most, and few do. Layers in tiles may be off
by the tolerance besides, as a share of the largest sum.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np
import torch
from torch import Tensor

from winogen.graph import Graph, Node, whole
from winogen.graph.code_segment import CodeSegment
from winogen.graph.code_tiles import steps_allowed
from winogen.graph.ops import QConv, Recast
from winogen.torch.code_module import CodeModule, as_maps

# The share of codes that may be off by a step where a step of the sums is a small part of one, and
# codes that may be so of few.
_SHARE, _FEW = 0.01, 3
# Relative errors of numbers, which two orders of summation explain.
_ROUNDING = 1e-5


def disagreements(module: CodeModule, values: Mapping[str, Tensor]) -> dict[str, str]:
    """Return which tensors of the trace a part computes otherwise, and how far off.

    ``values``: those that the model itself has, by the names of the trace's tensors. Every operator
    is given these, and its kernel is that of the part.
    """
    reasons = {name: _wrong(*found) for name, found in _computed(module, values)}
    return {name: reason for name, reason in reasons.items() if reason}


def shares(module: CodeModule, values: Mapping[str, Tensor]) -> dict[str, float]:
    """Return how many of its codes each operator computes otherwise than the model, as a share."""
    return {
        name: float(np.mean(made != wanted.reshape(made.shape)))
        for name, (made, wanted, *_) in _computed(module, values)
        if made.dtype == np.int8
    }


def _computed(
    module: CodeModule, values: Mapping[str, Tensor]
) -> Iterator[tuple[str, tuple[np.ndarray, np.ndarray, Node, float]]]:
    """What each operator makes of the model's values, what the model makes, its node, and how many
    steps codes may be off.
    """
    names = {inside: name for name, inside in module.part.inner.items()}
    threads = module.threads or torch.get_num_threads()
    known = {inside: values[name] for inside, name in names.items() if name in values}
    for reads, nodes in _layers(module.part.graph, known):
        *given, wanted = [_array(known[name]) for name in (*reads, nodes[-1].output)]
        segment = CodeSegment(Graph(reads, nodes, nodes[-1].outputs))
        (made,) = segment(given, threads)
        op, maps = nodes[0].op, [x.transpose(0, 3, 1, 2) for x in given]
        near = segment.bound([x.shape for x in maps], threads).near
        most = 1.0
        if near and isinstance(op, QConv):
            most = steps_allowed(op, maps[0], module.tolerance)
        yield names[nodes[-1].output], (made, wanted, nodes[0], most)


def _layers(graph: Graph, known: Collection[str]) -> Iterator[tuple[list[str], list[Node]]]:
    """Operators, each with those before it that make what is no value of the model.

    What they read from outside is ``known``, and so is what they make.
    """
    before: dict[str, dict[str, Node]] = {}  # by what they make, of values that are not
    for node in graph.nodes:
        if isinstance(node.op, Recast):
            continue
        nodes: dict[str, Node] = {}
        for name in node.reads:
            nodes |= before.get(name, {})
        nodes[node.output] = node
        if node.output not in known:
            before[node.output] = nodes
            continue
        every = dict.fromkeys(name for one in nodes.values() for name in one.reads)
        reads = [name for name in every if name not in nodes]
        if all(name in known for name in reads):
            yield reads, list(nodes.values())


def _array(tensor: Tensor) -> np.ndarray:
    """A tensor as an array (N, H, W, C), codes as int8."""
    (x,) = as_maps([tensor])
    array: np.ndarray = np.ascontiguousarray(x.movedim(1, -1).numpy())
    return (array ^ np.uint8(128)).view(np.int8) if array.dtype == np.uint8 else array


def _wrong(made: np.ndarray, wanted: np.ndarray, node: Node, most: float) -> str:
    """What is wrong with an output; "" for nothing."""
    if made.dtype != np.int8:
        off = whole.distance(made, wanted.reshape(made.shape))
        return "" if off <= _ROUNDING else f"off by {off:.1e}, allowed {_ROUNDING:.0e}"
    steps = np.abs(made.astype(np.int16) - wanted.reshape(made.shape))
    count, largest = int(np.count_nonzero(steps)), int(steps.max(initial=0))
    if most > 1:
        return "" if largest <= most else f"{largest} steps off, allowed {most:.1f}"
    share = _SHARE
    if isinstance(node.op, QConv) and node.op.bias is not None:
        share += float(node.op.multiplier.max())
    if largest <= 1 and count <= _FEW + share * steps.size:
        return ""
    return (
        f"{count} of {steps.size} codes off, by {largest} at most; allowed: 1, and "
        f"{_FEW + share * steps.size:.0f} of them"
    )
