"""What makes codes of others: each operator of a quantized model as a node of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from winogen.conv.phases import ordinary
from winogen.conv.quantization import RANGES, QuantizedFilters
from winogen.errors import WinogenError
from winogen.graph import MaxPool, Node, QConv
from winogen.graph.ops import (
    Codes,
    Concat,
    Lookup,
    Nearest,
    Operator,
    QAdd,
    QMean,
    Quantize,
    Shape,
    Spread,
)
from winogen.graph.ops.base import Misfit
from winogen.graph.ops.quantized import HIGHEST, LOWEST, After
from winogen.onnx.model import Model, fresh
from winogen.onnx.padding import same, transposed, windows
from winogen.onnx.quantized import Codes as Steps
from winogen.onnx.quantized import Refused, codes_of, constant_of, counted_bias, whole
from winogen.onnx.resizing import nearest_places
from winogen.onnx.sizes import Size, input_of

Real = tuple[str, Codes]  # numbers in the model, and which these codes are


class Nodes:
    """The nodes made so far, of a model whose values have these shapes where it leaves them open.

    Functions that make a node return the name of what it makes, codes of int8; they raise Refused.
    ``shapes``: of each value, of one image. ``codes``: what it means; None: it is floats, or a
    caller's.
    """

    def __init__(self, model: Model, given: Mapping[str, tuple[int, ...]]):
        self.model, self.given = model, given
        self.nodes: list[Node] = []
        self.shapes: dict[str, Shape] = {}
        self.codes: dict[str, Codes | None] = {}
        # By the values that are made of them, with the names of their nodes.
        self.transposed_layers: dict[str, tuple[QConv, str]] = {}
        self.refused_layers: dict[str, str] = {}  # outputs of transposed ones, and why
        self._taken = model.names()

    def node(
        self, label: str, op: Operator, reads: Sequence[str], source: str, checks: bool = False
    ) -> str:
        """A node that makes codes of the model's value ``source``, whose sizes it may check."""
        made = fresh(f"{source}.int8", self._taken)
        self.add(label, op, reads, made)
        known = map_sizes(self.shape(source)) if checks else self.shapes[made][1:]
        if known != self.shapes[made][1:]:
            self.nodes.pop()
            here = self.shapes[made][1:]
            raise Refused(f"the sizes of {source} are {known}, and its node makes {here}")
        return made

    def add(self, label: str, op: Operator, reads: Sequence[str], name: str) -> None:
        """A node that makes a value of this name."""
        try:
            made = op.output([self.shapes[one] for one in reads])
        except Misfit as misfit:
            raise Refused(str(misfit)) from None
        self.shapes[name] = made
        self.codes[name] = op.codes(*(self.codes[one] for one in reads))
        self.nodes.append(Node(op, tuple(reads), (name,), label))

    def value(self, name: str, sizes: tuple[int, int, int]) -> str:
        """A value that is floats, or a caller's codes."""
        self.shapes[name], self.codes[name] = (1, *sizes), None
        return name

    def convolution(self, label: str, op: QConv, x: str, name: str) -> str:
        """A convolution of codes whose output is codes; ``name``: of that."""
        if op.y_scale is None:
            raise Refused("its output are sums")
        made = op.signed
        if np.any(made.w_zero):
            raise Refused("its weights have zero points other than 0")
        if isinstance(op.padding, str):
            axes = zip(self.shapes[x][2:], op.stride, op.dilation, op.weight.shape[2:])
            ends = (same(op.padding, n, step, d * (k - 1)) for n, step, d, k in axes)
            (top, bottom), (left, right) = ends
            made = replace(made, padding=(top, bottom, left, right))
        return self.node(label, made, (x,), name, checks=True)

    def transposed(self, node: Any, reads: Sequence[Real], after: After) -> str:
        """A transposed convolution: one of all phases, whose channels are spread over pixels."""
        try:
            return self._transposed(node, reads, after)
        except (Refused, WinogenError) as reason:
            self.refused_layers[node.output[0]] = str(reason)
            raise

    def _transposed(self, node: Any, reads: Sequence[Real], after: After) -> str:
        ((x, x_codes),), values = reads, self.model.attributes(node)
        weight, w, axis = self._weights(node)
        groups = values.get("group", 1)
        if weight.ndim != 4 or len(weight) != self.shapes[x][1] or len(weight) % groups:
            raise Refused("it is no transposed convolution of maps")
        if w.scale.size > 1 and (axis != 1 or groups > 1):
            raise Refused("its weights have scales along another axis than that of the filters")
        along = zip(self.shapes[x][2:], weight.shape[2:])
        found = [
            transposed(values, n, 2, Size("", size), taps) for n, (size, taps) in enumerate(along)
        ]
        ends = [one for one in found if one is not None]
        if len(ends) < 2:
            raise Refused("its output has pixels that no input reaches")
        stride, dilation = (tuple(values.get(n, (1, 1))) for n in ("strides", "dilations"))
        options = {"dilation": dilation, "groups": groups}
        layer = self._layer(node, x_codes, ordinary(weight, groups), w, after, **options)
        padding, more = tuple(n for one in ends for n in one[:2]), tuple(one.more for one in ends)
        op, spread = layer.transposed(stride, padding, more)
        _check_sums(op)
        label, output = self.label(node, ""), node.output[0]
        made = self.node(label, op, (x,), output, checks=spread is None)
        if spread is not None:
            made = self.node(label, spread, (made,), output, checks=True)
        self.transposed_layers[made] = op, node.name or output
        return made

    def product(self, node: Any, reads: Sequence[Real], after: After) -> str:
        """A product of all numbers of an image: a convolution as large as the map."""
        values = self.model.attributes(node)
        if values.get("transA", 0) or {values.get(n, 1.0) for n in ("alpha", "beta")} != {1.0}:
            raise Refused("it is transposed or scaled")
        ((x, x_codes),) = reads
        _, *sizes = self.shapes[x]
        weight, w, axis = self._weights(node)
        across = values.get("transB", 0)
        if weight.ndim != 2 or (w.scale.size > 1 and axis != (0 if across else 1)):
            raise Refused("its weights have scales along another axis than that of outputs")
        rows = weight if across else weight.T
        if rows.shape[1] != prod(sizes):
            raise Refused("it multiplies along an axis of several")
        filters = np.ascontiguousarray(rows).reshape(len(rows), *sizes)
        op = self._layer(node, x_codes, filters, w, after)
        _check_sums(op)
        return self.node(self.label(node, ""), op, (x,), node.output[0])

    def _weights(self, node: Any) -> tuple[np.ndarray, Steps, int]:
        """The codes of a node's weights, what they mean, and along which axis scales may differ."""
        maker = self.model.makers.get(node.input[1])
        if maker is None or maker.op_type != "DequantizeLinear":
            raise Refused("its weights are not quantized")
        weight = constant_of(self.model, maker.input[0], "its weights")
        w = codes_of(self.model, maker.input[1], input_of(maker, 2), maker.input[0])
        return weight, w, self.model.attributes(maker).get("axis", 1) % max(1, weight.ndim)

    def _layer(
        self, node: Any, x: Codes, weight: np.ndarray, w: Steps, after: After, **options: Any
    ) -> QConv:
        """A convolution of codes by these filters, with the bias of a node."""
        bias = None
        if name := input_of(node, 2):
            counted = counted_bias(self.model, name, np.float32(x.scale).reshape(1), w.scale)
            bias = np.broadcast_to(counted.reshape(-1), len(weight))
        filters = QuantizedFilters.of(weight, whole(w.zero), bias)
        if filters.zero is not None:
            raise Refused("its weights have zero points other than 0")
        x_scale, y_scale = (np.asarray(np.float32(one.scale)) for one in (x, after.codes))
        return QConv(
            filters.weight, filters.bias, "int8", x.zero, 0, x_scale, whole(w.scale), y_scale,
            after.codes.zero, "int8", ends=(after.lowest, after.highest), **options,
        )  # fmt: skip

    def total(self, node: Any, reads: Sequence[Real], after: After) -> str:
        """The sum of two maps."""
        (x, x_codes), (z, z_codes) = reads
        if self.shapes[x] != self.shapes[z]:
            raise Refused("its inputs have different sizes")
        op = QAdd(x_codes, z_codes, after)
        return self.node(self.label(node, ""), op, (x, z), node.output[0])

    def mean(self, node: Any, reads: Sequence[Real], after: After) -> str:
        """The mean of each window, or of all."""
        ((x, x_codes),) = reads
        values = self.model.attributes(node)
        window: dict[str, Any] = {"kernel": self.shapes[x][2:], "stride": (1, 1)}
        if node.op_type == "AveragePool":
            if set(values.get("dilations", (1,))) != {1}:
                raise Refused("its windows have gaps")
            window = self._windows(values, values["kernel_shape"], x)
            window["counted"] = bool(values.get("count_include_pad", 0))
            if window["counted"] and values.get("ceil_mode", 0):
                raise Refused("it counts padding, and not what ceil_mode adds to it")
        op = QMean(x_codes, after, **window)
        return self.node(self.label(node, ""), op, (x,), node.output[0], checks=True)

    def largest(self, node: Any, x: str) -> str:
        """The largest code of each window."""
        if any(node.output[1:]):
            raise Refused("it gives places of the largest numbers, too")
        values = self.model.attributes(node)
        window = self._windows(values, values["kernel_shape"], x)
        op = MaxPool(**window, dilation=tuple(values.get("dilations", (1, 1))))
        return self.node(self.label(node, ""), op, (x,), node.output[0], checks=True)

    def nearest(self, node: Any, x: str) -> str:
        """The codes of the nearest pixels."""
        before, after = self.shape(node.input[0]), self.shape(node.output[0])
        if map_sizes(before) != self.shapes[x][1:]:
            raise Refused(f"the sizes of {node.input[0]} are {before}")
        op = Nearest(*nearest_places(self.model, node, before, after))
        return self.node(self.label(node, ""), op, (x,), node.output[0], checks=True)

    def spread(self, node: Any, x: str) -> str:
        """Channels as blocks of pixels."""
        values = self.model.attributes(node)
        factor = (values["blocksize"],) * 2
        order = "channels" if values.get("mode", "DCR") == "CRD" else "pixels"
        return self.node(
            self.label(node, ""), Spread(factor, order), (x,), node.output[0], checks=True
        )

    def _windows(self, values: Mapping[str, Any], kernel: Sequence[int], x: str) -> dict[str, Any]:
        """Kernel, stride and padding of a node with these attributes."""
        if len(kernel) != 2:
            raise Refused(f"{len(kernel)}D")
        stride, dilation = (tuple(values.get(n, (1, 1))) for n in ("strides", "dilations"))
        padding: list[int] = []
        for axis, (size, taps) in enumerate(zip(self.shapes[x][2:], kernel)):
            along = windows(values, axis, 2, size, taps)
            last = (along.outputs - 1) * stride[axis] + dilation[axis] * (taps - 1) + 1
            padding += along.before, max(0, last - size - along.before)
        return {"kernel": tuple(kernel), "stride": stride, "padding": tuple(padding)}

    def joined(self, node: Any, reads: Sequence[Real], after: After) -> str:
        """Parts of the channels, each with its table to the codes of the whole."""
        sizes = map_sizes(self.shape(node.output[0]))
        if self.model.attributes(node)["axis"] not in (1, 1 - len(self.shape(node.output[0]))):
            raise Refused("it joins along another axis than that of channels")
        if any(self.shapes[part][2:] != sizes[1:] for part, _ in reads):
            raise Refused("its inputs have different sizes")
        if sum(self.shapes[part][1] for part, _ in reads) != sizes[0]:
            raise Refused("its output has other channels than its inputs")
        label = self.label(node, "")
        parts = [
            self.node(label, Lookup.recoding(here, after), (part,), node.output[0])
            for part, here in reads
        ]
        return self.node(label, Concat(), parts, node.output[0])

    def quantized(self, label: str, x: str, after: After) -> str:
        """Numbers as codes."""
        return self.node(label, Quantize(after), (x,), x)

    def recoded(self, label: str, x: str, here: Codes, after: After) -> str:
        """The same numbers in other codes."""
        op = Lookup.recoding(here, after)
        if (op.in_order == np.arange(LOWEST, HIGHEST + 1)).all():
            return x
        return self.node(label, op, (x,), label)

    def renamed(self, name: str, x: str) -> str:
        """The same value by another name."""
        shape, here = self.shape(name), self.shapes[x][1:]
        if prod(shape[1:]) == prod(here) and (len(shape) == 2 or map_sizes(shape) == here):
            return x
        raise Refused("it changes which numbers are an image's, or a channel's")

    # ---- what is asked ---------------------------------------------------------------------------

    def meaning(self, node: Any) -> Codes:
        """What the codes of a QuantizeLinear or DequantizeLinear mean."""
        coded = node.output[0] if node.op_type == "QuantizeLinear" else node.input[0]
        steps, zero = codes_of(self.model, node.input[1], input_of(node, 2), coded)
        if steps.size != 1 or zero.size != 1 or zero.dtype.name not in RANGES:
            raise Refused("its codes are no bytes, or differ from channel to channel")
        flip = 128 if zero.dtype == np.uint8 else 0
        return Codes(float(steps.reshape(-1)[0]), int(zero.reshape(-1)[0]) - flip)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a value."""
        if name in self.given:
            return tuple(self.given[name])
        sizes = self.model.sizes.get(name)
        if sizes is None or not all(size.known for size in sizes):
            raise Refused(f"the sizes of {name} are not known")
        return tuple(size.number for size in sizes)

    def label(self, node: Any, name: str) -> str:
        """What a node is called; of none the value's name."""
        if node is None:
            return name
        return f"{node.name or node.output[0]} ({node.op_type})"


def _check_sums(op: QConv) -> None:
    """Refuse sums that 32 bits do not hold."""
    QuantizedFilters.of(op.weight, 0, op.bias).check_sums(LOWEST - op.x_zero, HIGHEST - op.x_zero)


def map_sizes(shape: Sequence[int]) -> tuple[int, int, int]:
    """Return channels, height and width of an image."""
    if len(shape) not in (2, 4):
        raise Refused(f"values of {len(shape)} axes are no images")
    first, second = shape[2:] or (1, 1)
    return shape[1], first, second


def ordered(nodes: Sequence[Node]) -> list[Node]:
    """Return nodes in an order in which each finds what it reads; kept as far as possible."""
    makers = {name: node for node in nodes for name in node.outputs}
    done: dict[int, Node] = {}
    for first in nodes:
        left = [first]
        while left:
            node = left[-1]
            before = [makers[name] for name in node.reads if name in makers]
            missing = [one for one in before if id(one) not in done]
            if missing:
                left.append(missing[0])
                continue
            done.setdefault(id(node), node)
            left.pop()
    return list(done.values())
