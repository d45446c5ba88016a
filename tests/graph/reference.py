"""A graph by its definition, in numpy: integers stay exact, floats are float64."""

import numpy as np
from conv.reference import ACTIVATIONS, convolve

from winogen.graph import Activation, Add, Affine, Concat, Conv, Pad

_MODES = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def activate(y, activation):
    if activation is None:
        return y
    name, *parameters = (activation,) if isinstance(activation, str) else activation
    return ACTIVATIONS[name](y, *parameters)


def compute(graph, inputs):
    """All values of the graph, from inputs (N, C, H, W)."""
    values = dict(zip(graph.inputs, inputs))
    for node in graph.nodes:
        op, x = node.op, [values[name] for name in node.reads]
        if isinstance(op, Conv):
            (top, bottom, left, right), bias = op.padding, op.bias
            kind = x[0].dtype
            y = convolve(
                x[0],
                op.weight.astype(kind),
                None if bias is None else bias.astype(kind),
                op.stride,
                ((top, bottom), (left, right)),
                op.dilation,
                op.groups,
                op.padding_mode,
            )
            if node.add:
                y = y + values[node.add]
            y = activate(y, op.activation)
            if node.add_after:
                y = y + values[node.add_after]
        elif isinstance(op, Affine):
            y = x[0] * op.scale.astype(x[0].dtype)[:, None, None]
            y = y + op.shift.astype(x[0].dtype)[:, None, None]
        elif isinstance(op, Activation):
            y = activate(x[0], op.activation)
        elif isinstance(op, Add):
            y = x[0] + x[1]
        elif isinstance(op, Concat):
            y = np.concatenate(x, axis=1)
        elif isinstance(op, Pad):
            top, bottom, left, right = op.padding
            ends = ((0, 0), (0, 0), (top, bottom), (left, right))
            y = np.pad(x[0], ends, mode=_MODES[op.mode])
        values[node.output] = y
    return values
