"""All passes in their order."""

from __future__ import annotations

from winogen.graph.fold import depthwise_affine, fold_affine, fold_pad
from winogen.graph.fuse import fuse
from winogen.graph.ir import Graph


def simplify(graph: Graph) -> Graph:
    """Return the graph with all that can be folded and fused.

    Normalizations, activations, additions and paddings are then part of convolutions where these
    alone are read by them. Concatenations stay: a `Segment` gives their parts the right places.
    """
    graph = fold_affine(fold_pad(graph.without_dead()))
    graph = fuse(graph)
    # Behind an activation or an addition a factor is a step of its own, which takes on the next.
    return fuse(depthwise_affine(graph))
