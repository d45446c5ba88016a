"""An ONNX model as one graph of maps whose sizes are all known, or a list of what it is not."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from winogen.errors import InvalidValue
from winogen.graph import Conv, Graph, Node, Opaque, QConv, simplify
from winogen.network.flat import with_convolutions
from winogen.onnx.loading import load
from winogen.onnx.model import Model
from winogen.onnx.probes import required, sized, usual_sizes
from winogen.onnx.reading import Reading, read

# Nodes that move no numbers of a contiguous array.
_RENAMING = frozenset("Flatten Identity Reshape Squeeze Unsqueeze".split())
_RESERVED = frozenset("arena weights char const double float if int return void w".split())


@dataclass(frozen=True)
class Array:
    """An input or an output of a model."""

    name: str  # in the model
    identifier: str  # in C
    shape: tuple[int, ...]  # in the model


@dataclass(frozen=True)
class Network:
    """A model of which every node is known, and what its callers see."""

    model: Model
    graph: Graph
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    maps: tuple[tuple[int, int, int, int], ...]  # the shapes of the graph's inputs


def network(source: Any, input_shapes: Mapping[str, Sequence[int]] | None = None) -> Network:
    """Return a model as a network.

    ``source``: an onnx.ModelProto or a path. ``input_shapes``: sizes of inputs where the model
    leaves them open; an open batch is 1. Raises InvalidType, and InvalidValue for a model with
    nodes that are not generated: it names each of them.
    """
    shapes = {name: tuple(shape) for name, shape in (input_shapes or {}).items()}
    model = sized(Model(load(source), shapes))
    model = Model(with_convolutions(model), model.fixed)
    _check_types(model)
    reading = read(model)
    graph = _connected(model, reading)
    _refuse(model, graph)
    sizes = usual_sizes(model)
    inputs = [value.name for value in required(model) if value.name in graph.inputs]
    maps = tuple(_map(name, sizes[name], reading.forms.get(name, "")) for name in inputs)
    identifiers = _identifiers([*inputs, *(value.name for value in model.graph.output)])
    made = {name: tuple(size.number for size in model.sizes[name]) for name in _made(model)}
    return Network(
        model,
        Graph(
            inputs, simplify(Graph(graph.inputs, graph.nodes, graph.outputs)).nodes, graph.outputs
        ),
        tuple(Array(name, identifiers[name], sizes[name]) for name in inputs),
        tuple(Array(name, identifiers[name], made[name]) for name in made),
        maps,
    )


def _map(name: str, shape: tuple[int, ...], form: str) -> tuple[int, int, int, int]:
    """The shape of an input as a map: a signal is one of a single row."""
    if form == "" and len(shape) == 4:
        return shape
    if form == "row":
        batch, channels, width = shape
        return batch, channels, 1, width
    raise InvalidValue(
        f"model: got the input {name} of {len(shape)} axes; allowed: images, of 4 axes, and "
        "signals that a convolution reads, of 3"
    )


def _made(model: Model) -> list[str]:
    names = [value.name for value in model.graph.output]
    for name in names:
        if not all(size.known for size in model.sizes.get(name, ())) or name not in model.sizes:
            raise InvalidValue(
                f"model: got the output {name} of unknown sizes; allowed: known ones"
            )
    return names


def _check_types(model: Model) -> None:
    tensor = model.onnx.TensorProto
    for what, values in (("input", required(model)), ("output", model.graph.output)):
        for value in values:
            kind = value.type.tensor_type.elem_type
            if kind != tensor.FLOAT:
                found = tensor.DataType.Name(kind).lower() if kind else "no array"
                raise InvalidValue(f"model: got the {what} {value.name} of {found}; allowed: float")


def _connected(model: Model, reading: Reading) -> Graph:
    """The graph of all that makes the outputs; nodes that rename at its end are left out."""
    makers = reading.graph.makers
    outputs = []
    for value in model.graph.output:
        name = model.aliases.get(value.name, value.name)
        while name in makers and isinstance(makers[name].op, Opaque):
            node = makers[name]
            if str(node.op) not in _RENAMING or len(node.inputs) != 1:
                break
            (name,) = node.inputs
        if name not in makers:
            raise InvalidValue(
                f"model: got the output {value.name}, which is an input or a constant; allowed: "
                "what nodes compute"
            )
        if reading.forms.get(name) == "last":
            raise InvalidValue(
                f"model: got the output {value.name} with its channels last; allowed: NCHW"
            )
        outputs.append(name)
    wanted, kept = set(outputs), list[Node]()
    for node in reversed(reading.graph.nodes):
        if wanted.intersection(node.outputs):
            kept.append(node)
            wanted.update(node.reads)
    inputs = [name for name in reading.graph.inputs if name in wanted]
    return Graph(inputs, kept[::-1], outputs)


def _refuse(model: Model, graph: Graph) -> None:
    strange = [node for node in graph.nodes if isinstance(node.op, (Opaque, QConv))]
    if strange:
        listed = ", ".join(f"{node.label} ({_kind(node)})" for node in strange)
        raise InvalidValue(
            f"model: got nodes of opset {model.opset} that are not generated: {listed}; allowed: "
            "convolutions of float32 and what lies between them, see docs/network.md"
        )
    if not any(isinstance(node.op, Conv) for node in graph.nodes):
        raise InvalidValue("model: got no convolution; allowed: a model with one at least")


def _kind(node: Node) -> str:
    return str(node.op) if isinstance(node.op, Opaque) else "a convolution of bytes"


def _identifiers(names: Sequence[str]) -> dict[str, str]:
    """How C calls arrays: as the model does, as far as possible."""
    taken: set[str] = set()
    found: dict[str, str] = {}
    for name in names:
        base = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or "array"
        if base[0].isdigit() or base in _RESERVED or keyword.iskeyword(base):
            base = f"array_{base}"
        candidate, number = base, 2
        while candidate in taken:
            candidate, number = f"{base}_{number}", number + 1
        taken.add(candidate)
        found.setdefault(name, candidate)
    return found
