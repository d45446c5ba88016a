"""An ONNX model as one graph of maps whose sizes are all known, or a list of what it is not."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from winogen.codegen.standalone import RESERVED
from winogen.errors import InvalidType, InvalidValue
from winogen.graph import Graph, Node, shapes, simplify
from winogen.network.arrays import as_array, map_of, with_loops
from winogen.network.flat import with_convolutions
from winogen.network.others import with_others
from winogen.network.pieces import Cutting, Pieces, check_outputs, in_pieces, without_ends
from winogen.network.settled import settled
from winogen.onnx.loading import load
from winogen.onnx.model import Model, fresh
from winogen.onnx.probes import required, sized, usual_sizes
from winogen.onnx.reading import Reading, read
from winogen.onnx.sizes import declared
from winogen.onnx.validity import check_nodes

# Nodes that move no numbers of a contiguous array.
_RENAMING = frozenset("Flatten Identity Reshape Squeeze Unsqueeze".split())
# What makes sums of codes, which no network of floats or of bytes has as values.
_INTEGERS = frozenset("ConvInteger MatMulInteger DynamicQuantizeLinear".split())
_SIZES = frozenset(("Shape", "Size"))
# What the files themselves call something, and macros of C.
_OWN = frozenset(
    "AT EOF INFINITY NAN NULL arena errno h halves linux memory picture stdin stdout strip unix w "
    "weights".split()
)

_OF_PIECES = ("pieces", "piece", "state")  # and what these are called where signals are cut


@dataclass(frozen=True)
class Array:
    """An input or an output of a model."""

    name: str  # in the model
    identifier: str  # in C
    shape: tuple[int, ...]  # in the model


@dataclass(frozen=True)
class Network:
    """A model of which every node is known, and what its callers see."""

    model: Model  # as it was given, with sizes
    rewritten: Model  # the same by other operators: values of the graph are some of its
    graph: Graph
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    maps: tuple[tuple[int, ...], ...]  # the shapes of the graph's inputs
    pieces: Pieces | None = None  # where it computes signals piece by piece


def loaded(source: Any, input_shapes: Mapping[str, Sequence[int]] | None = None) -> Model:
    """Return a model of known sizes; raises InvalidType and InvalidValue."""
    model = sized(Model(load(source), shapes_of(input_shapes)))
    check_nodes(model)
    _check_declared(model)
    _check_ends(model)
    return settled(model)


def network(
    given: Model, prefix: str = "net", part: bool = False, cut: Cutting | None = None
) -> Network:
    """Return a model as a network.

    ``given``: of `loaded`. ``prefix``: of names that no array may have. ``part``: whether it is a
    part of another, which may have no convolution. ``cut``: how its signals come in pieces, of one
    of which ``given`` is. Raises InvalidValue for a model with nodes that are not generated, or
    that see samples to come: it names each.
    """
    model = given if cut is None else Model(without_ends(given), given.fixed)
    model = Model(with_others(model, part), given.fixed)
    model = Model(with_convolutions(model), given.fixed)
    _check_types(model)
    _check_outputs(model)
    reading = read(model, everywhere=True)
    graph, reasons = with_loops(model, _connected(model, reading), reading.forms)
    _refuse(model, graph, reasons | {name: one.why for name, one in reading.stays.items()})
    if not part and not graph.convolutions:
        raise InvalidValue("model: got no convolution; allowed: a model with one at least")
    sizes = usual_sizes(model)
    inputs = [value.name for value in required(model) if value.name in graph.inputs]
    maps = tuple(map_of(sizes[name]) for name in inputs)
    names = [*inputs, *(value.name for value in model.graph.output)]
    identifiers = identifiers_of(names, prefix, () if cut is None else _OF_PIECES)
    made = {name: tuple(size.number for size in model.sizes[name]) for name in _made(model)}
    simple = simplify(Graph(graph.inputs, graph.nodes, graph.outputs))
    whole, pieces = Graph(inputs, simple.nodes, graph.outputs), None
    if cut is not None:
        known = shapes(whole, dict(zip(inputs, maps)))
        check_outputs(made, cut, [known[name] for name in whole.outputs])
        whole, pieces = in_pieces(whole, maps, cut)
    return Network(
        given,
        model,
        whole,
        tuple(Array(name, identifiers[name], sizes[name]) for name in inputs),
        tuple(Array(name, identifiers[name], made[name]) for name in made),
        maps,
        pieces,
    )


def shapes_of(given: Any) -> dict[str, tuple[int, ...]]:
    """Return sizes of inputs as tuples; raises InvalidType."""
    if given is not None and not isinstance(given, Mapping):
        raise InvalidType(
            f"input_shapes: got {type(given).__name__}; allowed: sizes by the names of inputs"
        )
    for name, shape in (given or {}).items():
        if not isinstance(shape, (tuple, list)) or not all(type(n) is int for n in shape):
            raise InvalidType(f"input_shapes: got {name}: {shape!r}; allowed: a tuple of integers")
    return {name: tuple(shape) for name, shape in (given or {}).items()}


def _check_declared(model: Model) -> None:
    """Raise InvalidValue where the model declares other sizes than follow from its inputs'."""
    for value in (*model.graph.value_info, *model.graph.output):
        given, made = declared(value), model.derived.get(value.name)
        if given is None or made is None or not any(size.known for size in given):
            continue
        differ = [a.known and b.known and a != b for a, b in zip(given, made)]
        if len(given) != len(made) or any(differ):
            texts = [" x ".join(map(str, sizes)) or "a number" for sizes in (given, made)]
            raise InvalidValue(
                f"model: got {value.name} declared as {texts[0]}; allowed: {texts[1]}, which its "
                "node makes"
            )


