"""`quantize`: a float model as one of 8 bits, its ranges as samples show them.

What is written is standard ONNX: QuantizeLinear and DequantizeLinear around convolutions, which
onnxruntime, OpenVINO and `winogen.onnx.optimize` make integer convolutions of.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from winogen.errors import InvalidValue
from winogen.onnx.calibration import PERCENTILE, Range, observer, ranges, read_samples
from winogen.onnx.folding import folded
from winogen.onnx.loading import load, naming_damage
from winogen.onnx.model import Model, fresh
from winogen.onnx.rewrite import save
from winogen.onnx.sizes import STANDARD

OPSET = 13  # the first whose DequantizeLinear has a scale for each filter
# Sums of so many products of 8 bits, 255 * 128 each at most, stay within int32.
MOST_PRODUCTS = 65793
ACTIVATIONS = {"uint8": (0, 255), "int8": (-128, 127)}
_MOST_BIAS = 2.0**30

# What only moves numbers, or takes the largest: its output has the codes of its input.
_MOVES = frozenset(
    "DepthToSpace Dropout Flatten Identity MaxPool Reshape Slice SpaceToDepth Squeeze Transpose "
    "Unsqueeze".split()
)


class Codes(NamedTuple):
    """How numbers are written in 8 bits: real = scale * (code - zero)."""

    scale: np.float32
    zero: int
    dtype: str

    @classmethod
    def of(cls, range: Range, dtype: str) -> Codes:
        """Return codes for a range, in which zero has a code of its own.

        >>> Codes.of(Range(-1.0, 2.0), "uint8")
        Codes(scale=np.float32(0.011764706), zero=85, dtype='uint8')
        """
        least, most = ACTIVATIONS[dtype]
        low, high = min(range.low, 0.0), max(range.high, 0.0)
        scale = np.float32((high - low) / (most - least))
        if not scale >= np.finfo(np.float32).tiny:  # all zero, or as good as that
            scale = np.float32(1)
        zero = int(np.clip(np.rint(least - low / float(scale)), least, most))
        return cls(scale, zero, dtype)


@dataclass
class Quantized:
    """A quantized model, and what was done to it."""

    model: Any  # ModelProto
    convolutions: int = 0  # in 8 bits
    ranges: dict[str, Range] = field(default_factory=dict)  # by value
    refusals: list[str] = field(default_factory=list)  # convolutions that stay float, and why

    def __str__(self) -> str:
        count = self.convolutions + len(self.refusals)
        lines = [f"{self.convolutions} of {count} convolutions are in 8 bits"]
        return "\n".join([*lines, *(f"  stays float: {refusal}" for refusal in self.refusals)])


class _Conv(NamedTuple):
    """A convolution to quantize."""

    node: Any
    weight: np.ndarray
    bias: np.ndarray | None
    output: str  # behind its activation


def quantize(
    model_or_path: Any,
    samples: Any,
    output: Any = None,
    *,
    method: str = "maximum",
    percentile: float = PERCENTILE,
    activations: str = "uint8",
    per_channel: bool = True,
    exclude: Collection[str] = (),
) -> Any:
    """Return a model that computes convolutions in 8 bits; write it if asked to.

    Weights are int8, symmetric, with a scale for each filter; biases int32; activations have a
    scale and a zero point. Ranges are those of the values that onnxruntime computes for samples.
    Normalizations behind convolutions are folded into them first. All else stays float.

    Parameters
    ----------
    model_or_path
        A float32 onnx.ModelProto, which is left alone, or a path.
    samples
        Inputs like those that the model is for; tens of them do. An iterable of mappings from
        input to array, or of arrays for a model of one input; or the path of a .npy, whose first
        axis counts samples, or of a .npz with such an array for each input.
    output
        Where to write the result.
    method
        "maximum": from the least value to the largest. "percentile": without outliers, so that
        the rest has finer steps.
    percentile
        With "percentile": at each end, values beyond it are cut off.
    activations
        "uint8" or "int8".
    per_channel
        False for one scale for all filters of a convolution, which is less accurate.
    exclude
        Names of convolutions, or of their outputs, that stay float.

    Raises InvalidType, InvalidValue, MissingPackage without the extra `onnx`, and OSError.
    """
    result = quantized(
        model_or_path,
        samples,
        method=method,
        percentile=percentile,
        activations=activations,
        per_channel=per_channel,
        exclude=exclude,
    )
    if output is not None:
        save(result.model, output)
    return result.model


@naming_damage
def quantized(
    model_or_path: Any,
    samples: Any,
    *,
    method: str = "maximum",
    percentile: float = PERCENTILE,
    activations: str = "uint8",
    per_channel: bool = True,
    exclude: Collection[str] = (),
) -> Quantized:
    """Return what `quantize` returns, with an account of it."""
    observer(method, percentile)  # refuses both before any work
    if activations not in ACTIVATIONS:
        raise InvalidValue(f"activations: got {activations!r}; allowed: {', '.join(ACTIVATIONS)}")
    proto = load(model_or_path)
    feeds = read_samples(proto, samples)
    known = {name for node in proto.graph.node for name in (node.name, *node.output)}
    for name in exclude:
        if name not in known:
            raise InvalidValue(
                f"exclude: got {name!r}; allowed: names of nodes, or of what they make"
            )
    quantizer = _Quantizer(folded(proto, OPSET), activations, per_channel, frozenset(exclude))
    names = quantizer.values()
    if not names:
        return quantizer.result
    quantizer.result.ranges = ranges(quantizer.model.proto, names, feeds, method, percentile)
    return quantizer.write()


class _Quantizer:
    """Quantizes one model, whose normalizations are folded."""

    def __init__(self, proto: Any, activations: str, per_channel: bool, exclude: frozenset[str]):
        self.model = Model(proto)
        self.activations = activations
        self.per_channel = per_channel
        self.helper = self.model.onnx.helper
        self.arrays: list[Any] = []  # new initializers
        self.taken = self.model.names()
        self.result = Quantized(proto)
        self.convs: dict[str, _Conv] = {}  # by the output of the node
        for node in proto.graph.node:
            if node.op_type not in ("Conv", "ConvTranspose") or node.domain not in STANDARD:
                continue
            found = self._conv(node, exclude)
            if isinstance(found, _Conv):
                self.convs[node.output[0]] = found
            else:
                self.result.refusals.append(f"{node.name or node.output[0]}: {found}")
        self.result.convolutions = len(self.convs)

    def _conv(self, node: Any, exclude: frozenset[str]) -> _Conv | str:
        """A convolution to quantize, or why it stays."""
        model = self.model
        if exclude.intersection((node.name, node.output[0])):
            return "excluded"
        if node.op_type == "ConvTranspose":
            return "transposed"
        weight = model.constant(node.input[1])
        bias, has_bias = None, len(node.input) > 2 and bool(node.input[2])
        if has_bias:
            bias = model.constant(node.input[2])
        if weight is None or (has_bias and bias is None):
            return "its weights may change from call to call"
        if weight.dtype != np.float32:
            return f"numbers are {weight.dtype}"
        if not np.isfinite(weight).all() or (bias is not None and not np.isfinite(bias).all()):
            return "its weights are not finite"
        if int(np.prod(weight.shape[1:])) >= MOST_PRODUCTS:
            return f"sums of {np.prod(weight.shape[1:])} products do not fit int32"
        output = node.output[0]
        after = self._only_reader(output)
        if after is not None and (after.op_type == "Relu" or self._clips(after)):
            output = after.output[0]
        return _Conv(node, weight, bias, output)

    def _only_reader(self, name: str) -> Any:
        readers = self.model.readers.get(name, [])
        return readers[0] if len(readers) == self.model.uses[name] == 1 else None

    def _clips(self, node: Any) -> bool:
        """Whether a node is a Clip of constants, which integers take on."""
        given = (name for name in node.input[1:] if name)
        return node.op_type == "Clip" and all(
            self.model.constant(name) is not None for name in given
        )

    def values(self) -> list[str]:
        """Return the values that get 8 bits and a range of their own."""
        all_values = (name for c in self.convs.values() for name in (c.node.input[0], c.output))
        return list(dict.fromkeys(map(self._source, all_values)))

    def _source(self, name: str) -> str:
        """The value whose codes another one has, too."""
        maker = self.model.makers.get(name)
        while maker is not None and maker.op_type in _MOVES and maker.output[0] == name:
            name = maker.input[0]
            maker = self.model.makers.get(name)
        return name

    # ---- writing ---------------------------------------------------------------------------------

    def write(self) -> Quantized:
        """Return the model with 8 bits around its convolutions."""
        graph = self.model.proto.graph
        codes = {
            name: Codes.of(range, self.activations) for name, range in self.result.ranges.items()
        }
        narrow = dict.fromkeys(
            name for c in self.convs.values() for name in (c.node.input[0], c.output)
        )
        for name in list(narrow):  # what lies between keeps its codes
            while name in self.model.makers and name != self._source(name):
                name = self.model.makers[name].input[0]
                narrow.setdefault(name)
        outputs = {value.name for value in graph.output}
        nodes: list[Any] = []
        renamed: dict[str, str] = {}  # value -> what its readers read
        made: dict[str, str] = {}  # value -> what its node writes
        for name in narrow:
            # The names of a model's outputs, and of its inputs, stay.
            made[name] = fresh(f"{name}_float", self.taken) if name in outputs else name
            renamed[name] = name if name in outputs else fresh(f"{name}_dequantized", self.taken)
        for name in narrow:
            if name not in self.model.makers:
                nodes += self._pair(name, made[name], renamed[name], codes[self._source(name)])
        for node in graph.node:
            copy = self.model.onnx.NodeProto()
            copy.CopyFrom(node)
            for place, name in enumerate(copy.input):
                copy.input[place] = renamed.get(name, name)
            if node.output[0] in self.convs:
                nodes += self._weights(copy, codes)
            for place, name in enumerate(copy.output):
                copy.output[place] = made.get(name, name)
            nodes.append(copy)
            for name in node.output:
                if name in narrow:
                    nodes += self._pair(name, made[name], renamed[name], codes[self._source(name)])
        self._replace(nodes)
        return self.result

    def _pair(self, name: str, source: str, target: str, codes: Codes) -> list[Any]:
        """QuantizeLinear and DequantizeLinear."""
        scale = self._array(f"{name}_scale", codes.scale)
        zero = self._array(f"{name}_zero", np.dtype(codes.dtype).type(codes.zero))
        narrow = fresh(f"{name}_quantized", self.taken)
        make = self.helper.make_node
        return [
            make("QuantizeLinear", [source, scale, zero], [narrow], fresh(f"{name}_Q", self.taken)),
            make(
                "DequantizeLinear", [narrow, scale, zero], [target], fresh(f"{name}_DQ", self.taken)
            ),
        ]

    def _weights(self, node: Any, codes: Mapping[str, Codes]) -> list[Any]:
        """Put weights and bias of 8 and 32 bits in place of a convolution's; their nodes."""
        conv = self.convs[node.output[0]]
        step = codes[self._source(conv.node.input[0])].scale
        scale = scales(conv.weight, conv.bias, step, self.per_channel)
        label = node.name or node.output[0]
        steps = (
            scale.reshape(-1, 1, 1, 1)
            if conv.weight.ndim == 4
            else scale.reshape(-1, *[1] * (conv.weight.ndim - 1))
        )
        narrow = np.clip(np.rint(conv.weight / steps), -127, 127).astype(np.int8)
        nodes = [self._dequantized(f"{label}_weight", narrow, scale, 1)]
        node.input[1] = nodes[0].output[0]
        if conv.bias is not None:
            both = (step * scale).astype(np.float32)
            sums = np.rint(conv.bias.astype(np.float64) / both).astype(np.int32)
            nodes.append(self._dequantized(f"{label}_bias", sums, both, 2))
            node.input[2] = nodes[1].output[0]
        return nodes

    def _dequantized(self, name: str, array: np.ndarray, scale: np.ndarray, place: int) -> Any:
        per_filter = scale.size > 1
        inputs = [
            self._array(name, array),
            self._array(f"{name}_scale", scale if per_filter else scale.reshape(())),
            self._array(f"{name}_zero", np.zeros(scale.shape if per_filter else (), array.dtype)),
        ]
        output = fresh(f"{name}_dequantized", self.taken)
        values = {"axis": 0} if per_filter else {}
        return self.helper.make_node(
            "DequantizeLinear", inputs, [output], fresh(f"{name}_DQ", self.taken), **values
        )

    def _array(self, name: str, array: Any) -> str:
        name = fresh(name, self.taken)
        self.arrays.append(self.model.onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def _replace(self, nodes: list[Any]) -> None:
        proto = self.model.onnx.ModelProto()
        proto.CopyFrom(self.model.proto)
        graph = proto.graph
        del graph.node[:]
        graph.node.extend(nodes)
        read = {name for node in nodes for name in node.input} | self.model.captured
        read |= {value.name for value in graph.output}
        inputs, kept = self.model.interface(read)
        del graph.input[:], graph.initializer[:]
        graph.input.extend(inputs)
        graph.initializer.extend([*kept, *self.arrays])
        del graph.value_info[:]
        proto.ir_version = max(proto.ir_version, 4)
        self.result.model = proto


def scales(
    weight: np.ndarray, bias: np.ndarray | None, step: np.float32, per_channel: bool = True
) -> np.ndarray:
    """Return the scale of every filter, or of all: the largest weight becomes 127.

    A larger one where a bias, counted in ``step`` times it, would not fit 32 bits.
    """
    filters = weight.shape[0]
    largest = np.abs(weight.reshape(filters, -1)).max(axis=1, initial=0).astype(np.float64)
    least = np.zeros(filters)
    if bias is not None:
        least = np.abs(bias.astype(np.float64)) / (float(step) * _MOST_BIAS)
    found = np.maximum(largest / 127, least)
    if not per_channel:
        found = found.max(keepdims=True)
    return np.where(found < np.finfo(np.float32).tiny, 1.0, found).astype(np.float32)
