"""A quantized ONNX model as steps on maps of bytes, or a list of nodes that are none.

A QuantizeLinear asks for a value in codes. What makes this value, down to the DequantizeLinear of
other codes, is one step: a convolution, a product, a pool, a sum, or a function of one number.
Where it is none of these, it is numbers that a part of floats computes, and their codes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from winogen.conv.quantization import RANGES
from winogen.errors import InvalidValue, WinogenError
from winogen.network.bytes_graph import (
    After,
    ByteNetwork,
    Codes,
    Dequantize,
    Ends,
    Map,
    Quantize,
    Step,
)
from winogen.network.bytes_steps import Limits, Steps, map_sizes
from winogen.network.islands import Islands, ordered
from winogen.network.reading import identifiers_of
from winogen.onnx.between import Lookup
from winogen.onnx.model import Model
from winogen.onnx.probes import required, usual_sizes
from winogen.onnx.quantized import Refused, clip_bounds, quantized
from winogen.onnx.sizes import STANDARD

# Nodes that move no numbers, as long as what is behind them has the channels in front of pixels.
_RENAMING = ("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Dropout")
_CHOOSING = ("MaxPool", "Resize", "Upsample")  # what makes some codes of others
_MARKS = ("QuantizeLinear", "DequantizeLinear", "QLinearConv")


def is_quantized(model: Model) -> bool:
    """Return whether a model has nodes of bytes."""
    return any(node.op_type in _MARKS for node in model.graph.node)


def read_bytes(model: Model, prefix: str = "net") -> ByteNetwork:
    """Return the steps of a quantized model of known sizes.

    ``prefix``: of names that no array may have. Raises InvalidValue that names each node that is
    not generated.
    """
    return _Reader(model, prefix).network()


class NoCodes(Refused):
    """A value is what floats compute."""


class _Reader:
    """All that is found while a model is read from its outputs to its inputs."""

    def __init__(self, model: Model, prefix: str):
        self.model, self.prefix = model, prefix
        self.narrow = quantized(model)
        self.shapes = usual_sizes(model)
        self.made = Steps(model, self.shapes)
        outputs = [value.name for value in model.graph.output]
        wanted = {name for node in model.cone(outputs) for name in model.reads(node)}
        self.inputs = [value.name for value in required(model) if value.name in wanted]
        self.identifiers = identifiers_of([*self.inputs, *outputs], prefix)
        self.known: dict[Any, Map] = {}
        self.refused: dict[str, str] = {}
        self.floats = Islands(model, self.made, self.inputs, outputs, self._bytes)

    def network(self) -> ByteNetwork:
        model = self.model
        outputs = []
        for number, value in enumerate(model.graph.output):
            with self._naming(value.name):
                outputs.append(self._output(number, value.name))
        for name in self.floats.wanted():
            with self._naming(name):
                self.floats.follow(name)
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
        batches = {array.shape[:1] for array in (*inputs, *outputs)}
        if len(batches) > 1 or () in batches:
            raise InvalidValue(f"model: got batches of {sorted(batches)} images; allowed: one size")
        ((batch,),) = batches
        steps = ordered([*self.made.steps, *self.floats.steps(batch, self.prefix)])
        return ByteNetwork(model, batch, inputs, tuple(outputs), steps, tuple(self.made.maps))

    @contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """What is refused is kept, with the node that makes a value."""
        try:
            yield
        except (Refused, WinogenError) as reason:
            node = self.model.makers.get(self.model.aliases.get(name, name))
            self.refused.setdefault(self.made.label(node, name), str(reason))

    # ---- ends ------------------------------------------------------------------------------------

    def _output(self, number: int, name: str) -> Ends:
        shape, kind = self.made.shape(name), self._dtype(name)
        if kind != "float32":
            value = self.made.renamed(name, self._bytes(name))
            sizes = value.channels, value.height, value.width
            there = self.made.map(sizes, outer=("output", number))
            op = Dequantize(None, 0, 128 if kind == "uint8" else 0)
            self.made.steps.append(Step(f"output {name}", op, (value,), there))
            return Ends(name, self.identifiers[name], shape, kind)
        step: float | None = None
        try:
            value, codes = self._real(name)
            self.floats.dequantized(name, value, codes)
            step = codes.scale
        except NoCodes:
            self.floats.value(name)
        return Ends(name, self.identifiers[name], shape, kind, step)

    def _input(self, name: str, codes: Codes | None, limits: Limits) -> Map:
        sizes, label = map_sizes(self.shapes[name]), f"input {name}"
        if codes is not None:
            return self.made.quantized(label, self.floats.value(name), codes, limits)
        given = self.made.map(sizes, outer=("input", self.inputs.index(name)))
        op = Quantize(None, After(0, 0), 128 if self._dtype(name) == "uint8" else 0)
        return self.made.step(label, op, (given,), sizes)

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
                    self.refused[self.made.label(node, name)] = str(reason)
                raise
        return self.known[name]

    def _made_of_bytes(self, name: str, node: Any) -> Map:
        if node is None:
            if name not in self.inputs:
                raise Refused("is a constant")
            return self._input(name, None, Limits())
        match = self.narrow.matches.get(name)
        if match is not None and match.op.quantized:
            read = self._bytes(match.inputs[0])
            return self.made.convolution(match.label, match.op.quantized, read, name)
        if match is not None and isinstance(match.op.payload, Lookup):
            signed = self._dtype(match.inputs[0]) == "int8", self._dtype(name) == "int8"
            return self.made.function(
                match.label, match.op.payload, self._bytes(match.op.payload.input), signed
            )
        if node.op_type == "QuantizeLinear":
            return self._coded(node.input[0], self.made.codes(node), Limits())
        if node.op_type in _RENAMING:
            return self.made.renamed(name, self._bytes(node.input[0]))
        if node.op_type in _CHOOSING:
            return self._chosen(node, self._bytes(node.input[0]))
        raise Refused(node.op_type)

    def _real(self, name: str) -> tuple[Map, Codes]:
        """A value that is numbers in the model, but of codes."""
        name = self.model.aliases.get(name, name)
        node = self.model.makers.get(name)
        if node is not None and node.domain in STANDARD:
            if node.op_type == "DequantizeLinear":
                return self._bytes(node.input[0]), self.made.codes(node)
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

    def _coded(self, name: str, codes: Codes, limits: Limits) -> Map:
        """A value that is numbers in the model, in codes: by a step of codes, or of floats."""
        try:
            return self._of_codes(name, codes, limits)
        except (Refused, WinogenError):
            value = self.floats.value(self.model.aliases.get(name, name))
            return self.made.quantized(f"codes of {name}", value, codes, limits)

    def _of_codes(self, name: str, codes: Codes, limits: Limits) -> Map:
        name = self.model.aliases.get(name, name)
        node = self.model.makers.get(name)
        if node is None:
            if name not in self.inputs:
                raise Refused(f"{name} is a constant")
            return self._input(name, codes, limits)
        if node.domain in STANDARD and node.op_type in ("Relu", "Clip"):
            return self._cut(node, codes, limits)
        made = self.made
        makers = {  # and how many of the inputs are maps
            "Gemm": (made.product, 1),
            "MatMul": (made.product, 1),
            "Add": (made.total, 2),
            "AveragePool": (made.mean, 1),
            "GlobalAveragePool": (made.mean, 1),
            "Concat": (made.joined, len(node.input)),
        }
        if node.domain in STANDARD and node.op_type in makers:
            make, count = makers[node.op_type]
            return make(node, [self._real(one) for one in node.input[:count]], codes, limits)
        if node.domain in STANDARD and node.op_type in _RENAMING:
            return self.made.renamed(name, self._of_codes(node.input[0], codes, limits))
        if node.output[0] in self.narrow.refusals:
            raise Refused(self.narrow.refusals[node.output[0]])
        value, here = self._real(name)
        return self.made.recoded(name, value, here, codes, limits)

    def _cut(self, node: Any, codes: Codes, limits: Limits) -> Map:
        """What a Relu or Clip cuts off, of what is made before it."""
        is_relu = node.op_type == "Relu"
        low, high = (0.0, np.inf) if is_relu else clip_bounds(self.model, node)
        cut = Limits(*(float(np.clip(end, *limits)) for end in (low, high)))
        return self._of_codes(node.input[0], codes, cut)

    def _chosen(self, node: Any, x: Map) -> Map:
        """Made once of codes: of their numbers it is the same."""
        key = node.output[0], x
        if key not in self.known:
            largest = node.op_type == "MaxPool"
            make = self.made.largest if largest else self.made.nearest
            self.known[key] = make(node, x)
        return self.known[key]
