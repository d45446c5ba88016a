"""Operators that are others which the graph knows: exactly, or but for the order of sums.

A map enlarged by whole factors is a transposed convolution of its channels: each pixel of the small
map adds to as many of the large one as its weights reach, and beyond the rim its last pixels are
repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import ceil, floor, prod
from typing import Any

import numpy as np

from winogen.network.pools import averaged, of_powers
from winogen.onnx.matching import axes_of
from winogen.onnx.model import Model, copied, fresh
from winogen.onnx.sizes import STANDARD, input_of

_MOST = 1 << 16  # weights of an enlargement: those of larger factors are many

# Where an output's pixel lies among those of the input, which is enlarged so many times.
_POSITIONS: Mapping[str, Callable[[float, int], float]] = {
    "half_pixel": lambda pixel, times: (pixel + 0.5) / times - 0.5,
    "pytorch_half_pixel": lambda pixel, times: (pixel + 0.5) / times - 0.5,
    "asymmetric": lambda pixel, times: pixel / times,
}


def with_others(model: Model, part: bool = False) -> Any:
    """Return the model's ModelProto in which such nodes are replaced.

    ``part``: whether the results become codes, for which linear ones stay: their sums are added in
    the order of onnxruntime.
    """
    return Rewriting(model, part).proto()


class Rewriting:
    """The nodes and constants of a model while it is rewritten."""

    def __init__(self, model: Model, part: bool):
        self.part = part
        self.model, self.helper, self.taken = model, model.onnx.helper, model.names()
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []
        self.read = {name for node in model.graph.node for name in model.reads(node)}
        self.read |= {value.name for value in model.graph.output}

    def proto(self) -> Any:
        """Return the new model: each replaced node's results keep their names."""
        makers: dict[str, Callable[[Any], bool]] = {
            "AveragePool": partial(averaged, self),
            "Cast": self._cast,
            "Dropout": self._dropout,
            "GlobalMaxPool": self._largest,
            "LpPool": partial(of_powers, self),
            "Neg": self._negated,
            "ReduceMax": self._largest,
            "Resize": self._enlarged,
            "Sub": self._difference,
        }
        changed = False
        for node in self.model.graph.node:
            make = makers.get(node.op_type) if node.domain in STANDARD else None
            if make is not None and self._is_of_floats(node) and make(node):
                changed = True
            else:
                self.nodes.append(copied(node))
        proto = copied(self.model.proto)
        if changed:
            del proto.graph.node[:]
            proto.graph.node.extend(self.nodes)
            proto.graph.initializer.extend(self.tensors)
        return proto

    # ---- what is asked and written ---------------------------------------------------------------

    def _is_of_floats(self, node: Any) -> bool:
        """Whether the first input that is no constant is of float32."""
        given = [name for name in node.input if name and self.model.constant(name) is None]
        return bool(given) and self.model.kind(given[0]) == self.model.onnx.TensorProto.FLOAT

    def sizes(self, name: str) -> tuple[int, ...] | None:
        """The sizes of a value; None where some are not known."""
        sizes = self.model.sizes.get(self.model.aliases.get(name, name))
        if sizes is None or not all(size.known for size in sizes):
            return None
        return tuple(size.number for size in sizes)

    def constant(self, array: Any, near: str) -> str:
        """The name of a new constant."""
        name = fresh(f"{near}.constant", self.taken)
        self.tensors.append(self.model.onnx.numpy_helper.from_array(array, name))
        return name

    def write(
        self, kind: str, node: Any, inputs: Sequence[str], last: bool = True, **attributes: Any
    ) -> str:
        """A node in the place of another; ``last``: which makes its result."""
        made = node.output[0] if last else fresh(f"{node.output[0]}.{kind}", self.taken)
        name = (node.name or node.output[0]) if last else made
        self.nodes.append(self.helper.make_node(kind, inputs, [made], name=name, **attributes))
        return str(made)

    def padded(self, node: Any, x: str, before: Sequence[int], after: Sequence[int]) -> str:
        """A map with zeros before and after its axes but the first two."""
        if not any((*before, *after)):
            return x
        ends = [0, 0, *before, 0, 0, *after]
        if self.model.opset < 11:
            return self.write("Pad", node, [x], last=False, pads=ends)
        pads = self.constant(np.array(ends, np.int64), node.output[0])
        return self.write("Pad", node, [x, pads], last=False)

    # ---- operators -------------------------------------------------------------------------------

    def _cast(self, node: Any) -> bool:
        if self.model.attributes(node)["to"] != self.model.onnx.TensorProto.FLOAT:
            return False
        self.write("Identity", node, node.input[:1])
        return True

    def _dropout(self, node: Any) -> bool:
        """Only training drops numbers, which a constant switches on."""
        if any(name in self.read for name in node.output[1:] if name):
            return False
        if self.model.may_drop(node):
            return False
        self.write("Identity", node, node.input[:1])
        return True

    def _negated(self, node: Any) -> bool:
        minus = self.constant(np.float32(-1), node.output[0])
        self.write("Mul", node, [node.input[0], minus])
        return True

    def _difference(self, node: Any) -> bool:
        first, second = node.input
        if self.model.constant(second) is not None:
            return False  # a shift, as it is
        minus = self.constant(np.float32(-1), node.output[0])
        negated = self.write("Mul", node, [second, minus], last=False)
        constant = self.model.constant(first) is not None
        self.write("Add", node, [negated, first] if constant else [first, negated])
        return True

    def _largest(self, node: Any) -> bool:
        """The largest number of each channel: of a window as large as the map."""
        sizes, values = self.sizes(node.input[0]), self.model.attributes(node)
        if sizes is None or len(sizes) not in (3, 4, 5):
            return False
        keeps = True
        if node.op_type == "ReduceMax":
            if axes_of(self.model, node, len(sizes)) != {*range(2, len(sizes))}:
                return False
            keeps = bool(values.get("keepdims", 1))
        pixel = self.write(
            "MaxPool", node, node.input[:1], last=keeps, kernel_shape=list(sizes[2:])
        )
        if not keeps:
            self.write("Flatten", node, [pixel], axis=1)
        return True

    def _enlarged(self, node: Any) -> bool:
        values = self.model.attributes(node)
        small, large = self.sizes(node.input[0]), self.sizes(node.output[0])
        position = values.get("coordinate_transformation_mode", "half_pixel")
        kind = values.get("mode", "nearest")
        if position not in _POSITIONS or small is None or large is None or self.model.opset < 11:
            return False
        if kind == "linear" and self.part:
            return False
        if len(small) != 4 or values.get("antialias", 0) or values.get("axes") is not None:
            return False
        times = [b // a for a, b in zip(small[2:], large[2:])]
        if large != (*small[:2], *(a * n for a, n in zip(small[2:], times))) or prod(times) == 1:
            return False
        if not self._scales_are(node, times):
            return False
        if kind == "nearest":
            return self._repeated(node, position, values)
        if kind == "cubic" and values.get("exclude_outside", 0):
            return False
        curve = _linear if kind == "linear" else _cubic(values.get("cubic_coeff_a", -0.75))
        reach = 1 if kind == "linear" else 2
        columns = [_weights(n, _POSITIONS[position], curve, reach) for n in times]
        if small[1] * prod(len(weights) for _, weights in columns) > _MOST:
            return False
        taps = np.outer(columns[0][1], columns[1][1]).astype(np.float32)
        filters = np.broadcast_to(taps, (small[1], 1, *taps.shape))
        weight = self.constant(np.ascontiguousarray(filters), node.output[0])
        ends = self.constant(np.array([0, 0, reach, reach] * 2, np.int64), node.output[0])
        padded = self.write("Pad", node, [node.input[0], ends], last=False, mode="edge")
        # Of what the padded map becomes, the large one's pixels: before and behind are others.
        before = [n * reach - first for n, (first, _) in zip(times, columns)]
        whole = [
            n * (size + 2 * reach - 1) + len(weights)
            for n, size, (_, weights) in zip(times, small[2:], columns)
        ]
        behind = [all_ - cut - size for all_, cut, size in zip(whole, before, large[2:])]
        self.write(
            "ConvTranspose", node, [padded, weight], group=small[1], strides=times,
            pads=[*before, *behind],
        )  # fmt: skip
        return True

    def _scales_are(self, node: Any, times: Sequence[int]) -> bool:
        """Whether the scales, where they are given, are whole: sizes are rounded."""
        name = input_of(node, 2)
        scales = self.model.constant(name)
        if not name or (scales is not None and not scales.size):
            return len(node.input) > 3
        return scales is not None and [*scales] == [1, 1, *times]

    def _repeated(self, node: Any, position: str, values: Mapping[str, Any]) -> bool:
        """Centres of pixels lie nearest to that of the one that they are parts of."""
        rounding = values.get("nearest_mode", "round_prefer_floor")
        if position == "asymmetric" or not rounding.startswith("round"):
            return False
        kept = {name: value for name, value in values.items() if name != "cubic_coeff_a"}
        kept |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        self.write("Resize", node, node.input, **kept)
        return True


def _weights(
    times: int,
    position: Callable[[float, int], float],
    curve: Callable[[float], float],
    reach: int,
) -> tuple[int, list[float]]:
    """Where, from the first of its own pixels, the outputs of an input begin; their weights."""
    first = ceil(-reach * times)
    pixels = range(first, floor((reach + 1) * times) + 1)
    weights = {pixel: curve(position(pixel, times)) for pixel in pixels}
    wanted = [pixel for pixel, weight in weights.items() if weight]
    return wanted[0], [weights[pixel] for pixel in range(wanted[0], wanted[-1] + 1)]


def _linear(distance: float) -> float:
    return max(0.0, 1.0 - abs(distance))


def _cubic(a: float) -> Callable[[float], float]:
    def weight(distance: float) -> float:
        x = abs(distance)
        if x >= 2:
            return 0.0
        if x > 1:
            return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return ((a + 2) * x - (a + 3)) * x * x + 1

    return weight
