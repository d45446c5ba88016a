"""The shape of every value, from those of the inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from winogen.errors import InvalidValue
from winogen.graph.ir import Graph, Node
from winogen.graph.ops.base import Misfit, Shape


def array_shape(shape: Shape, layout: str) -> Shape:
    """Return the shape of the array of a value: its channels come last where the layout is "NHWC".

    >>> array_shape((1, 3, 8, 9), "NHWC")
    (1, 8, 9, 3)
    """
    return (shape[0], *shape[2:], shape[1]) if layout == "NHWC" else shape


def shapes(graph: Graph, inputs: Mapping[str, Shape]) -> dict[str, Shape]:
    """Return the shape of every value; ``inputs`` has those of the graph's inputs.

    Sizes may be symbols of a framework: they are only added, multiplied, divided and compared.
    Raises InvalidValue for shapes that do not fit together, and for Opaque nodes.
    """
    known: dict[str, Shape] = {}
    for name in graph.inputs:
        if len(inputs[name]) not in (4, 5):
            raise InvalidValue(
                f"input {name}: got shape {tuple(inputs[name])}; allowed: 4 axes (N, C, H, W), or "
                "5 (N, C, D, H, W)"
            )
        known[name] = tuple(inputs[name])
    for node in graph.nodes:
        known[node.output] = output_shape(node, [known[name] for name in node.reads])
    return known


def output_shape(node: Node, inputs: Sequence[Shape]) -> Shape:
    """Return the shape that a node makes of its inputs'; raises InvalidValue."""
    try:
        return node.op.output(inputs)
    except Misfit as misfit:
        raise InvalidValue(f"node {node.label or node.op}: {misfit}") from None
