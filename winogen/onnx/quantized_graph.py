"""A quantized ONNX model as one graph of codes and floats, or a list of nodes that are neither.

A QuantizeLinear asks for a value in codes. What makes this value, down to the DequantizeLinear of
other codes, is one node: a convolution, a product, a pool, a sum, or a function of one number.
Where it is none of these, it is numbers that a part of floats computes, and their codes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from winogen.conv.quantization import RANGES
from winogen.errors import InvalidValue, WinogenError
from winogen.graph import Graph
from winogen.graph.ops import Codes, Recast, Shape
from winogen.graph.ops.quantized import After
from winogen.onnx.code_forms import is_form
from winogen.onnx.float_parts import FloatParts
from winogen.onnx.model import Model
from winogen.onnx.probes import required, usual_sizes
from winogen.onnx.quantized import Refused, clip_bounds, quantized
from winogen.onnx.quantized_nodes import Nodes, map_sizes, ordered
from winogen.onnx.sizes import STANDARD

# Nodes that move no numbers, as long as what is behind them has the channels in front of pixels.
_RENAMING = ("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Dropout")
_CHOOSING = ("DepthToSpace", "MaxPool", "Resize", "Upsample")  # what makes some codes of others
_MARKS = ("QuantizeLinear", "DequantizeLinear", "QLinearConv")


def is_quantized(model: Model) -> bool:
    """Return whether a model has nodes of bytes."""
    return any(node.op_type in _MARKS or is_form(node) for node in model.graph.node)


@dataclass(frozen=True)
class QuantizedGraph:
    """A graph of what is computed of each image of a batch, and what is known of its values.

    Codes are int8 in it, those of callers but for one node at either end. What floats compute is
    an Opaque node with a `FloatPart`.
    """

    graph: Graph
    batch: int
    shapes: Mapping[str, Shape]  # of one image
    codes: Mapping[str, Codes | None]  # what values mean; None: floats, or a caller's
    ends: Mapping[str, tuple[Shape, str]]  # shapes and types of inputs and outputs in the model


def quantized_graph(model: Model) -> QuantizedGraph:
    """Return the graph of a quantized model of known sizes.

    Raises InvalidValue that names each node that is not generated.
    """
    return QuantizedReader(model.plain).read()


class NoCodes(Refused):
    """A value is what floats compute."""


class QuantizedReader:
    """All that is found while a model is read from its outputs to its inputs."""

    def __init__(self, model: Model):
        self.model = model
        self.narrow = quantized(model, tables=True)
        self.shapes = usual_sizes(model)
        self.made = Nodes(model, self.shapes)
        outputs = [value.name for value in model.graph.output]
        wanted = {name for node in model.cone(outputs) for name in model.reads(node)}
        self.inputs = [value.name for value in required(model) if value.name in wanted]
        self.known: dict[Any, str] = {}
        self.refused: dict[str, str] = {}
        self.floats = FloatParts(model, self.made, self.inputs, outputs, self._bytes)

    def read(self) -> QuantizedGraph:
        model = self.model
        outputs = [value.name for value in model.graph.output]
        ends: dict[str, tuple[Shape, str]] = {}
        for name in outputs:
            with self._naming(name):
                ends[name] = self._output(name)
        for name in self.floats.wanted():
            with self._naming(name):
                self.floats.follow(name)
        if self.refused:
            listed = ", ".join(f"{label}: {reason}" for label, reason in self.refused.items())
            raise InvalidValue(
                f"model: got nodes of opset {model.opset} that are not generated: {listed}; "
                "allowed: layers of bytes, see docs/network.md"
            )
        ends = {name: (self.shapes[name], self._dtype(name)) for name in self.inputs} | ends
        batches = {shape[:1] for shape, _ in ends.values()}
        if len(batches) > 1 or () in batches:
            raise InvalidValue(f"model: got batches of {sorted(batches)} images; allowed: one size")
        ((batch,),) = batches
        nodes = ordered([*self.made.nodes, *self.floats.parts(batch)])
        graph = Graph(self.inputs, nodes, outputs)
        return QuantizedGraph(graph, batch, self.made.shapes, self.made.codes, ends)

    @contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """What is refused is kept, with the node that makes a value."""
        try:
            yield
        except (Refused, WinogenError) as reason:
            node = self.model.makers.get(self.model.aliases.get(name, name))
            self.refused.setdefault(self.made.label(node, name), str(reason))

    # ---- ends ------------------------------------------------------------------------------------

    def _output(self, name: str) -> tuple[Shape, str]:
        shape, kind = self.made.shape(name), self._dtype(name)
        if kind != "float32":
            value = self.made.renamed(name, self._bytes(name))
            self.made.add(f"output {name}", Recast(kind, True), (value,), name)
            return shape, kind
        try:
            self.floats.dequantized(name, *self._real(name))
        except NoCodes:
            self.floats.value(name)
        return shape, kind

    def _input(self, name: str, after: After | None = None) -> str:
        label = f"input {name}"
        if after is not None:
            return self.made.quantized(label, self.floats.value(name), after)
        given = self.made.value(name, map_sizes(self.shapes[name]))
        return self.made.node(label, Recast(self._dtype(name)), (given,), name)

    def _dtype(self, name: str) -> str:
        kind = self.model.kind(name)
        dtype = np.dtype(self.model.onnx.helper.tensor_dtype_to_np_dtype(kind)).name
        if dtype not in ("float32", *RANGES):
            raise InvalidValue(f"model: got {name} of {dtype}; allowed: float, uint8 and int8")
        return str(dtype)

    # ---- values ----------------------------------------------------------------------------------

    def _bytes(self, name: str) -> str:
        """A value that is codes in the model."""
        name = self.model.aliases.get(name, name)
        if name not in self.known:
            node = self.model.makers.get(name)
            try:
                self.known[name] = self._made_of_bytes(name, node)
            except (Refused, WinogenError) as reason:
                if not self.refused:
                    self.refused[self.made.label(node, name)] = str(reason)
                raise
        return self.known[name]

    def _made_of_bytes(self, name: str, node: Any) -> str:
        if node is None:
            if name not in self.inputs:
                raise Refused("is a constant")
            return self._input(name)
        match = self.narrow.matches.get(name)
        if match is not None and match.op.quantized:
            read = self._bytes(match.inputs[0])
            return self.made.convolution(match.label, match.op.quantized, read, name)
        if match is not None and match.op.is_table:
            x = self._bytes(match.inputs[0])
            return self.made.node(match.label, match.op.signed, (x,), name)
        if node.op_type == "QuantizeLinear":
            return self._coded(node.input[0], After(self.made.meaning(node)))
        if node.op_type in _RENAMING:
            return self.made.renamed(name, self._bytes(node.input[0]))
        if node.op_type in _CHOOSING:
            return self._chosen(node, self._bytes(node.input[0]))
        raise Refused(node.op_type)

    def _real(self, name: str) -> tuple[str, Codes]:
        """A value that is numbers in the model, but of codes."""
        name = self.model.aliases.get(name, name)
        node = self.model.makers.get(name)
        if node is not None and node.domain in STANDARD:
            if node.op_type == "DequantizeLinear":
                return self._bytes(node.input[0]), self.made.meaning(node)
            if node.op_type in _RENAMING:
                value, codes = self._real(node.input[0])
                return self.made.renamed(name, value), codes
            if node.op_type in _CHOOSING:
                value, codes = self._real(node.input[0])
                try:
                    return self._chosen(node, value), codes
                except Refused as reason:  # it computes new numbers
                    raise NoCodes(str(reason)) from None
        raise NoCodes(f"{self.made.label(node, name)} computes with numbers that are no codes")

    def _coded(self, name: str, after: After) -> str:
        """A value that is numbers in the model, in codes: by a step of codes, or of floats."""
        try:
            return self._of_codes(name, after)
        except (Refused, WinogenError):
            value = self.floats.value(self.model.aliases.get(name, name))
            return self.made.quantized(f"codes of {name}", value, after)

    def _of_codes(self, name: str, after: After) -> str:
        name = self.model.aliases.get(name, name)
        node = self.model.makers.get(name)
        if node is None:
            if name not in self.inputs:
                raise Refused(f"{name} is a constant")
            return self._input(name, after)
        if node.domain in STANDARD and node.op_type in ("Relu", "Clip"):
            is_relu = node.op_type == "Relu"
            ends = (0.0, np.inf) if is_relu else clip_bounds(self.model, node)
            return self._of_codes(node.input[0], after.cut(*ends))
        made = self.made
        makers = {  # and how many of the inputs are maps
            "Gemm": (made.product, 1),
            "MatMul": (made.product, 1),
            "Add": (made.total, 2),
            "AveragePool": (made.mean, 1),
            "ConvTranspose": (made.transposed, 1),
            "GlobalAveragePool": (made.mean, 1),
            "Concat": (made.joined, len(node.input)),
        }
        if node.domain in STANDARD and node.op_type in makers:
            make, count = makers[node.op_type]
            return make(node, [self._real(one) for one in node.input[:count]], after)
        if node.domain in STANDARD and node.op_type in _RENAMING:
            return self.made.renamed(name, self._of_codes(node.input[0], after))
        if node.output[0] in self.narrow.refusals:
            raise Refused(self.narrow.refusals[node.output[0]])
        value, here = self._real(name)
        return self.made.recoded(name, value, here, after)

    def _chosen(self, node: Any, x: str) -> str:
        """Made once of codes: of their numbers it is the same."""
        key = node.output[0], x
        if key not in self.known:
            makers = {"MaxPool": self.made.largest, "DepthToSpace": self.made.spread}
            self.known[key] = makers.get(node.op_type, self.made.nearest)(node, x)
        return self.known[key]
