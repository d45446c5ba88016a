"""A model as a graph: what winogen computes as its operators, all else as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from winogen.graph import Graph, Node, Opaque, QConv
from winogen.onnx.code_reading import CodeRun, CodeValues, coded, collected
from winogen.onnx.forms import Forms
from winogen.onnx.matching import Match
from winogen.onnx.model import Model
from winogen.onnx.patterns import Patterns
from winogen.onnx.quantized import quantized
from winogen.onnx.sizes import STANDARD

_CONVOLUTIONS = ("Conv", "ConvTranspose", "QLinearConv", "ConvInteger")


class Stays(NamedTuple):
    """A convolution that stays with the framework."""

    label: str
    why: str


@dataclass
class Reading:
    """A graph, and what is needed to write it back."""

    graph: Graph
    kind: int  # of the numbers, as TensorProto counts them; 0 without a convolution
    stays: dict[str, Stays] = field(default_factory=dict)  # convolutions, by what they make
    forms: dict[str, str] = field(default_factory=dict)  # of values that are no maps in the model

    def layers_of(self, node: Node) -> list[tuple[Node, QConv]]:
        """Return the quantized convolutions of a node of the graph: itself, or those of its run."""
        run = node.op.payload
        nodes = run.graph.nodes if isinstance(run, CodeRun) else [node]
        return [(one, one.op.quantized) for one in nodes if one.op.quantized]

    @property
    def refusals(self) -> list[str]:
        """The convolutions that stay with the framework, and why."""
        return [f"{one.label}: {one.why}" for one in self.stays.values()]


def read(
    model: Model, excluded: Mapping[str, str] | None = None, everywhere: bool = False
) -> Reading:
    """Return the graph of a model. Values that never change are no values of it.

    ``excluded``: values that are no outputs of quantized convolutions then, and why.
    ``everywhere``: whether sums and products with constants are read where no convolution is before
    them, which a framework computes as fast; and float32 where there is no convolution at all.
    Operators of codes that follow each other are one `CodeRun`.
    """
    codes = coded(model).but(excluded or {})
    while True:
        reading = _read(model, excluded, everywhere, codes)
        graph, alone = collected(reading.graph, codes)
        if not alone:
            return replace(reading, graph=graph)
        codes = codes.but(alone)


def _read(
    model: Model, excluded: Mapping[str, str] | None, everywhere: bool, codes: CodeValues
) -> Reading:
    narrow = quantized(model, excluded)
    kind = _kind(model, narrow.taken)
    if everywhere and not kind:
        kind = model.onnx.TensorProto.FLOAT
    patterns = Patterns(model, kind, everywhere) if kind else None
    forms = Forms(patterns) if patterns else None
    matches: dict[int, Match] = {}
    swallowed: set[tuple[str, ...]] = set()
    stays = dict[str, Stays]()
    nodes = list(model.graph.node)
    functions = {(one.domain, one.name) for one in model.proto.functions}
    for place, node in enumerate(nodes):
        match = narrow.matches.get(node.output[0]) if node.output else None
        if match is None and node.output and node.output[0] in codes.reads:
            op, named = codes.transposed.get(node.output[0]) or (Opaque(node.op_type, node), "")
            match = Match(op, codes.reads[node.output[0]], label=named)
        if match is None and id(node) in narrow.taken:
            continue
        if match is None and patterns and forms:
            if forms.enter(node):  # for who reads a tensor of that form
                continue
            match = forms.resolved(patterns.match(node)) or forms.match(node)
            match = match or forms.row(node)
        if match is not None:
            matches[place] = match
            swallowed |= {tuple(inner.output) for inner in match.within}
        elif (node.domain, node.op_type) in functions:
            why = "a function of the model, of another opset than its, which is not looked into"
            stays[node.output[0]] = Stays(node.name or node.output[0], why)
        elif node.op_type in _CONVOLUTIONS:
            known = narrow.refusals.get(node.output[0]) or codes.refusals.get(node.output[0])
            why = known or _why(model, node, kind)
            stays[node.output[0]] = Stays(node.name or node.output[0], why)
    aliases = model.aliases
    needed = _needed(model, nodes, matches)
    inside = {nodes[place].output[0] for place in needed if nodes[place].output}
    stays = {name: why for name, why in stays.items() if name in inside}
    outside = dict.fromkeys(value.name for value in model.graph.input)
    outside = {name: None for name in outside if model.constant(name) is None}
    made: list[Node] = []
    for place, node in enumerate(nodes):
        outputs = tuple(filter(None, node.output))
        if outputs[0] in aliases or tuple(node.output) in swallowed or place not in needed:
            continue
        if outputs[0] in model.constant_nodes:
            continue
        match = matches.get(place)
        label = node.name or outputs[0]
        ops: tuple[Any, ...] = (Opaque(node.op_type, node),)
        reads = model.reads(node)
        if match is not None:
            reads, ops, label = match.inputs, (match.op, *match.others), match.label or label
        inputs = tuple(aliases.get(name, name) for name in reads)
        inputs = tuple(name for name in inputs if model.constant(name) is None)
        for name in inputs:  # what has neither a maker nor is an input: an initializer
            if name not in model.makers:
                outside.setdefault(name)
        if match is None:
            made.append(Node(ops[0], inputs, outputs, label))
        else:
            made += [Node(op, inputs, (name,), label) for op, name in zip(ops, outputs)]
    produced = {name for node in made for name in node.outputs}
    produced |= outside.keys()
    wanted = [aliases.get(value.name, value.name) for value in model.graph.output]
    outputs = tuple(dict.fromkeys(name for name in wanted if name in produced))
    return Reading(Graph(outside, made, outputs), kind, stays, forms.made if forms else {})


def _kind(model: Model, taken: Container[int]) -> int:
    """The type of the numbers of most convolutions that winogen could compute."""
    tensor = model.onnx.TensorProto
    kinds = Counter(
        model.kind(node.output[0]) or model.kind(node.input[0])
        for node in model.graph.node
        if node.op_type in ("Conv", "ConvTranspose")
        and node.domain in STANDARD
        and id(node) not in taken
    )
    ours = {kind: count for kind, count in kinds.items() if kind in (tensor.FLOAT, tensor.DOUBLE)}
    return max(sorted(ours), key=lambda kind: ours[kind]) if ours else 0


def _why(model: Model, node: Any, kind: int) -> str:
    """Why a convolution stays with the framework."""
    sizes = model.sizes.get(node.input[0])
    if kind == 0 or model.kind(node.output[0]) not in (kind, 0):
        names = model.onnx.TensorProto.DataType.Name
        return f"numbers are {names(model.kind(node.output[0])).lower()}"
    if sizes is not None and len(sizes) not in (3, 4, 5):
        return f"{len(sizes) - 2}D"
    if model.constant(node.input[0]) is not None:
        return "its input never changes"
    for what, name in zip(("weights", "bias"), node.input[1:3]):
        if name in model.sparse:
            return f"its {what} are sparse"
        array, maker = model.constant(name), model.makers.get(name)
        codes = maker.input[0] if maker and maker.op_type == "DequantizeLinear" else ""
        if model.constant(codes) is not None:
            return f"its {what} are quantized, and it is in no run of codes"
        if array is None and name:
            return f"its {what} may change from call to call"
        if array is not None and model.onnx.helper.np_dtype_to_tensor_dtype(array.dtype) != kind:
            return f"its {what} are {array.dtype}"
    if node.op_type == "ConvTranspose" and sizes is not None:
        return _why_not_transposed(model.attributes(node), sizes[2:])
    return "its shapes are not known, or it pads in a way that depends on them"


def _why_not_transposed(values: Mapping[str, Any], size: Sequence[Any]) -> str:
    """Why a transposed convolution of an input of this size stays with the framework."""
    shape, same = values.get("output_shape"), values.get("auto_pad", "").startswith("SAME")
    if (shape or same) and not all(one.known for one in size):
        return "it pads in a way that depends on sizes that are not known"
    if shape:
        return "its output_shape asks for pixels that an input more would make"
    if same:
        return "its auto_pad asks for pixels that no tap reaches"
    return "transposed, with a dilation beside its stride"


def _needed(model: Model, nodes: list[Any], matches: Mapping[int, Match]) -> set[int]:
    """The places of nodes that the outputs depend on."""
    wanted = {value.name for value in model.graph.output}
    places = set()
    for place in reversed(range(len(nodes))):
        if wanted.intersection(nodes[place].output):
            places.add(place)
            match = matches.get(place)
            wanted.update(match.inputs if match else model.reads(nodes[place]))
    return places
