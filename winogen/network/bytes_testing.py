"""What a network of bytes should compute of random numbers, and how far off it may be.

A code may be a step off where a number falls near the middle between two. So numbers of codes are
right within a step. What floats compute of them is right within what a step of each code changes,
beside the error of floats.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from winogen.graph.whole import GROWTH
from winogen.network.bytes_graph import ByteNetwork, Dequantize, Floats, Map, Step
from winogen.onnx.loading import session_of
from winogen.onnx.model import copied
from winogen.onnx.probes import feed_of

_LEAST = 2.0**-20  # the error of a part without convolutions: functions round, too
_DRAWS = 3  # of codes that are a step off, up or down


class Sample:
    """Inputs, what onnxruntime gives for them, and what may be off at each output of floats.

    ``predicted``: the error of each part of floats by its step's number, relative.
    """

    def __init__(self, read: ByteNetwork, predicted: dict[int, float]):
        model = read.model
        shapes = {array.name: array.shape for array in read.inputs}
        self.feed = feed_of(model, {**shapes, **model.fixed}, 1)
        names = [array.name for array in read.outputs]
        # Behind codes onnxruntime computes Softmax and others by approximations of integers.
        self.session = partial(session_of, optimized=not read.has_floats)
        self.expected = self.session(model.proto).run(names, self.feed)
        self.allowed: dict[int, float] = {}  # by the number of an output
        off: dict[int, float] = {}  # how far numbers of maps may be off
        values = self._between(read)
        for number, step in enumerate(read.steps):
            if isinstance(step.op, Dequantize):
                off[step.output.number] = step.op.scale or 0.0
            if isinstance(step.op, Floats):
                made = _grown(step, step.op, values, off, predicted[number])
                off |= {one.number: far for one, far in made}
                for one, far in made:
                    if one.outer is not None:
                        self.allowed[one.outer[1]] = far

    def _between(self, read: ByteNetwork) -> dict[str, np.ndarray]:
        """What onnxruntime computes of the numbers that parts of floats read."""
        names = [n for s in read.steps if isinstance(s.op, Floats) for n in s.op.feed]
        names = [name for name in dict.fromkeys(names) if name not in self.feed]
        if not names:
            return self.feed
        proto, onnx = copied(read.model.proto), read.model.onnx
        known = {value.name for value in proto.graph.output}
        for name in names:
            if name not in known:
                value = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
                proto.graph.output.append(value)
        return {**self.feed, **dict(zip(names, self.session(proto).run(names, self.feed)))}


def _grown(
    step: Step, op: Floats, values: dict[str, np.ndarray], off: dict[int, float], error: float
) -> list[tuple[Map, float]]:
    """How far each output of a part may be off, by its first image."""
    random, read = np.random.default_rng(1), op.network
    far = [off.get(one.number, 0.0) for one in step.reads]
    session = session_of(read.model.proto)
    names = [array.name for array in read.outputs]

    def computed(moved: bool) -> list[Any]:
        feed = {}
        for array, name, step in zip(read.inputs, op.feed, far):
            x = values[name][:1].reshape(array.shape)
            if moved:
                x = x + np.float32(step) * random.choice([-1, 1], x.shape).astype(np.float32)
            feed[array.name] = x
        found: list[Any] = session.run(names, feed)
        return found

    exact, draws = computed(False), [computed(True) for _ in range(_DRAWS)] if any(far) else []
    made = []
    for number, (one, y) in enumerate(zip((step.output, *step.more), exact)):
        moves = [float(np.abs(draw[number] - y).max(initial=0)) for draw in draws]
        largest = float(np.abs(y).max(initial=0))
        made.append((one, max(moves, default=0.0) + GROWTH * max(error, _LEAST) * largest))
    return made
