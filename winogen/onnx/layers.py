"""A layer as it stands in the attributes of a node of winogen's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from winogen.conv import arguments
from winogen.graph import maps
from winogen.graph.lower import Step
from winogen.graph.places import Buffer, Place
from winogen.kernels.spec import PADDING_MODES
from winogen.onnx.operators import NOWHERE


def activation_of(spec: Any) -> tuple[str, tuple[float, ...], np.ndarray | None]:
    """Return an activation as the operators have it: name, two parameters, slopes."""
    asked = arguments.activation(spec)
    slopes = np.asarray(spec[1]) if asked.per_filter else None
    return asked.activation or "none", (*asked.parameters, 0.0, 0.0)[:2], slopes


def numbers_of(
    layer: dict[str, Any], constants: Mapping[str, int], number: Mapping[Buffer, int]
) -> tuple[int, ...]:
    """Return a layer as it stands in the attribute `layers`: see csrc/runtime/segment_nodes.h."""
    step: Step = layer["step"]

    def array(name: str) -> int:
        return constants[layer[name]] if name in layer else NOWHERE

    def place(where: Place | None) -> tuple[int, int]:
        return (NOWHERE, 0) if where is None else (number[where.buffer], where.channel)

    places = (
        *place(step.input),
        *map(array, ("weight", "bias", "slopes")),
        *place(step.add),
        *place(step.add_after),
        *place(step.output),
    )
    op = step.op
    if op.is_convolution:
        op = op.conv
        mode = PADDING_MODES.index(op.padding_mode)
        sizes = (*op.stride[-2:], *op.dilation[-2:], *pads_of(op.padding[-4:]), op.groups, mode)
        return (0, 0, 0, 0, *places, *sizes)
    assert op.kinds  # others are nodes of their own, or of others' plans
    groups = op.fields.get("groups", 1)
    kernel, stride, padding, dilation = op.window
    if len(step.shape) == 5 and not step.planes:  # its height is the depth: see `depth_of`
        kernel, stride, padding, dilation = (1, 1), (1, 1), (0, 0, 0, 0), (1, 1)
    head = (maps.kind_of(op), step.input.channels, *kernel)
    return (*head, *places, *stride, *dilation, *pads_of(padding), groups, 0)


def depth_of(step: Step) -> tuple[int, ...]:
    """Return what a layer has along the depth, as it stands in the attribute `deep`."""
    op, flat = step.op, (1, 1, 1, 0, 0)
    if op.is_convolution:
        op = op.conv
        deep = len(op.stride) == 3
        return (0, 0, op.stride[0], op.dilation[0], *op.padding[:2]) if deep else (0, *flat)
    if step.planes or len(step.shape) == 4:
        return (int(step.planes), *flat)
    kernel, stride, padding, dilation = op.window
    return (0, kernel[0], stride[0], dilation[0], *padding[:2])


def pads_of(padding: Sequence[int]) -> tuple[int, ...]:
    """Return padding as ONNX has it: before all axes, then after all."""
    return (*padding[::2], *padding[1::2])
