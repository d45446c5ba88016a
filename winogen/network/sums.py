"""Nodes of ONNX that sum along axes: reductions, normalisations, products of matrices."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from winogen.network.loops import Along, Loops, Normalise, Operand, Product, Reduce, all_of
from winogen.network.operands import Operands
from winogen.onnx.quantized import Refused
from winogen.onnx.sizes import input_of

ONE_AXIS = {"Softmax": "softmax", "LogSoftmax": "log_softmax"}


class Sums(Operands):
    """Readers of what sums along axes."""

    def reduced(self, node: Any) -> Reduce:
        x, values = self.operand(node.input[0]), self.model.attributes(node)
        rank = len(x.shape)
        axes: Iterable[int] = self.whole(node, 1, "axes", "axes") or range(rank)
        if values.get("noop_with_empty_axes", 0) and isinstance(axes, range):
            axes = ()  # each number is reduced on its own: the sum of squares is its square
        chosen = {axis % rank for axis in axes}
        return self._reduce(node.op_type, x, chosen, bool(values.get("keepdims", 1)))

    def _reduce(self, kind: str, x: Operand, axes: Collection[int], keeps: bool = True) -> Reduce:
        """Of some axes, which are left out unless the result ``keeps`` them."""
        sizes = [1 if axis in axes else n for axis, n in enumerate(x.shape)]
        shape = tuple(n for axis, n in enumerate(sizes) if keeps or axis not in axes)
        return Reduce(kind, x, tuple(sorted(axes)), shape)

    def _pooled(self, node: Any) -> Reduce:
        x = self.operand(node.input[0])
        kind = "ReduceMax" if node.op_type == "GlobalMaxPool" else "ReduceMean"
        return self._reduce(kind, x, range(2, len(x.shape)))

    _GlobalAveragePool = _pooled
    _GlobalMaxPool = _pooled

    def _GlobalLpPool(self, node: Any) -> Reduce:
        kind = {1: "ReduceL1", 2: "ReduceL2"}.get(self.model.attributes(node).get("p", 2))
        if kind is None:
            raise Refused("its powers are others than 1 and 2")
        x = self.operand(node.input[0])
        return self._reduce(kind, x, range(2, len(x.shape)))

    def _pool(self, node: Any) -> NoReturn:
        """A pool that is no operator of maps: why."""
        rank = len(self.shape(node.input[0])) - 2
        if any(node.output[1:]):
            raise Refused("it gives places of the largest numbers, too")
        if not 1 <= rank <= 3:
            raise Refused(f"{rank}D")
        if node.op_type == "LpPool" and set(self.model.attributes(node).get("dilations", ())) - {1}:
            raise Refused("its windows have gaps")
        raise Refused("a window lies in padding alone")

    _AveragePool = _pool
    _LpPool = _pool
    _MaxPool = _pool

    def softmax(self, node: Any) -> Normalise:
        x, old = self.operand(node.input[0]), self.model.opset < 13
        rank = len(x.shape)
        axis = self.model.attributes(node).get("axis", 1 if old else -1) % rank
        axes = tuple(range(axis, rank)) if old else (axis,)
        return Normalise(ONE_AXIS[node.op_type], x, tuple(all_of(x.shape)), axes, x.shape)

    def _LayerNormalization(self, node: Any) -> Normalise:
        x, values = self.operand(node.input[0]), self.model.attributes(node)
        rank = len(x.shape)
        first = values.get("axis", -1) % rank
        if values.get("stash_type", 1) != 1:
            raise Refused("it computes with other numbers than float32")
        given = [self.operand(name) for name in node.input[1:] if name]
        if any(one.shape != x.shape[first:] for one in given):
            raise Refused("its scale or shift has another shape")
        along = (*[None] * first, *(Along(n, axis) for axis, n in enumerate(x.shape[first:])))
        return self._moments(node, x, all_of(x.shape), range(first, rank), given, along)

    def _InstanceNormalization(self, node: Any) -> Normalise:
        x = self.operand(node.input[0])
        given = [self.operand(name) for name in node.input[1:]]
        along = (None, Along(x.shape[1], 0), *[None] * (len(x.shape) - 2))
        return self._moments(node, x, all_of(x.shape), range(2, len(x.shape)), given, along)

    def _MeanVarianceNormalization(self, node: Any) -> Normalise:
        x = self.operand(node.input[0])
        rank = len(x.shape)
        axes = [axis % rank for axis in self.model.attributes(node).get("axes", (0, 2, 3))]
        found = self._moments(node, x, all_of(x.shape), axes, [], ())
        return replace(found, epsilon=0.0)  # by the deviation alone, as onnxruntime

    def _GroupNormalization(self, node: Any) -> Normalise:
        x, values = self.operand(node.input[0]), self.model.attributes(node)
        groups, channels = values["num_groups"], x.shape[1]
        each = channels // groups
        view = [Along(x.shape[0], 0), Along(groups, 1, each), Along(each, 1)]
        view += [Along(n, axis) for axis, n in enumerate(x.shape[2:], 2)]
        given = [self.operand(name) for name in node.input[1:]]
        by_group = self.model.opset < 21
        along = (
            None,
            Along(groups, 0, 1 if by_group else each),
            None if by_group else Along(each, 0),
            *[None] * (len(x.shape) - 2),
        )
        return self._moments(node, x, view, range(2, len(view)), given, along)

    def _moments(
        self, node: Any, x: Operand, view: Sequence[Along], axes: Sequence[int],
        given: Sequence[Operand], along: Sequence[Along | None],
    ) -> Normalise:  # fmt: skip
        scale, shift = (*given, None, None)[:2]
        epsilon = float(np.float32(self.model.attributes(node).get("epsilon", 1e-5)))
        return Normalise(
            "moments", x, tuple(view), tuple(axes), x.shape, scale, shift, tuple(along), epsilon
        )

    def _MatMul(self, node: Any) -> Product:
        a, b = map(self.operand, node.input)
        if len(a.shape) < 2 or len(b.shape) < 2:
            raise Refused("it multiplies by a vector")
        return Product((a, b), self.shape(node.output[0]))

    def _Gemm(self, node: Any) -> list[tuple[str, Loops]]:
        values, last = self.model.attributes(node), node.output[0]
        across = bool(values.get("transA", 0)), bool(values.get("transB", 0))
        a, b = map(self.operand, node.input[:2])
        steps: list[tuple[str, Loops]] = []
        loops: Loops = Product((a, b), self.shape(last), across)
        if values.get("alpha", 1.0) != 1:
            whole = self.then(steps, loops, last)
            loops = self.each("Mul", whole, self.number(values["alpha"]))
        if name := input_of(node, 2):
            more = self.operand(name)
            if values.get("beta", 1.0) != 1:
                scaled = self.each("Mul", more, self.number(values["beta"]))
                if more.constant is None:
                    more = self.then(steps, scaled, last)
                else:
                    more = Operand.of(more.constant * np.float32(values["beta"]))
            whole = self.then(steps, loops, last)
            loops = self.each("Add", whole, more)
        return [*steps, (last, loops)]
