"""A graph that runs as one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from winogen.conv import arguments
from winogen.errors import InvalidType, InvalidValue
from winogen.graph import twin
from winogen.graph.ir import Graph
from winogen.graph.lower import lower
from winogen.graph.shapes import Shape, shapes


class Segment:
    """A graph without Opaque nodes, whose inputs and outputs are arrays.

    ``tolerance`` and ``threads`` are those of `winogen.conv2d`, for every layer. ``layout`` is
    "NCHW", "NHWC", or None for the faster one of the first shapes. ``memory_limit`` bounds the
    bytes of packed filters; None for no limit.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        tolerance: float | None = None,
        threads: int | None = None,
        layout: str | None = None,
        memory_limit: int | None = None,
    ):
        self.graph = graph
        self.dtype = graph.dtype or np.dtype(np.float32)
        self.tolerance, self.threads, self.memory_limit = tolerance, threads, memory_limit
        self.layout = (
            "NCHW" if layout is None else arguments.choice("layout", layout, arguments.LAYOUTS)
        )

    def output_shapes(self, input_shapes: Sequence[Shape]) -> list[Shape]:
        """Return the shapes (N, C, H, W) of the outputs, from those of the inputs."""
        values = shapes(self.graph, dict(zip(self.graph.inputs, input_shapes)))
        return [values[name] for name in self.graph.outputs]

    def __call__(self, *inputs: Any, outs: Sequence[np.ndarray] | None = None) -> list[np.ndarray]:
        """Return the outputs for arrays in the segment's layout, in ``outs`` if given."""
        if len(inputs) != len(self.graph.inputs):
            raise InvalidValue(
                f"inputs: got {len(inputs)}; allowed: {len(self.graph.inputs)} arrays"
            )
        arrays = [arguments.array(name, x) for name, x in zip(self.graph.inputs, inputs)]
        for name, x in zip(self.graph.inputs, arrays):
            if x.dtype != self.dtype:
                raise InvalidType(f"{name}: got dtype {x.dtype}; allowed: {self.dtype}")
        logical = [self._logical(x) for x in arrays]
        values = shapes(self.graph, dict(zip(self.graph.inputs, [x.shape for x in logical])))
        steps, sizes = lower(self.graph, values, self.dtype)
        buffers: dict[Any, np.ndarray] = {
            buffer: np.empty(shape, self.dtype) for buffer, shape in sizes.items()
        }
        buffers.update({("input", i): x for i, x in enumerate(logical)})
        if outs is not None:
            buffers.update({("output", i): self._logical(y) for i, y in enumerate(outs)})
        twin.run(steps, buffers)
        if outs is not None:
            return list(outs)
        made = [buffers["output", i] for i in range(len(self.graph.outputs))]
        if self.layout == "NHWC":
            made = [np.ascontiguousarray(y.transpose(0, 2, 3, 1)) for y in made]
        return made

    def _logical(self, x: np.ndarray) -> np.ndarray:
        return x if self.layout == "NCHW" else x.transpose(0, 3, 1, 2)