def _check_ends(model: Model) -> None:
    """Raise InvalidValue for inputs and outputs that a function in C could not have."""
    names = [value.name for value in model.graph.output]
    for name in names:
        if names.count(name) > 1:
            raise InvalidValue(f"model: got the output {name} twice; allowed: each once")
    for name, shape in usual_sizes(model).items():
        if not all(shape):
            raise InvalidValue(
                f"model: got the input {name} of sizes {shape}; allowed: positive ones"
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
    integers = [node for node in model.graph.node if node.op_type in _INTEGERS]
    if integers:
        listed = ", ".join(f"{one.name or one.output[0]} ({one.op_type})" for one in integers)
        raise InvalidValue(
            f"model: got nodes that make sums of codes: {listed}; allowed: QLinearConv, or layers "
            "between DequantizeLinear and QuantizeLinear, see docs/network.md"
        )
    for what, values in (("input", required(model)), ("output", model.graph.output)):
        for value in values:
            kind = value.type.tensor_type.elem_type
            if kind != tensor.FLOAT:
                found = tensor.DataType.Name(kind).lower() if kind else "no array"
                raise InvalidValue(f"model: got the {what} {value.name} of {found}; allowed: float")


def _check_outputs(model: Model) -> None:
    """Raise InvalidValue for outputs that no input has a say in, but for its sizes."""
    live = {value.name for value in model.graph.input}
    for node in model.graph.node:
        reads = model.reads(node)
        if (live.intersection(reads) or not reads) and node.op_type not in {*_SIZES, "Constant"}:
            live.update(node.output)
    for value in model.graph.output:
        if value.name not in live:
            raise InvalidValue(
                f"model: got the output {value.name}, which follows from constants or sizes alone; "
                "allowed: what nodes compute of the inputs' numbers"
            )


def _connected(model: Model, reading: Reading) -> Graph:
    """The graph of all that makes the outputs; nodes that rename at its end are left out."""
    makers = reading.graph.makers
    outputs = []
    for value in model.graph.output:
        name = model.aliases.get(value.name, value.name)
        while name in makers and makers[name].op.is_opaque:
            node = makers[name]
            if str(node.op) not in _RENAMING or len(node.inputs) != 1:
                break
            if node.inputs[0] in reading.graph.inputs:  # which is copied to the output
                break
            (name,) = node.inputs
        if name not in makers:
            raise InvalidValue(
                f"model: got the output {value.name}, which is an input or a constant; allowed: "
                "what nodes compute"
            )
        outputs.append(name)
    nodes, taken = [*reading.graph.nodes], model.names()
    for place, name in enumerate(outputs):
        form = reading.forms.get(name)
        if form == "last":  # the model's own order
            shape = tuple(size.number for size in model.sizes[name])
            outputs[place] = fresh(f"{name}.array", taken)
            nodes.append(as_array(outputs[place], name, shape, form))
    wanted, kept = set(outputs), list[Node]()
    for node in reversed(nodes):
        if wanted.intersection(node.outputs):
            kept.append(node)
            wanted.update(node.reads)
    inputs = [name for name in reading.graph.inputs if name in wanted]
    return Graph(inputs, kept[::-1], outputs)


def _refuse(model: Model, graph: Graph, reasons: Mapping[str, str]) -> None:
    strange = [node for node in graph.nodes if not node.op.in_segments]
    if strange:
        listed = ", ".join(
            f"{node.label} ({_kind(node)}{_because(reasons.get(node.outputs[0]))})"
            for node in strange
        )
        raise InvalidValue(
            f"model: got nodes of opset {model.opset} that are not generated: {listed}; allowed: "
            "convolutions of float32 and what lies between them, see docs/network.md"
        )
    given = {value.name for value in required(model)}
    for name in graph.inputs:
        if name not in given:
            raise InvalidValue(
                f"model: got the initializer {name}, which callers may replace; allowed: "
                "constants, which are no inputs as well"
            )


def _kind(node: Node) -> str:
    return str(node.op) if node.op.is_opaque else "a convolution of bytes"


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""


def identifiers_of(names: Sequence[str], prefix: str, more: Collection[str] = ()) -> dict[str, str]:
    """Return how C calls arrays: as the model does, as far as possible.

    No two differ only in case, since macros have them in capitals; none is one of C's words, of
    the files' own or of ``more``.
    """
    taken: set[str] = set()
    found: dict[str, str] = {}
    for name in names:
        base = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or "array"
        own = re.match(rf"({prefix}_|(map|relayout)_\d+$)", base, re.IGNORECASE)
        if base[0].isdigit() or own or base in {*RESERVED, *_OWN, *more}:
            base = f"array_{base}"
        candidate, number = base, 2
        while candidate.upper() in taken:
            candidate, number = f"{base}_{number}", number + 1
        taken.add(candidate.upper())
        found.setdefault(name, candidate)
    return found
