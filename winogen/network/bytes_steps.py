"""What makes a map of codes of others: each operator of a quantized model as one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from winogen.conv.quantization import RANGES, QuantizedFilters
from winogen.graph import QConv
from winogen.network.bytes_graph import (
    HIGHEST,
    LOWEST,
    Add,
    After,
    Codes,
    Convolution,
    Largest,
    Map,
    Mean,
    Nearest,
    Operator,
    Quantize,
    Step,
    Table,
    Window,
)
from winogen.network.resizing import nearest_places
from winogen.onnx.between import Lookup
from winogen.onnx.model import Model
from winogen.onnx.padding import windows
from winogen.onnx.quantized import Refused, codes_of, constant_of, counted_bias, zero_name_of

Real = tuple[Map, Codes]  # numbers in the model, and which these codes are


class Limits(NamedTuple):
    """What numbers are cut off at."""

    low: float = -np.inf
    high: float = np.inf


class Steps:
    """The steps made so far, of a model whose values have these shapes where it leaves them open.

    Functions that make a step return the map that it writes; they raise Refused.
    """

    def __init__(self, model: Model, shapes: Mapping[str, tuple[int, ...]]):
        self.model, self.shapes = model, shapes
        self.steps: list[Step] = []
        self.maps: list[Map] = []

    def step(
        self, label: str, op: Operator, reads: tuple[Map, ...], sizes: tuple[int, int, int]
    ) -> Map:
        """A step that writes a map of its own, of these channels, height and width."""
        made = self.map(sizes)
        self.steps.append(Step(label, op, reads, made))
        return made

    def map(
        self,
        sizes: tuple[int, int, int],
        floats: bool = False,
        outer: tuple[str, int] | None = None,
    ) -> Map:
        """A map that nothing writes yet."""
        self.maps.append(Map(len(self.maps), *sizes, floats, outer))
        return self.maps[-1]

    def convolution(self, label: str, op: QConv, x: Map, name: str) -> Map:
        """A convolution of codes whose output is codes; ``name``: of that."""
        if op.y_scale is None:
            raise Refused("its output are sums")
        flips = [128 if dtype == "uint8" else 0 for dtype in (op.x_dtype, str(op.y_dtype))]
        after = After(op.x_zero - flips[0], op.y_zero - flips[1])
        if op.activation == "relu":
            after = replace(after, lowest=after.y_zero)
        filters = QuantizedFilters.of(op.weight, op.w_zero, op.bias)
        scale = np.float32(op.x_scale) * np.asarray(op.w_scale, np.float32) / op.y_scale
        padding = op.padding
        values: dict[str, Any] = {"strides": op.stride, "dilations": op.dilation}
        if isinstance(padding, str):
            values["auto_pad"] = padding
        else:
            values["pads"] = (*padding[::2], *padding[1::2])
        window, sizes = self._window(name, values, op.weight.shape[2:], x, len(op.weight))
        return self._sums(label, filters, scale, window, after, op.groups, x, sizes)

    def _sums(
        self, label: str, filters: QuantizedFilters, scale: Any, window: Window, after: After,
        groups: int, x: Map, sizes: tuple[int, int, int],
    ) -> Map:  # fmt: skip
        if filters.zero is not None:
            raise Refused("its weights have zero points other than 0")
        count = len(filters.weight)
        bias = np.zeros(count, np.int32) if filters.bias is None else filters.bias
        factors = np.broadcast_to(np.asarray(scale, np.float32).reshape(-1), count)
        op = Convolution(window, after, filters.weight, bias, np.array(factors), groups)
        return self.step(label, op, (x,), sizes)

    def product(self, node: Any, reads: Sequence[Real], codes: Codes, limits: Limits) -> Map:
        """A product of all numbers of an image: a convolution as large as the map."""
        model, values = self.model, self.model.attributes(node)
        if values.get("transA", 0) or {values.get(n, 1.0) for n in ("alpha", "beta")} != {1.0}:
            raise Refused("it is transposed or scaled")
        maker = model.makers.get(node.input[1])
        if maker is None or maker.op_type != "DequantizeLinear":
            raise Refused("its weights are not quantized")
        ((x, x_codes),) = reads
        weight = constant_of(model, maker.input[0], "its weights")
        w = codes_of(model, maker.input[1], zero_name_of(maker), maker.input[0])
        across = values.get("transB", 0)
        axis = model.attributes(maker).get("axis", 1) % weight.ndim
        if weight.ndim != 2 or (w.scale.size > 1 and axis != (0 if across else 1)):
            raise Refused("its weights have scales along another axis than that of outputs")
        rows = weight if across else weight.T
        if rows.shape[1] != x.count:
            raise Refused("it multiplies along an axis of several")
        bias = None
        if len(node.input) > 2 and node.input[2]:
            steps = np.float32(x_codes.scale).reshape(1)
            bias = counted_bias(model, node.input[2], steps, w.scale)
            bias = np.broadcast_to(bias.reshape(-1), len(rows)).astype(np.int32)
        zeros = w.zero.reshape(-1)
        filters = QuantizedFilters.of(
            np.ascontiguousarray(rows).reshape(len(rows), x.channels, x.height, x.width),
            int(zeros[0]) if zeros.size == 1 else zeros,
            bias,
        )
        filters.check_sums(LOWEST - x_codes.zero, HIGHEST - x_codes.zero)
        scale = np.float32(x_codes.scale) * w.scale / np.float32(codes.scale)
        return self._sums(
            self.label(node, ""), filters, scale, Window((x.height, x.width)),
            after_of(x_codes.zero, codes, limits), 1, x, (len(rows), 1, 1),
        )  # fmt: skip

    def total(self, node: Any, reads: Sequence[Real], codes: Codes, limits: Limits) -> Map:
        """The sum of two maps."""
        (x, x_codes), (z, z_codes) = reads
        if (x.channels, x.height, x.width) != (z.channels, z.height, z.width):
            raise Refused("its inputs have different sizes")
        steps = np.float32(codes.scale)
        factors = tuple(float(np.float32(one.scale) / steps) for one in (x_codes, z_codes))
        op = Add(after_of(x_codes.zero, codes, limits), _two(factors), z_codes.zero)
        return self.step(self.label(node, ""), op, (x, z), (x.channels, x.height, x.width))

    def mean(self, node: Any, reads: Sequence[Real], codes: Codes, limits: Limits) -> Map:
        """The mean of each window, or of all."""
        ((x, x_codes),) = reads
        values, padded = self.model.attributes(node), 0
        window, sizes = Window((x.height, x.width)), (x.channels, 1, 1)
        if node.op_type == "AveragePool":
            if set(values.get("dilations", (1,))) != {1}:
                raise Refused("its windows have gaps")
            window, sizes = self._pool(node, x)
            counted = values.get("count_include_pad", 0)
            if counted and values.get("ceil_mode", 0):
                raise Refused("it counts padding, and not what ceil_mode adds to it")
            padded = prod(window.kernel) if counted else 0
        self.check_sizes(node.output[0], sizes)
        factor = float(np.float32(x_codes.scale) / np.float32(codes.scale))
        op = Mean(window, after_of(x_codes.zero, codes, limits), factor, padded)
        return self.step(self.label(node, ""), op, (x,), sizes)

    def largest(self, node: Any, x: Map) -> Map:
        """The largest code of each window."""
        if any(node.output[1:]):
            raise Refused("it gives places of the largest numbers, too")
        window, sizes = self._pool(node, x)
        return self.step(self.label(node, ""), Largest(window), (x,), sizes)

    def nearest(self, node: Any, x: Map) -> Map:
        """The codes of the nearest pixels."""
        before, after = self.shape(node.input[0]), self.shape(node.output[0])
        self.check_sizes(node.input[0], (x.channels, x.height, x.width))
        self.check_sizes(node.output[0], (x.channels, *after[2:]))
        rows, columns = nearest_places(self.model, node, before, after)
        op = Nearest(rows, columns)
        return self.step(self.label(node, ""), op, (x,), map_sizes(after))

    def _pool(self, node: Any, x: Map) -> tuple[Window, tuple[int, int, int]]:
        """The window of a pool, and the sizes of what it makes."""
        values = self.model.attributes(node)
        return self._window(node.output[0], values, values["kernel_shape"], x, x.channels)

    def _window(
        self, name: str, values: Mapping[str, Any], kernel: Sequence[int], x: Map, channels: int
    ) -> tuple[Window, tuple[int, int, int]]:
        """The window that makes a value, by a node's attributes, and the sizes of the value."""
        if len(kernel) != 2:
            raise Refused(f"{len(kernel)}D")
        stride, dilation = (tuple(values.get(n, (1, 1))) for n in ("strides", "dilations"))
        size = x.height, x.width
        one, other = (windows(values, a, 2, size[a], taps) for a, taps in enumerate(kernel))
        sizes = channels, one.outputs, other.outputs
        self.check_sizes(name, sizes)
        before = one.before, other.before
        return Window(_two(kernel), _two(stride), _two(dilation), before), sizes

    def joined(self, node: Any, reads: Sequence[Real], codes: Codes, limits: Limits) -> Map:
        """Parts of the channels, each with its table to the codes of the whole."""
        sizes = map_sizes(self.shape(node.output[0]))
        if self.model.attributes(node)["axis"] not in (1, 1 - len(self.shape(node.output[0]))):
            raise Refused("it joins along another axis than that of channels")
        if any((part.height, part.width) != sizes[1:] for part, _ in reads):
            raise Refused("its inputs have different sizes")
        if sum(part.channels for part, _ in reads) != sizes[0]:
            raise Refused("its output has other channels than its inputs")
        whole, begin = self.map(sizes), 0
        for part, here in reads:
            op = Table(_table(here, codes, limits), begin)
            self.steps.append(Step(self.label(node, ""), op, (part,), whole))
            begin += part.channels
        return whole

    def quantized(self, label: str, x: Map, codes: Codes, limits: Limits) -> Map:
        """Numbers as codes."""
        op = Quantize(codes.scale, after_of(0, codes, limits), 0)
        return self.step(label, op, (x,), (x.channels, x.height, x.width))

    def recoded(self, label: str, value: Map, here: Codes, there: Codes, limits: Limits) -> Map:
        """The same numbers in other codes."""
        table = _table(here, there, limits)
        if (table == np.arange(LOWEST, HIGHEST + 1)).all():
            return value
        return self.step(label, Table(table), (value,), (value.channels, value.height, value.width))

    def function(self, label: str, found: Lookup, x: Map, signed: tuple[bool, bool]) -> Map:
        """A function by its table, which has the codes in the order of their bytes."""
        table = np.asarray(found.table).view(np.uint8)
        if signed[0]:  # the bytes of -128 .. -1 come behind those of 0 .. 127
            table = np.concatenate([table[:, 128:], table[:, :128]], axis=1)
        table = (table ^ (0 if signed[1] else 128)).view(np.int8)
        if len(table) not in (1, x.channels):
            raise Refused("it has tables of other channels")
        return self.step(label, Table(table), (x,), (x.channels, x.height, x.width))

    def renamed(self, name: str, value: Map) -> Map:
        """The same map by another name."""
        shape = self.shape(name)
        if prod(shape[1:]) == value.count and (
            len(shape) == 2 or map_sizes(shape) == (value.channels, value.height, value.width)
        ):
            return value
        raise Refused("it changes which numbers are an image's, or a channel's")

    # ---- what is asked ---------------------------------------------------------------------------

    def codes(self, node: Any) -> Codes:
        """What the codes of a QuantizeLinear or DequantizeLinear mean."""
        coded = node.output[0] if node.op_type == "QuantizeLinear" else node.input[0]
        steps, zero = codes_of(self.model, node.input[1], zero_name_of(node), coded)
        if steps.size != 1 or zero.size != 1 or zero.dtype.name not in RANGES:
            raise Refused("its codes are no bytes, or differ from channel to channel")
        flip = 128 if zero.dtype == np.uint8 else 0
        return Codes(float(steps.reshape(-1)[0]), int(zero.reshape(-1)[0]) - flip, flip)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a value."""
        if name in self.shapes:
            return tuple(self.shapes[name])
        sizes = self.model.sizes.get(name)
        if sizes is None or not all(size.known for size in sizes):
            raise Refused(f"the sizes of {name} are not known")
        return tuple(size.number for size in sizes)

    def check_sizes(self, name: str, made: tuple[int, ...]) -> None:
        """Raise Refused where the model has other sizes of a value than its node makes."""
        known = map_sizes(self.shape(name))
        if known != made or min(made) < 1:
            raise Refused(f"the sizes of {name} are {known}, and its node makes {made}")

    def label(self, node: Any, name: str) -> str:
        """What a node is called; of none the value's name."""
        if node is None:
            return name
        return f"{node.name or node.output[0]} ({node.op_type})"


def after_of(x_zero: int, codes: Codes, limits: Limits) -> After:
    """Return what follows the sums of a step."""
    ends = []
    for limit in limits:
        code = np.rint(np.clip(limit / codes.scale, -1e6, 1e6)) + codes.zero
        ends.append(int(np.clip(code, LOWEST, HIGHEST)))
    return After(x_zero, codes.zero, *ends)


def _table(here: Codes, there: Codes, limits: Limits) -> np.ndarray:
    """The codes of numbers that have others, cut off at limits."""
    after = after_of(0, there, limits)
    numbers = np.float32(here.scale) * (np.arange(LOWEST, HIGHEST + 1) - here.zero)
    steps = np.rint(numbers.astype(np.float32) / np.float32(there.scale)) + there.zero
    return np.clip(steps, after.lowest, after.highest).astype(np.int8).reshape(1, -1)


def map_sizes(shape: Sequence[int]) -> tuple[int, int, int]:
    """Return channels, height and width of an image."""
    if len(shape) not in (2, 4):
        raise Refused(f"values of {len(shape)} axes are no images")
    return shape[1], *_two(shape[2:] or (1, 1))


def _two(values: Any) -> Any:
    first, second = values
    return first, second
