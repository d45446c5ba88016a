"""The shape of every value, from those of the inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from winogen.errors import InvalidValue
from winogen.graph.ir import Affine, Concat, Conv, Graph, Node, Opaque, Pad

Shape = tuple[int, ...]  # (N, C, H, W)


def shapes(graph: Graph, inputs: Mapping[str, Shape]) -> dict[str, Shape]:
    """Return the shape (N, C, H, W) of every value; ``inputs`` has those of the graph's inputs.

    Sizes may be symbols of a framework: they are only added, multiplied, divided and compared.
    Raises InvalidValue for shapes that do not fit together, and for Opaque nodes.
    """
    known: dict[str, Shape] = {}
    for name in graph.inputs:
        if len(inputs[name]) != 4:
            raise InvalidValue(
                f"input {name}: got shape {tuple(inputs[name])}; allowed: 4 axes (N, C, H, W)"
            )
        known[name] = tuple(inputs[name])
    for node in graph.nodes:
        known[node.output] = output_shape(node, [known[name] for name in node.reads])
    return known


def output_shape(node: Node, inputs: list[Shape]) -> Shape:
    """Return the shape that a node makes of those that it reads; raises InvalidValue."""
    op, (first, *others) = node.op, inputs
    if isinstance(op, Opaque):
        raise InvalidValue(f"node {node.label or op}: got Opaque; allowed: what winogen computes")
    if isinstance(op, Concat):
        return _joined(node, inputs)
    shape = first
    if isinstance(op, Conv):
        shape = _convolved(node, op, first)
    elif isinstance(op, Pad):
        top, bottom, left, right = op.padding
        batch, channels, height, width = first
        shape = (batch, channels, height + top + bottom, width + left + right)
    elif isinstance(op, Affine) and op.scale.shape != (first[1],):
        raise InvalidValue(_got(node, first, f"{len(op.scale)} channels"))
    for other in others:  # what is added
        if tuple(other) != tuple(shape):
            raise InvalidValue(_got(node, other, f"{shape}, since it is added to that"))
    return shape


def _convolved(node: Node, op: Conv, shape: Shape) -> Shape:
    filters, per_group, *kernel = op.weight.shape
    batch, channels, *size = shape
    if channels != per_group * op.groups:
        raise InvalidValue(_got(node, shape, f"{per_group * op.groups} channels"))
    out: list[Any] = []
    sides = op.padding[:2], op.padding[2:]
    for extent, taps, stride, dilation, ends in zip(size, kernel, op.stride, op.dilation, sides):
        room = extent + sum(ends) - dilation * (taps - 1) - 1
        if room < 0:
            raise InvalidValue(_got(node, shape, "at least as large as the kernel reaches"))
        out.append(room // stride + 1)
    return (batch, filters, *out)


def _joined(node: Node, inputs: list[Shape]) -> Shape:
    batch, _, *size = inputs[0]
    for other in inputs[1:]:
        if [other[0], *other[2:]] != [batch, *size]:
            raise InvalidValue(_got(node, other, f"{inputs[0]}, but for the channels"))
    return (batch, sum(shape[1] for shape in inputs), *size)


def _got(node: Node, shape: Shape, allowed: str) -> str:
    return f"node {node.label or node.op}: got an input of shape {tuple(shape)}; allowed: {allowed}"
