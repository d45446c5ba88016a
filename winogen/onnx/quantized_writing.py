"""A model with quantized convolutions of winogen's in place of the nodes that they stand for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from winogen.conv.quantization import Filters
from winogen.onnx.between import Lookup, Pool
from winogen.onnx.model import Model, copied, fresh, named_apart
from winogen.onnx.operators import OWN_DOMAIN
from winogen.onnx.sizes import STANDARD

_VERSION = 1
_GEOMETRY = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


class Codes(NamedTuple):
    """How a value is quantized: real = scale * (code - zero)."""

    scale: np.ndarray  # float32: one number, or one for each filter
    zero: np.ndarray  # as many, or one; of the type of the codes


class Layer(NamedTuple):
    """A quantized convolution; ``y`` None: its output are the sums."""

    input: str
    x: Codes
    weight: np.ndarray
    w: Codes
    bias: np.ndarray | None
    y: Codes | None
    relu: bool
    within: tuple[Any, ...]  # nodes that it stands for, the last makes the output


class Writer:
    """Writes a model with new nodes in place of those that they stand for."""

    def __init__(
        self,
        model: Model,
        layers: dict[str, Layer],
        others: dict[str, Lookup | Pool],
        settings: dict[str, Any],
    ):
        self.model = model
        self.layers = layers
        self.others = others
        self.settings = settings  # attributes of every node
        self.arrays: dict[Any, Any] = {}  # content -> TensorProto
        self.taken = model.names()

    def write(self) -> Any:
        new = (*self.layers.values(), *self.others.values())
        replaced = {id(node) for one in new for node in one.within}
        nodes: list[Any] = []
        ours: list[Any] = []
        theirs: list[Any] = []
        for node in self.model.graph.node:
            layer = self.layers.get(node.output[0]) if node.output else None
            made: list[Any] = []
            if layer is not None:
                made = [self._node(layer)]
            elif node.output and node.output[0] in self.others:
                other = self.others[node.output[0]]
                made = list(other.nodes(self.model, self._array, self.settings))
            elif id(node) not in replaced:
                theirs.append(node)
                nodes.append(node)
            ours += made
            nodes += made
        named_apart(ours, theirs)
        nodes = self._without_unread(nodes)
        read = {name for node in nodes for name in self.model.reads(node)}
        read |= {value.name for value in self.model.graph.output} | self.model.captured
        proto = self.model.onnx.ModelProto()
        proto.CopyFrom(self.model.proto)
        graph = proto.graph
        inputs, kept = self.model.interface(read)
        copies = [copied(node) for node in nodes]
        del graph.input[:], graph.node[:], graph.initializer[:], graph.value_info[:]
        graph.input.extend(inputs)
        graph.node.extend(copies)
        graph.initializer.extend([*kept, *self.arrays.values()])
        graph.value_info.extend(self._sizes(copies))
        self.model.write_fixed(graph)
        proto.ir_version = max(proto.ir_version, 4)  # initializers need not be inputs
        there = {entry.domain for entry in proto.opset_import}
        for domain in sorted({OWN_DOMAIN, *(node.domain for node in nodes)} - {*STANDARD, *there}):
            entry = proto.opset_import.add()
            entry.domain, entry.version = domain, _VERSION
        return proto

    def _node(self, layer: Layer) -> Any:
        source, last = layer.within[0], layer.within[-1]
        values = self.model.attributes(source)
        attributes = {name: values[name] for name in _GEOMETRY if name in values}
        if layer.relu:
            attributes["activation"] = "relu"
        label = source.name or source.output[0]
        weight = Filters.of(layer.weight, whole(layer.w.zero), None)
        zero = np.zeros((), np.int8) if weight.zero is None else weight.zero.astype(np.int8)
        array = self._array
        x_zero = array(whole(layer.x.zero), label, "x_zero")
        w = array(weight.weight, label, "weight")
        w_zero = array(zero, label, "w_zero")
        if layer.y is None:
            kind, inputs = "ConvInteger", [layer.input, w, x_zero, w_zero]
        else:
            kind = "QLinearConv"
            inputs = [
                layer.input, array(whole(layer.x.scale), label, "x_scale"), x_zero,
                w, array(whole(layer.w.scale), label, "w_scale"), w_zero,
                array(whole(layer.y.scale), label, "y_scale"),
                array(whole(layer.y.zero), label, "y_zero"),
            ]  # fmt: skip
            if layer.bias is not None:
                inputs.append(array(layer.bias, label, "bias"))
        return self.model.onnx.helper.make_node(
            kind,
            inputs,
            [last.output[0]],
            label,
            domain=OWN_DOMAIN,
            **attributes,
            **self.settings,
        )

    def _array(self, array: np.ndarray, label: str, what: str) -> str:
        """Return the name of a constant; equal ones are written once."""
        array = np.asarray(array, order="C")
        content = array.shape, array.dtype.str, array.tobytes()
        if content not in self.arrays:
            name = fresh(f"{label}.{what}", self.taken)
            self.arrays[content] = self.model.onnx.numpy_helper.from_array(array, name)
        return str(self.arrays[content].name)

    def _without_unread(self, nodes: list[Any]) -> list[Any]:
        """What was read only by nodes that are gone is gone, too."""
        wanted = {value.name for value in self.model.graph.output} | self.model.captured
        reads = Counter(name for node in nodes for name in self.model.reads(node))
        kept = []
        for node in reversed(nodes):
            if node.op_type == "DequantizeLinear" and not any(
                reads[name] or name in wanted for name in node.output
            ):
                reads.subtract(node.input)
            else:
                kept.append(node)
        return kept[::-1]

    def _sizes(self, nodes: list[Any]) -> Iterator[Any]:
        """What is known of the values that are left, which nobody could infer any more."""
        outputs = {value.name for value in self.model.graph.output}
        for node in nodes:
            for name in node.output:
                value = self.model.inferred.get(name)
                if value is not None and name not in outputs:
                    yield copied(value)


def whole(array: np.ndarray) -> np.ndarray:
    """One number as an array without axes."""
    return array.reshape(()) if array.size == 1 else array
