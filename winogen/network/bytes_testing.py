"""What a network of bytes should compute of random numbers, and how far off it may be.

A code may be a step off where a number falls near the middle between two, and in a deep network
such steps add up: codes that one order of sums makes a step larger move those behind them. The
model shows how far: it runs again with its steps a little off. Numbers of codes are right within a
step and twice that. What floats compute of them is right within what a step of each code changes,
beside the error of floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from winogen.graph.ir import Node
from winogen.graph.ops import Dequantize
from winogen.graph.whole import GROWTH
from winogen.network.bytes_reading import ByteNetwork
from winogen.onnx.model import copied
from winogen.onnx.probes import feed_of
from winogen.onnx.sensitivity import moved, outputs_of

_LEAST = 2.0**-20  # the error of a part without convolutions: functions round, too
_DRAWS = 3  # of codes that are a step off, up or down
# By how much steps are off for codes to move as another order of sums makes them, relative.
NUDGE = 2.0**-18
_NUDGES = 2  # draws of these


class Limits(NamedTuple):
    """How far numbers of codes may be off."""

    most: float
    mean: float | None  # of all; None where single codes say all

    @classmethod
    def of(cls, step: float, shifts: Sequence[Any]) -> Limits:
        """Return those for codes of a step; ``shifts``: how far they move in the model itself."""
        furthest = max((float(shift.max(initial=0)) for shift in shifts), default=0.0)
        if furthest <= step:
            return cls(step + 2 * furthest, None)
        return cls(step + 2 * furthest, 2 * max(float(shift.mean()) for shift in shifts))


class Sample:
    """Inputs, what onnxruntime gives for them, and what may be off at each output of floats.

    ``predicted``: the error of each part of floats by its first output, relative.
    """

    def __init__(self, read: ByteNetwork, predicted: dict[str, float]):
        model = read.model
        shapes = {array.name: array.shape for array in read.inputs}
        self.feed = feed_of(model, {**shapes, **model.fixed}, 1)
        names = [array.name for array in read.outputs]
        optimized = is_optimized(read)
        self.outputs_of = partial(outputs_of, optimized=optimized)
        self.expected = self.outputs_of(model.proto, names, self.feed)
        shifts = [
            [np.abs(np.subtract(y, x, dtype=np.float64)) for y, x in zip(draw, self.expected)]
            for draw in moved(model.proto, names, self.feed, NUDGE, _NUDGES, optimized)
        ]
        self.limits = {  # by the number of an output of codes
            number: Limits.of(one.step, [draw[number] for draw in shifts])
            for number, one in enumerate(read.outputs)
            if one.step is not None
        }
        self.allowed: dict[int, float] = {}  # by the number of an output of floats
        off: dict[str, float] = {}  # how far numbers may be off
        values, places = self._between(read), {one.name: n for n, one in enumerate(read.outputs)}
        for node in read.graph.nodes:
            if node.op.is_opaque:
                made = _grown(node, values, off, predicted[node.outputs[0]])
                off |= made
                for name, far in made.items():
                    if name in places:
                        number = places[name]
                        moves = (float(draw[number].max(initial=0)) for draw in shifts)
                        self.allowed[number] = max(far, *(2 * move for move in moves))
            elif isinstance(node.op, Dequantize):
                off[node.output] = node.op.x.scale

    def _between(self, read: ByteNetwork) -> dict[str, np.ndarray]:
        """What onnxruntime computes of the numbers that parts of floats read."""
        names = [name for node in read.graph.nodes if node.op.is_opaque for name in node.inputs]
        names = [name for name in dict.fromkeys(names) if name not in self.feed]
        if not names:
            return self.feed
        proto, onnx = copied(read.model.proto), read.model.onnx
        known = {value.name for value in proto.graph.output}
        for name in names:
            if name not in known:
                value = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
                proto.graph.output.append(value)
        return {**self.feed, **dict(zip(names, self.outputs_of(proto, names, self.feed)))}


def is_optimized(read: ByteNetwork) -> bool:
    """Whether onnxruntime's optimizations are wanted for what a network should compute.

    With them, it computes Softmax and others of codes by approximations. Without, its operators of
    bytes alone let sums of 16 bits overflow on CPUs that have no wider ones.
    """
    nodes = read.model.proto.graph.node
    return not read.has_floats and all(node.op_type != "DequantizeLinear" for node in nodes)


def _grown(
    node: Node, values: dict[str, np.ndarray], off: dict[str, float], error: float
) -> dict[str, float]:
    """How far each output of a part may be off, by its first image."""
    random, read = np.random.default_rng(1), node.op.payload
    far = [off.get(name, 0.0) for name in node.inputs]
    names = [array.name for array in read.outputs]

    def computed(moved: bool) -> list[Any]:
        feed = {}
        for array, name, step in zip(read.inputs, node.inputs, far):
            x = values[name][:1].reshape(array.shape)
            if moved:
                x = x + np.float32(step) * random.choice([-1, 1], x.shape).astype(np.float32)
            feed[array.name] = x
        found: list[Any] = outputs_of(read.model.proto, names, feed)
        return found

    exact, draws = computed(False), [computed(True) for _ in range(_DRAWS)] if any(far) else []
    made = {}
    for number, (name, y) in enumerate(zip(node.outputs, exact)):
        moves = [float(np.abs(draw[number] - y).max(initial=0)) for draw in draws]
        largest = float(np.abs(y).max(initial=0))
        made[name] = max(moves, default=0.0) + GROWTH * max(error, _LEAST) * largest
    return made
