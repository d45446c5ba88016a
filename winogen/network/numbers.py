"""Nodes of ONNX that compute number by number."""

from __future__ import annotations

from typing import Any

import numpy as np

from winogen.network.functions import EACH
from winogen.network.loops import Each, Loops, Move, Operand
from winogen.network.operands import Operands
from winogen.onnx.quantized import Refused, clip_bounds

SEVERAL = {"Max": "Max", "Min": "Min", "Sum": "Add", "Mean": "Add"}  # of any number of operands


class Numbers(Operands):
    """Readers of functions of each number."""

    def of_numbers(self, node: Any) -> Each:
        function = EACH[node.op_type]
        values = self.model.attributes(node)
        operands = [self.operand(name) for name in node.input]
        operands += [
            self.number(values.get(name, default)) for name, default in function.parameters
        ]
        if len(operands) != len(function.operands):
            raise Refused(f"it has {len(operands)} operands")
        return self.each(node.op_type, *operands)

    def of_several(self, node: Any) -> list[tuple[str, Loops]]:
        first, *others = map(self.operand, node.input)
        steps: list[tuple[str, Loops]] = []
        last = node.output[0]
        if not others:
            return [(last, self.copied(first, first.shape))]
        loops: Loops | None = None
        for other in others:
            if loops is not None:
                first = self.then(steps, loops, last)
            loops = self.each(SEVERAL[node.op_type], first, other)
        assert loops is not None
        if node.op_type == "Mean":
            whole = self.then(steps, loops, last)
            loops = self.each("Div", whole, self.number(len(node.input)))
        return [*steps, (last, loops)]

    def _Cast(self, node: Any) -> Each | Move:
        tensor = self.model.onnx.TensorProto
        x = self.operand(node.input[0])
        if self.model.attributes(node)["to"] == tensor.BOOL:
            return self.each("yes", x)
        return self.copied(x, x.shape)

    def _Clip(self, node: Any) -> Each:
        bounds = clip_bounds(self.model, node)
        low, high = (self.number(float(one)) for one in bounds)
        return self.each("Clip", self.operand(node.input[0]), low, high)

    def _Pow(self, node: Any) -> Each:
        base, power = node.input
        given = self.model.constant(power)
        known = {2.0: "square", 0.5: "Sqrt", -1.0: "Reciprocal"}
        x = self.operand(base)
        if given is not None and given.size == 1 and given.ndim <= len(x.shape):
            function = known.get(float(given.reshape(-1)[0]))
            if function:
                return self.each(function, x)
            return self.each("Pow", x, self.number(float(given.reshape(-1)[0])))
        return self.each("Pow", x, self.operand(power))

    def _Gelu(self, node: Any) -> Each:
        tanh = self.model.attributes(node).get("approximate", "none") == "tanh"
        return self.each("gelu_tanh" if tanh else "Gelu", self.operand(node.input[0]))

    def _BatchNormalization(self, node: Any) -> Each | list[tuple[str, Loops]]:
        values = self.model.attributes(node)
        if any(node.output[1:]) or values.get("training_mode", 0):
            raise Refused("it is in training mode")
        x = self.operand(node.input[0])
        given = [self.operand(name).constant for name in node.input[1:]]
        if any(one is None for one in given):
            raise Refused("its statistics may change from call to call")
        scale, shift, mean, var = (np.asarray(one, np.float64) for one in given)
        shape = (-1, *[1] * (len(x.shape) - 2))
        with np.errstate(all="ignore"):  # a variance of 0 makes infinite ones
            factor = scale / np.sqrt(var + np.float32(values.get("epsilon", 1e-5)))
            both = np.array([factor, shift - mean * factor], np.float32)
        if np.isfinite(both).all():
            return self.each("scaled", x, *(Operand.of(one.reshape(shape)) for one in both))
        steps: list[tuple[str, Loops]] = []
        less = self.each("Sub", x, Operand.of(mean.reshape(shape)))
        apart = self.then(steps, less, node.output[0])
        last = [Operand.of(one.reshape(shape)) for one in (factor, shift)]
        return [*steps, (node.output[0], self.each("scaled", apart, *last))]
