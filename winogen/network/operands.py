"""What nodes of ONNX read: values and constants as operands of loops.

What is no array of floats, or changes from call to call where loops need a constant, is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from winogen.network.loops import Each, Loops, Move, Operand, Piece, Shape, all_of
from winogen.onnx.model import Model, fresh
from winogen.onnx.quantized import Refused, given_of

SAME = ("Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
_LIKE_INPUT = (*SAME, "GroupNormalization", "Concat", "Mish", "HardSwish")


class Operands:
    """A model whose nodes are read.

    ``forms``: of values that are no maps in the model. ``taken``: names of values.
    """

    def __init__(self, model: Model, forms: Mapping[str, str], taken: Collection[str]):
        self.model, self.forms, self.taken = model, forms, {*taken}

    def kind(self, name: str) -> int:
        """The type of a value; of an operator's that onnx infers nothing of, that of its input."""
        known = self.model.kind(name)
        maker = self.model.makers.get(name)
        if known or maker is None or maker.op_type not in _LIKE_INPUT:
            return known
        return self.kind(maker.input[0])

    def shape(self, name: str) -> Shape:
        """The shape of a value in the model."""
        sizes = self.model.sizes.get(name)
        constant = self.model.constant(name)
        if constant is not None:
            return tuple(constant.shape)
        if sizes is None or not all(size.known for size in sizes):
            raise Refused(f"the sizes of {name} are not known")
        shape = tuple(size.number for size in sizes)
        if 0 in shape:
            raise Refused(f"{name} is empty")
        return shape

    def operand(self, name: str) -> Operand:
        """A value, or a constant of floats."""
        constant = self.model.constant(name)
        if constant is not None:
            if constant.dtype.kind not in "fb":
                raise Refused(f"{name} has numbers of {constant.dtype}")
            return Operand.of(constant)
        if name in self.model.sparse:
            raise Refused(f"{name} is sparse")
        tensor, kind = self.model.onnx.TensorProto, self.kind(name)
        if kind not in (tensor.FLOAT, tensor.BOOL):
            raise Refused(f"{name} has numbers of {tensor.DataType.Name(kind).lower()}")
        value = self.model.aliases.get(name, name)
        return Operand(self.shape(name), value, self.forms.get(value, ""))

    def number(self, value: float) -> Operand:
        """A constant that is one number."""
        return Operand.of(value)

    def whole(self, node: Any, place: int, what: str, old: str = "") -> list[int] | None:
        """Integers of an input, or of an attribute in older opsets; None if they are not given."""
        if old and old in self.model.attributes(node):
            values = self.model.attributes(node)[old]
            return [values] if isinstance(values, int) else [*values]
        array = given_of(self.model, node, place, what)
        return None if array is None else [int(one) for one in array]

    def scalar(self, node: Any, place: int, default: float) -> float:
        """A number that is an input."""
        array = given_of(self.model, node, place, what := f"input {place + 1}")
        if array is not None and array.size != 1:
            raise Refused(f"its {what} may change from call to call")
        return default if array is None else float(array[0])

    def broadcast(self, operands: Sequence[Operand]) -> Shape:
        """The shape that operands are broadcast to."""
        return tuple(np.broadcast_shapes(*(one.shape for one in operands)))

    def each(self, function: str, *operands: Operand) -> Each:
        """A function of each number."""
        return Each(function, operands, self.broadcast(operands))

    def then(self, steps: list[tuple[str, Loops]], loops: Loops, near: str) -> Operand:
        """Another step, before the last one; its result as an operand."""
        name = fresh(f"{near}.part", self.taken)
        steps.append((name, loops))
        return Operand(loops.shape, name)

    def copied(self, x: Operand, shape: Shape) -> Move:
        """The same numbers as an array of another shape."""
        return Move((Piece(x, tuple(all_of(x.shape)), tuple(all_of(shape))),), shape)
