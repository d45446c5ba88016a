"""A quantized ONNX model as steps on maps of bytes, or a list of nodes that are none.

A QuantizeLinear asks for a value in codes. What makes this value, down to the DequantizeLinear of
other codes, is one step: a convolution, a product, a pool, a sum, or a function of one number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from winogen.conv.quantization import RANGES, Filters
from winogen.errors import InvalidValue, WinogenError
from winogen.graph import Opaque, QConv
from winogen.network.bytes_graph import (
    HIGHEST,
    LOWEST,
    Add,
    After,
    ByteNetwork,
    Codes,
    Convolution,
    Dequantize,
    Ends,
    Largest,
    Map,
    Mean,
    Operator,
    Quantize,
    Step,
    Table,
    Window,
)
from winogen.network.reading import identifiers_of
from winogen.onnx.between import Lookup
from winogen.onnx.model import Model
from winogen.onnx.padding import same
from winogen.onnx.probes import required, usual_sizes
from winogen.onnx.quantized import (
    Refused,
    clip_bounds,
    codes_of,
    constant_of,
    counted_bias,
    quantized,
    zero_name_of,
)
from winogen.onnx.sizes import STANDARD

# Nodes that move no numbers, as long as what is behind them has the channels in front of pixels.
_RENAMING = ("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Dropout")
_MARKS = ("QuantizeLinear", "DequantizeLinear", "QLinearConv")


class Limits(NamedTuple):
    """What numbers are cut off at."""

    low: float = -np.inf
    high: float = np.inf


def is_quantized(model: Model) -> bool:
    """Return whether a model has nodes of bytes."""
    return any(node.op_type in _MARKS for node in model.graph.node)


def read_bytes(model: Model, prefix: str = "net") -> ByteNetwork:
    """Return the steps of a quantized model of known sizes.

    ``prefix``: of names that no array may have. Raises InvalidValue that names each node that is
    not generated.
    """
    return _Reader(model, prefix).network()


class _Reader:
    """All that is found while a model is read from its outputs to its inputs."""

    def __init__(self, model: Model, prefix: str):
        self.model = model
        self.narrow = quantized(model)
        self.shapes = usual_sizes(model)
        outputs = [value.name for value in model.graph.output]
        wanted = {name for node in model.cone(outputs) for name in model.reads(node)}
        self.inputs = [value.name for value in required(model) if value.name in wanted]
        self.identifiers = identifiers_of([*self.inputs, *outputs], prefix)
        self.steps: list[Step] = []
        self.maps: list[Map] = []
        self.known: dict[Any, Map] = {}
        self.refused: dict[str, str] = {}

    def network(self) -> ByteNetwork:
        model = self.model
        outputs = []
        for number, value in enumerate(model.graph.output):
            try:
                outputs.append(self._output(number, value.name))
            except (Refused, WinogenError) as reason:
                node = model.makers.get(model.aliases.get(value.name, value.name))
                self.refused.setdefault(self._label(node, value.name), str(reason))
        if self.refused:
            listed = ", ".join(f"{label}: {reason}" for label, reason in self.refused.items())
            raise InvalidValue(
                f"model: got nodes of opset {model.opset} that are not generated: {listed}; "
                "allowed: layers of bytes, see docs/network.md"
            )
        inputs = tuple(
            Ends(name, self.identifiers[name], self.shapes[name], self._dtype(name))
            for name in self.inputs
        )
        batches = {array.shape[0] for array in (*inputs, *outputs)}
        if len(batches) > 1:
            raise InvalidValue(f"model: got batches of {sorted(batches)} images; allowed: one size")
        (batch,) = batches
        return ByteNetwork(
            model, batch, inputs, tuple(outputs), tuple(self.steps), tuple(self.maps)
        )

    # ---- ends ------------------------------------------------------------------------------------

    def _output(self, number: int, name: str) -> Ends:
        shape = self._shape(name)
        kind = self._dtype(name)
        if kind == "float32":
            value, codes = self._real(name)
            op = Dequantize(number, codes.scale, codes.zero, 0)
        else:
            value, codes = self._bytes(name), None
            op = Dequantize(number, None, 0, 128 if kind == "uint8" else 0)
        self.steps.append(Step(f"output {name}", op, (value,), None))
        return Ends(
            name, self.identifiers[name], shape, kind, codes.scale if codes is not None else 1.0
        )

    def _input(self, name: str, codes: Codes | None, limits: Limits) -> Map:
        shape = self.shapes[name]
        op = Quantize(self.inputs.index(name), None, After(0, 0), 0)
        if codes is not None:
            op = replace(op, scale=codes.scale, after=_after(0, codes, limits))
        elif self._dtype(name) == "uint8":
            op = replace(op, flip=128)
        return self._step(f"input {name}", op, (), _map_sizes(shape))

    def _dtype(self, name: str) -> str:
        kind = self.model.kind(name)
        dtype = np.dtype(self.model.onnx.helper.tensor_dtype_to_np_dtype(kind)).name
        if dtype not in ("float32", *RANGES):
            raise InvalidValue(f"model: got {name} of {dtype}; allowed: float, uint8 and int8")
        return str(dtype)

    # ---- values ----------------------------------------------------------------------------------

    def _bytes(self, name: str) -> Map:
        """A value that is codes in the model."""
        name = self.model.aliases.get(name, name)
        if name not in self.known:
            node = self.model.makers.get(name)
            try:
                self.known[name] = self._made_of_bytes(name, node)
            except (Refused, WinogenError) as reason:
                if not self.refused:
                    self.refused[self._label(node, name)] = str(reason)
                raise
        return self.known[name]

    def _made_of_bytes(self, name: str, node: Any) -> Map:
        if node is None:
            if name not in self.inputs:
                raise Refused("is a constant")
            return self._input(name, None, Limits())
        match = self.narrow.matches.get(name)
        if match is not None and isinstance(match.op, QConv):
            return self._quantized(match.label, match.op, self._bytes(match.inputs[0]), name)
        if (
            match is not None
            and isinstance(match.op, Opaque)
            and isinstance(match.op.payload, Lookup)
        ):
            signed = self._dtype(match.inputs[0]) == "int8", self._dtype(name) == "int8"
            return self._function(match.label, match.op.payload, signed)
        if node.op_type == "QuantizeLinear":
            return self._coded(node.input[0], self._codes(node), Limits())
        if node.op_type in _RENAMING:
            return self._renamed(name, self._bytes(node.input[0]))
        if node.op_type == "MaxPool":
            return self._largest(node, self._bytes(node.input[0]))
        raise Refused(node.op_type)

    def _real(self, name: str) -> tuple[Map, Codes]:
        """A value that is numbers in the model, but of codes."""
        name = self.model.aliases.get(name, name)
        node = self.model.makers.get(name)
        if node is not None and node.domain in STANDARD:
            if node.op_type == "DequantizeLinear":
                return self._bytes(node.input[0]), self._codes(node)
            if node.op_type in _RENAMING:
                value, codes = self._real(node.input[0])
                return self._renamed(name, value), codes
            if node.op_type == "MaxPool":
                value, codes = self._real(node.input[0])
                return self._largest(node, value), codes
        raise Refused(f"{self._label(node, name)} computes with numbers that are no codes")

    def _coded(self, name: str, codes: Codes, limits: Limits) -> Map:
        """A value that is numbers in the model, in codes."""
        name = self.model.aliases.get(name, name)
        node = self.model.makers.get(name)
        if node is None:
            if name not in self.inputs:
                raise Refused(f"{name} is a constant")
            return self._input(name, codes, limits)
        makers = {
            "Relu": self._cut,
            "Clip": self._cut,
            "Gemm": self._product,
            "MatMul": self._product,
            "Add": self._sum,
            "AveragePool": self._mean,
            "GlobalAveragePool": self._mean,
            "Concat": self._joined,
        }
        if node.domain in STANDARD and node.op_type in makers:
            return makers[node.op_type](node, codes, limits)
        if node.domain in STANDARD and node.op_type in _RENAMING:
            return self._renamed(name, self._coded(node.input[0], codes, limits))
        if node.output[0] in self.narrow.refusals:
            raise Refused(self.narrow.refusals[node.output[0]])
        value, here = self._real(name)
        return self._recoded(name, value, here, codes, limits)

    # ---- steps -----------------------------------------------------------------------------------

    def _step(
        self, label: str, op: Operator, reads: tuple[Map, ...], sizes: tuple[int, int, int]
    ) -> Map:
        made = Map(len(self.maps), *sizes)
        self.maps.append(made)
        self.steps.append(Step(label, op, reads, made))
        return made

    def _quantized(self, label: str, op: QConv, x: Map, name: str) -> Map:
        if op.y_scale is None:
            raise Refused("its output are sums")
        flips = [128 if dtype == "uint8" else 0 for dtype in (op.x_dtype, str(op.y_dtype))]
        after = After(op.x_zero - flips[0], op.y_zero - flips[1])
        if op.activation == "relu":
            after = replace(after, lowest=after.y_zero)
        filters = Filters.of(op.weight, op.w_zero, op.bias)
        scale = np.float32(op.x_scale) * np.asarray(op.w_scale, np.float32) / op.y_scale
        padding = op.padding
        if isinstance(padding, str):
            sizes = zip((x.height, x.width), op.stride, op.dilation, op.weight.shape[2:])
            ends = [same(padding, n, s, d * (taps - 1)) for n, s, d, taps in sizes]
            before = ends[0][0], ends[1][0]
        else:
            before = padding[0], padding[2]
        window = Window(_two(op.weight.shape[2:]), op.stride, op.dilation, before)
        sizes_of_output = _map_sizes(self._shape(name))
        return self._sums(label, filters, scale, window, after, op.groups, x, sizes_of_output)

    def _sums(
        self, label: str, filters: Filters, scale: Any, window: Window, after: After, groups: int,
        x: Map, sizes: tuple[int, int, int],
    ) -> Map:  # fmt: skip
        if filters.zero is not None:
            raise Refused("its weights have zero points other than 0")
        count = len(filters.weight)
        bias = np.zeros(count, np.int32) if filters.bias is None else filters.bias
        factors = np.broadcast_to(np.asarray(scale, np.float32).reshape(-1), count)
        op = Convolution(window, after, filters.weight, bias, np.array(factors), groups)
        return self._step(label, op, (x,), sizes)

    def _product(self, node: Any, codes: Codes, limits: Limits) -> Map:
        """A product of all numbers of an image: a convolution as large as the map."""
        model, values = self.model, self.model.attributes(node)
        if values.get("transA", 0) or {values.get(n, 1.0) for n in ("alpha", "beta")} != {1.0}:
            raise Refused("it is transposed or scaled")
        maker = model.makers.get(node.input[1])
        if maker is None or maker.op_type != "DequantizeLinear":
            raise Refused("its weights are not quantized")
        x, x_codes = self._real(node.input[0])
        weight = constant_of(model, maker.input[0], "its weights")
        w = codes_of(model, maker.input[1], zero_name_of(maker), maker.input[0])
        across = values.get("transB", 0)
        axis = model.attributes(maker).get("axis", 1) % weight.ndim
        if weight.ndim != 2 or (w.scale.size > 1 and axis != (0 if across else 1)):
            raise Refused("its weights have scales along another axis than that of outputs")
        rows = weight if across else weight.T
        if rows.shape[1] != x.bytes:
            raise Refused("it multiplies along an axis of several")
        bias = None
        if len(node.input) > 2 and node.input[2]:
            steps = np.float32(x_codes.scale).reshape(1)
            bias = counted_bias(model, node.input[2], steps, w.scale)
            bias = np.broadcast_to(bias.reshape(-1), len(rows)).astype(np.int32)
        zeros = w.zero.reshape(-1)
        filters = Filters.of(
            np.ascontiguousarray(rows).reshape(len(rows), x.channels, x.height, x.width),
            int(zeros[0]) if zeros.size == 1 else zeros,
            bias,
        )
        filters.check_sums(LOWEST - x_codes.zero, HIGHEST - x_codes.zero)
        scale = np.float32(x_codes.scale) * w.scale / np.float32(codes.scale)
        return self._sums(
            self._label(node, ""), filters, scale, Window((x.height, x.width)),
            _after(x_codes.zero, codes, limits), 1, x, (len(rows), 1, 1),
        )  # fmt: skip

    def _cut(self, node: Any, codes: Codes, limits: Limits) -> Map:
        """What a Relu or Clip cuts off, of what is made before it."""
        is_relu = node.op_type == "Relu"
        low, high = (0.0, np.inf) if is_relu else clip_bounds(self.model, node)
        cut = Limits(*(float(np.clip(end, low, high)) for end in limits))
        return self._coded(node.input[0], codes, cut)

    def _sum(self, node: Any, codes: Codes, limits: Limits) -> Map:
        (x, x_codes), (z, z_codes) = map(self._real, node.input)
        if (x.channels, x.height, x.width) != (z.channels, z.height, z.width):
            raise Refused("its inputs have different sizes")
        steps = np.float32(codes.scale)
        factors = tuple(float(np.float32(one.scale) / steps) for one in (x_codes, z_codes))
        op = Add(_after(x_codes.zero, codes, limits), _two(factors), z_codes.zero)
        return self._step(self._label(node, ""), op, (x, z), (x.channels, x.height, x.width))

    def _mean(self, node: Any, codes: Codes, limits: Limits) -> Map:
        x, x_codes = self._real(node.input[0])
        values, padded = self.model.attributes(node), 0
        window = Window((x.height, x.width))
        if node.op_type == "AveragePool":
            window = self._window(values, x)
            if values.get("ceil_mode", 0):
                raise Refused("it has ceil_mode")
            padded = prod(window.kernel) if values.get("count_include_pad", 0) else 0
        factor = float(np.float32(x_codes.scale) / np.float32(codes.scale))
        op = Mean(window, _after(x_codes.zero, codes, limits), factor, padded)
        sizes = _map_sizes(self._shape(node.output[0]))
        return self._step(self._label(node, ""), op, (x,), sizes)

    def _largest(self, node: Any, x: Map) -> Map:
        if any(node.output[1:]):
            raise Refused("it gives places of the largest numbers, too")
        key = node.output[0], x
        if key not in self.known:
            window = self._window(self.model.attributes(node), x)
            sizes = _map_sizes(self._shape(node.output[0]))
            self.known[key] = self._step(self._label(node, ""), Largest(window), (x,), sizes)
        return self.known[key]

    def _window(self, values: Mapping[str, Any], x: Map) -> Window:
        kernel = tuple(values["kernel_shape"])
        if len(kernel) != 2:
            raise Refused(f"{len(kernel)}D")
        stride, dilation = (tuple(values.get(n, (1, 1))) for n in ("strides", "dilations"))
        auto = values.get("auto_pad", "NOTSET")
        before = tuple(values.get("pads", (0,) * 4))[:2] if auto == "NOTSET" else (0, 0)
        if auto.startswith("SAME"):
            sizes = zip((x.height, x.width), stride, dilation, kernel)
            before = tuple(same(auto, n, s, d * (taps - 1))[0] for n, s, d, taps in sizes)
        return Window(_two(kernel), _two(stride), _two(dilation), _two(before))

    def _joined(self, node: Any, codes: Codes, limits: Limits) -> Map:
        """Parts of the channels, each with its table to the codes of the whole."""
        sizes = _map_sizes(self._shape(node.output[0]))
        if self.model.attributes(node)["axis"] not in (1, 1 - len(self._shape(node.output[0]))):
            raise Refused("it joins along another axis than that of channels")
        parts = [self._real(name) for name in node.input]
        if any((part.height, part.width) != sizes[1:] for part, _ in parts):
            raise Refused("its inputs have different sizes")
        whole, begin = Map(len(self.maps), *sizes), 0
        self.maps.append(whole)
        for part, here in parts:
            op = Table(_table(here, codes, limits), begin)
            self.steps.append(Step(self._label(node, ""), op, (part,), whole))
            begin += part.channels
        return whole

    def _recoded(self, label: str, value: Map, here: Codes, there: Codes, limits: Limits) -> Map:
        table = _table(here, there, limits)
        if (table == np.arange(LOWEST, HIGHEST + 1)).all():
            return value
        return self._step(
            label, Table(table), (value,), (value.channels, value.height, value.width)
        )

    def _function(self, label: str, found: Lookup, signed: tuple[bool, bool]) -> Map:
        """A function by its table, which has the codes in the order of their bytes."""
        table = np.asarray(found.table).view(np.uint8)
        if signed[0]:  # the bytes of -128 .. -1 come behind those of 0 .. 127
            table = np.concatenate([table[:, 128:], table[:, :128]], axis=1)
        table = (table ^ (0 if signed[1] else 128)).view(np.int8)
        x = self._bytes(found.input)
        if len(table) not in (1, x.channels):
            raise Refused("it has tables of other channels")
        return self._step(label, Table(table), (x,), (x.channels, x.height, x.width))

    def _renamed(self, name: str, value: Map) -> Map:
        shape = self._shape(name)
        if prod(shape[1:]) == value.bytes and (
            len(shape) == 2 or _map_sizes(shape) == (value.channels, value.height, value.width)
        ):
            return value
        raise Refused("it changes which numbers are an image's, or a channel's")

    # ---- what is asked ---------------------------------------------------------------------------

    def _codes(self, node: Any) -> Codes:
        coded = node.output[0] if node.op_type == "QuantizeLinear" else node.input[0]
        steps, zero = codes_of(self.model, node.input[1], zero_name_of(node), coded)
        if steps.size != 1 or zero.size != 1 or zero.dtype.name not in RANGES:
            raise Refused("its codes are no bytes, or differ from channel to channel")
        flip = 128 if zero.dtype == np.uint8 else 0
        return Codes(float(steps.reshape(-1)[0]), int(zero.reshape(-1)[0]) - flip, flip)

    def _shape(self, name: str) -> tuple[int, ...]:
        if name in self.shapes:
            return tuple(self.shapes[name])
        sizes = self.model.sizes.get(name)
        if sizes is None or not all(size.known for size in sizes):
            raise Refused(f"the sizes of {name} are not known")
        return tuple(size.number for size in sizes)

    def _label(self, node: Any, name: str) -> str:
        if node is None:
            return name
        return f"{node.name or node.output[0]} ({node.op_type})"


def _after(x_zero: int, codes: Codes, limits: Limits) -> After:
    ends = []
    for limit in limits:
        code = np.rint(np.clip(limit / codes.scale, -1e6, 1e6)) + codes.zero
        ends.append(int(np.clip(code, LOWEST, HIGHEST)))
    return After(x_zero, codes.zero, *ends)


def _table(here: Codes, there: Codes, limits: Limits) -> np.ndarray:
    """The codes of numbers that have others, cut off at limits."""
    after = _after(0, there, limits)
    numbers = np.float32(here.scale) * (np.arange(LOWEST, HIGHEST + 1) - here.zero)
    steps = np.rint(numbers.astype(np.float32) / np.float32(there.scale)) + there.zero
    return np.clip(steps, after.lowest, after.highest).astype(np.int8).reshape(1, -1)


def _map_sizes(shape: Sequence[int]) -> tuple[int, int, int]:
    """Channels, height and width of an image."""
    if len(shape) not in (2, 4):
        raise Refused(f"values of {len(shape)} axes are no images")
    return shape[1], *_two(shape[2:] or (1, 1))


def _two(values: Any) -> Any:
    first, second = values
    return first, second
