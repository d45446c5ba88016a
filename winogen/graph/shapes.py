"""The shape of every value, from those of the inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from winogen.errors import InvalidValue
from winogen.graph.convolutions import by_axis
from winogen.graph.ir import (
    Add,
    Affine,
    AveragePool,
    Concat,
    Conv,
    ConvTranspose,
    GlobalAverage,
    Graph,
    GroupNorm,
    LayerNorm,
    MaxPool,
    Multiply,
    Node,
    Opaque,
    Operator,
    Pad,
    Plain,
    QConv,
    Repeat,
    Shuffle,
    Slice,
    Spread,
)

Shape = tuple[int, ...]  # (N, C, H, W), of volumes (N, C, D, H, W)


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


def output_shape(node: Node, inputs: list[Shape]) -> Shape:
    """Return the shape that a node makes of its inputs'; raises InvalidValue."""
    op, (first, *others) = node.op, inputs
    if isinstance(op, Opaque):
        raise InvalidValue(f"node {node.label or op}: got Opaque; allowed: what winogen computes")
    if isinstance(op, Plain):
        return op.shape
    if isinstance(op, Concat):
        return _joined(node, inputs)
    shape, rank = first, len(first) - 2
    if rank != _rank(op, rank):
        raise InvalidValue(_got(node, first, f"{2 + _rank(op, rank)} axes"))
    if isinstance(op, (Conv, QConv)):
        shape = _convolved(node, op, first)
    elif isinstance(op, ConvTranspose):
        _check_channels(node, op, first)
        size = op.sizes(first[2:])
        if any(one < 1 for one in size):
            raise InvalidValue(_got(node, first, "a size whose output has pixels"))
        shape = (first[0], len(op.weight), *size)
    elif isinstance(op, Pad):
        shape = (*first[:2], *(n + sum(ends) for n, ends in zip(first[2:], by_axis(op.padding))))
    elif isinstance(op, Slice):
        if not 0 <= op.start < op.stop <= first[1]:
            raise InvalidValue(_got(node, first, f"at least {op.stop} channels"))
        shape = (first[0], op.stop - op.start, *first[2:])
    elif isinstance(op, MaxPool):
        reach = [d * (k - 1) + 1 for d, k in zip(op.dilation, op.kernel)]
        shape = (*first[:2], *_sizes(node, first, reach, op.stride, op.padding))
    elif isinstance(op, AveragePool):
        shape = (*first[:2], *_sizes(node, first, op.kernel, op.stride, op.padding))
    elif isinstance(op, GlobalAverage):
        shape = (*first[:2], *[1] * rank)
    elif isinstance(op, Shuffle) and first[1] % op.groups:
        raise InvalidValue(_got(node, first, f"a multiple of {op.groups} channels"))
    elif isinstance(op, (Repeat, Spread)):
        batch, channels, *size = first
        if isinstance(op, Spread):
            count = prod(op.factor)
            if channels % count:
                raise InvalidValue(_got(node, first, f"a multiple of {count} channels"))
            channels //= count
        size = [n * times for n, times in zip(size, op.factor)]
        if isinstance(op, Spread):
            size = [n - sum(ends) for n, ends in zip(size, by_axis(op.crop))]
        shape = (batch, channels, *size)
    elif isinstance(op, Affine) and op.scale.shape != (first[1],):
        raise InvalidValue(_got(node, first, f"{len(op.scale)} channels"))
    elif isinstance(op, (GroupNorm, LayerNorm)):
        _check_norm(node, op, first)
    pixel = (*shape[:2], *[1] * (len(shape) - 2))
    if isinstance(op, Multiply) and tuple(others[0]) == pixel:
        return shape
    added = shape
    if isinstance(op, GroupNorm) or (isinstance(op, Add) and op.repeated):
        added = pixel
    for other in others:  # what is added
        if tuple(other) != tuple(added):
            raise InvalidValue(_got(node, other, f"{added}, since it is added to that"))
    return shape


def _rank(op: Operator, any_rank: int) -> int:
    """How many axes an operator goes with; ``any_rank`` if with any number."""
    if isinstance(op, Conv) and op.is_factor:
        return any_rank
    if isinstance(op, (Conv, ConvTranspose, QConv)):
        return len(op.stride)
    if isinstance(op, (Pad, MaxPool, AveragePool)):
        return len(op.padding) // 2
    return len(op.factor) if isinstance(op, (Repeat, Spread)) else any_rank


def _check_norm(node: Node, op: GroupNorm | LayerNorm, shape: Shape) -> None:
    for array in (op.scale, op.shift):
        if array is not None and array.shape != (shape[1],):
            raise InvalidValue(_got(node, shape, f"{len(array)} channels"))
    if isinstance(op, GroupNorm) and shape[1] % op.groups:
        raise InvalidValue(_got(node, shape, f"a multiple of {op.groups} channels"))
    if isinstance(op, GroupNorm) and op.needs:
        images = shape[0] if op.needs == "batch" else 1
        if images * prod(shape[1:]) == op.groups:
            raise InvalidValue(_got(node, shape, "several values in a group"))


def pool_padding(
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: Any,
) -> tuple[int, ...] | None:
    """Return the padding of a pooling, before and after each axis, with `ceil_mode` as padding.

    With it a window may reach beyond the padding behind an axis: as if there were more of it, by
    the stride less one. None where a window might then lie in padding alone.
    """
    sides: list[int] = []
    for ends, step, apart, taps in zip(by_axis(padding), stride, dilation, kernel):
        before, after = ends[0], ends[1] + (step - 1 if ceil_mode else 0)
        if max(before, after) > apart * (taps - 1):
            return None
        sides += before, after
    return tuple(sides)


def _convolved(node: Node, op: Conv | QConv, shape: Shape) -> Shape:
    filters, _, *kernel = op.weight.shape
    batch, *_ = shape
    _check_channels(node, op, shape)
    if isinstance(op, Conv) and op.is_factor:
        return shape
    if isinstance(op.padding, str):
        return (batch, filters, *(-(-size // step) for size, step in zip(shape[2:], op.stride)))
    reach = [d * (k - 1) + 1 for d, k in zip(op.dilation, kernel)]
    return (batch, filters, *_sizes(node, shape, reach, op.stride, op.padding))


def _check_channels(node: Node, op: Conv | ConvTranspose | QConv, shape: Shape) -> None:
    channels = op.weight.shape[1] * op.groups
    if shape[1] != channels:
        raise InvalidValue(_got(node, shape, f"{channels} channels"))


def _sizes(node: Node, shape: Shape, reach: Any, stride: Any, padding: Any) -> list[Any]:
    """Sizes of outputs along each axis, of windows that reach so far."""
    out = []
    for extent, taps, step, ends in zip(shape[2:], reach, stride, by_axis(padding)):
        room = extent + sum(ends) - taps
        if room < 0:
            raise InvalidValue(_got(node, shape, "at least as large as the kernel reaches"))
        out.append(room // step + 1)
    return out


def _joined(node: Node, inputs: list[Shape]) -> Shape:
    batch, _, *size = inputs[0]
    for other in inputs[1:]:
        if [other[0], *other[2:]] != [batch, *size]:
            raise InvalidValue(_got(node, other, f"{inputs[0]}, but for the channels"))
    return (batch, sum(shape[1] for shape in inputs), *size)


def _got(node: Node, shape: Shape, allowed: str) -> str:
    return f"node {node.label or node.op}: got an input of shape {tuple(shape)}; allowed: {allowed}"
