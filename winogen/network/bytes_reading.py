"""A quantized ONNX model as one graph whose parts of floats are networks of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from winogen.errors import InvalidValue
from winogen.graph import Node, Opaque
from winogen.network.loops import is_of_images
from winogen.network.reading import Array, identifiers_of, network
from winogen.onnx.model import Model
from winogen.onnx.quantized_graph import QuantizedGraph, quantized_graph


@dataclass(frozen=True)
class Ends(Array):
    """An input or output of a model: float or codes."""

    dtype: str = "float32"
    step: float | None = 1.0  # the distance of two outputs; None: what floats compute


@dataclass(frozen=True)
class ByteNetwork(QuantizedGraph):
    """A model of bytes; what floats compute is an Opaque node with a `Network`."""

    model: Model
    inputs: tuple[Ends, ...]
    outputs: tuple[Ends, ...]

    @property
    def has_floats(self) -> bool:
        """Whether parts of it compute with floats."""
        return any(node.op.is_opaque for node in self.graph.nodes)


def read_bytes(model: Model, prefix: str = "net") -> ByteNetwork:
    """Return a quantized model of known sizes as a network.

    ``prefix``: of names that no array may have. Raises InvalidValue that names each node that is
    not generated.
    """
    read = quantized_graph(model)
    graph, nodes = read.graph, list[Node]()
    for node in read.graph.nodes:
        if node.op.is_opaque:
            node = _computing(node, read.batch, prefix)
        nodes.append(node)
    identifiers = identifiers_of([*graph.inputs, *graph.outputs], prefix)
    ends = {name: Ends(name, identifiers[name], *end) for name, end in read.ends.items()}
    for name in graph.outputs:
        op: Any = graph.makers[name].op
        if ends[name].dtype == "float32":
            ends[name] = replace(ends[name], step=None if op.is_opaque else op.x.scale)
    inputs, outputs = (tuple(map(ends.__getitem__, some)) for some in (graph.inputs, graph.outputs))
    fields = vars(read) | {"graph": graph.with_nodes(nodes)}
    return ByteNetwork(**fields, model=model, inputs=inputs, outputs=outputs)


def _computing(node: Node, batch: int, prefix: str) -> Node:
    """A part of floats with its network, which reads what has a say in its outputs."""
    part = node.op.payload
    found = network(part.model, f"{prefix}_float", part=True)
    mixing = [
        one.label
        for one in found.graph.nodes
        if one.op.loops is not None and not is_of_images(one.op.loops)
    ]
    if batch > 1 and mixing:
        raise InvalidValue(
            f"model: got {batch} images, which {', '.join(mixing)} may join; allowed: one image, "
            "or layers of floats that compute each image alone"
        )
    part.check(batch)
    kept = {array.name for array in found.inputs}
    reads = tuple(name for name, here in zip(node.inputs, part.inputs) if here in kept)
    return replace(node, op=Opaque("floats", found), inputs=reads)
