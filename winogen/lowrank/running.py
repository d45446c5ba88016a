"""Both stages as one call: a segment of a graph where that can run them, else two calls.

A segment costs one way from Python to C instead of two, keeps the maps between the stages in memory
that it uses again, and runs both strip by strip of rows where a cache then holds these. Its
kernels are those of two calls, and so are the bits of its results.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from winogen.conv import Conv2d, arguments, memory, seams
from winogen.conv.options import Options
from winogen.conv.problem import Layer
from winogen.conv.request import Request
from winogen.errors import CompilerNotFound
from winogen.graph import Conv, Graph, Node, Segment
from winogen.graph.shapes import Shape
from winogen.lowrank.cutting import RankCut
from winogen.lowrank.form import Form, axes_of
from winogen.lowrank.times import predicted
from winogen.typing import Array, NDArray

_REMEMBERED = 256  # shapes


class Pipeline:
    """Stage 2 of stage 1, called like `winogen.Conv2d`. ``each``: these two alone."""

    def __init__(self, layer: Layer, options: Options, cut: RankCut):
        self._layer, self._dtype, self._requests = layer, cut.first.dtype, []
        given = [stage_options(options, layer, cut.form, stage) for stage in range(2)]
        weights = cut.first, cut.second
        for weight, asked in zip(weights, (Options(**one) for one in given)):
            one = Layer.from_options(weight.shape, layer.dtype, asked)
            self._requests.append((one, Request.from_options(one, asked)))
        self.each = Conv2d(cut.first, None, **given[0]), Conv2d(cut.second, cut.bias, **given[1])
        self._segment = None
        if _fits(layer, options):
            self._segment = _segment(cut, self._requests[0][1], given)
        # By the shape of an input: as the segment names it, and of the output; None: two calls.
        self._whole: dict[tuple[int, ...], tuple[list[Shape], Shape] | None] = {}

    def __call__(
        self, input: Array, out: NDArray | None, add: Array | None, add_after: Array | None
    ) -> NDArray:
        """Return activation(stage 2 of stage 1 + bias + add) + add_after, in ``out`` if given."""
        x = arguments.array("input", input)
        whole = None
        if add is None and add_after is None and x.dtype == self._dtype:
            whole = self._whole[x.shape] if x.shape in self._whole else self._decide(x.shape)
        if whole is None or self._segment is None:
            return self._one_by_one(x, out, add, add_after)
        shapes, shape = whole
        if out is None:
            y = memory.empty(shape, self._dtype, "output")
        else:
            y, _ = seams.writeable(out, shape, self._dtype, self._layer.layout, {"input": x})
            if not y.flags.c_contiguous:
                return self._one_by_one(x, out, add, add_after)
        x = memory.contiguous(x, "input")
        self._segment.bound(shapes).run([x.ctypes.data, y.ctypes.data])
        return y if out is None else out

    def _one_by_one(
        self, x: np.ndarray, out: NDArray | None, add: Array | None, add_after: Array | None
    ) -> NDArray:
        one, other = self.each
        return other(one(x), out, add=add, add_after=add_after)

    def _decide(self, shape: Shape) -> tuple[list[Shape], Shape] | None:
        """What is remembered of a shape of inputs."""
        if self._segment is None:
            return None
        problem = self._layer.problem(shape)
        maps = problem.input_shape if problem.batched else (1, *problem.input_shape)
        logical = maps if self._layer.planar else (maps[0], maps[-1], *maps[1:-1])
        is_whole = maps[0] > 0 and self._by_kernels(maps) and self._there(logical)
        if len(self._whole) >= _REMEMBERED:
            self._whole.clear()
        self._whole[shape] = ([logical], problem.output_shape) if is_whole else None
        return self._whole[shape]

    def _by_kernels(self, shape: Shape) -> bool:
        """Whether kernels compute both stages; Fourier transforms are no step of a segment."""
        for layer, request in self._requests:
            if predicted(layer, request, shape).algorithm == "fft":
                return False
            shape = layer.problem(shape).output_shape
        return True

    def _there(self, logical: Shape) -> bool:
        """Whether the C that runs segments is there, or can be compiled."""
        assert self._segment is not None
        try:
            self._segment.bound([logical])
        except CompilerNotFound:
            return False
        return True


def stage_options(options: Options, layer: Layer, form: Form, stage: int) -> dict[str, Any]:
    """Return the options of `winogen.Conv2d` for one of both stages."""
    asked = dict(vars(options))
    axes = axes_of(layer, form, stage)
    for name in ("stride", "dilation"):
        asked[name] = tuple(getattr(axis, name) for axis in axes)
    asked["padding"] = tuple((axis.before, axis.after) for axis in axes)
    if stage == 0:
        asked["activation"] = None
    return asked


def _fits(layer: Layer, options: Options) -> bool:
    """Whether segments have such numbers and these options."""
    others = options.filter_dtype, options.product_dtype, options.workspace_limit
    return layer.dtype in ("float32", "float64") and all(option is None for option in others)


def _segment(cut: RankCut, request: Request, given: list[dict[str, Any]]) -> Segment:
    """Both stages as a graph from x by y to z. ``request``: how either is computed."""
    nodes = []
    for stage, (weight, bias) in enumerate(((cut.first, None), (cut.second, cut.bias))):
        asked = given[stage]
        conv = Conv(
            weight,
            bias,
            stride=asked["stride"],
            padding=tuple(size for ends in asked["padding"] for size in ends),
            dilation=asked["dilation"],
            groups=cut.form.groups,
            padding_mode=asked["padding_mode"],
            activation=asked["activation"],
        )
        nodes.append(Node(conv, ("xyz"[stage],), ("xyz"[stage + 1],)))
    return Segment(
        Graph(("x",), nodes, ("z",)),
        tolerance=request.tolerance,
        threads=request.threads,
        layout=given[0]["layout"],
        algorithm=request.algorithm,
    )
