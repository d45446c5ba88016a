"""Which values of a quantized model are codes that follow from codes, and of which.

The reader of whole quantized models is asked about each value by itself, in the order of the model:
what it makes of others is an operator of a segment, all else an input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from winogen.conv.quantization import RANGES
from winogen.errors import InvalidValue, WinogenError
from winogen.graph import Graph, Node, Opaque, QConv, cut
from winogen.graph.code_calls import OPERATORS
from winogen.graph.ops import Recast
from winogen.graph.ops.quantized import After
from winogen.onnx.model import Model
from winogen.onnx.probes import sized
from winogen.onnx.quantized import Refused
from winogen.onnx.quantized_graph import QuantizedReader, is_quantized
from winogen.onnx.quantized_nodes import map_sizes
from winogen.onnx.sizes import STANDARD, Sizes


@dataclass(frozen=True)
class CodeValues:
    """Values of codes: those that each is made of, the type of all, and what is known of sizes.

    ``transposed``: layers that are no operator of codes by themselves, by what they make,
    with the names of their nodes.
    ``refusals``: such layers that are none of codes at all, by their outputs, and why.
    """

    reads: dict[str, tuple[str, ...]] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)  # as TensorProto counts them
    sizes: Mapping[str, Sizes] = field(default_factory=dict)
    transposed: Mapping[str, tuple[QConv, str]] = field(default_factory=dict)
    refusals: Mapping[str, str] = field(default_factory=dict)

    def but(self, names: Mapping[str, Any] | set[str]) -> CodeValues:
        """Return the same without values that are computed otherwise."""
        reads = {name: read for name, read in self.reads.items() if name not in names}
        return replace(self, reads=reads)


class CodeRun(NamedTuple):
    """Operators of codes that follow each other, as the nodes of a graph: one node of winogen's.

    ``kind`` and ``sizes``: of its inputs and outputs.
    """

    graph: Graph
    kind: int
    sizes: list[Sizes]


def coded(model: Model) -> CodeValues:
    """Return the values of codes of a model; none where sizes but that of the batch are open."""
    if not is_quantized(model):
        return CodeValues()
    try:
        reader = _Values(sized(model).plain)
    except InvalidValue:
        return CodeValues()
    reads = reader.reads()
    names = [name for one in reads.items() for name in (one[0], *one[1])]
    kinds, layers = {name: reader.model.kind(name) for name in names}, reader.made.transposed_layers
    transposed = {name: layers[made] for name, made in reader.known.items() if made in layers}
    return CodeValues(reads, kinds, model.sizes, transposed, reader.made.refused_layers)


class _Values(QuantizedReader):
    """Makes each value of codes of those that are there."""

    def reads(self) -> dict[str, tuple[str, ...]]:
        """Return what each value is made of, if it is made of codes."""
        found: dict[str, tuple[str, ...]] = {}
        for node in self.model.graph.node:
            name = node.output[0]
            is_bytes = self.model.kind(name) in self._kinds and node.domain in STANDARD
            if not is_bytes or self.model.constant(name) is not None or name in self.model.aliases:
                continue
            self._asked = dict[str, None]()
            try:
                self.known[name] = self._made_of_bytes(name, node)
            except (Refused, WinogenError):
                continue
            made = self.made.nodes[-1].op
            if isinstance(made, OPERATORS):
                found[name] = tuple(self._asked)
        return found

    @property
    def _kinds(self) -> list[int]:
        kind_of = self.model.onnx.TensorProto.DataType.Value
        return [kind_of(name.upper()) for name in RANGES]

    def _bytes(self, name: str) -> str:
        name = self.model.aliases.get(name, name)
        if self.model.constant(name) is not None:
            raise Refused(f"{name} is a constant")
        self._asked[name] = None
        if name not in self.known:
            given = self.made.value(name, map_sizes(self.made.shape(name)))
            self.known[name] = self.made.node(name, Recast(self._dtype(name)), (given,), name)
        return self.known[name]

    def _coded(self, name: str, after: After) -> str:
        return self._of_codes(name, after)

    def _input(self, name: str, after: After | None = None) -> str:
        raise Refused(f"{name} is numbers")


def collected(graph: Graph, codes: CodeValues) -> tuple[Graph, set[str]]:
    """Return a graph whose runs of codes are an Opaque node each, and the values of no run.

    A run has a convolution and another operator, codes of one type at both ends, and images that
    are each computed alone.
    """
    mine = {id(node.op) for node in graph.nodes if not codes.reads.keys().isdisjoint(node.outputs)}
    nodes: list[Node] = []
    left: set[str] = set()
    for piece in cut(graph, takes=lambda op: id(op) in mine):
        run = _run(piece.graph, codes) if piece.ours else None
        if run is None:
            nodes += piece.graph.nodes
            left |= {name for node in piece.graph.nodes for name in node.outputs if piece.ours}
            continue
        reads, made = piece.graph.inputs, piece.graph.outputs
        nodes.append(Node(Opaque("codes", run), reads, made, made[0]))
    return graph.with_nodes(nodes), left


def _run(graph: Graph, codes: CodeValues) -> CodeRun | None:
    ends = [*graph.inputs, *graph.outputs]
    sizes = [codes.sizes.get(name, ()) for name in ends]
    kinds = [codes.kinds.get(name, 0) for name in ends]
    alone = all(sizes) and len({size[0] for size in sizes}) == 1
    known = all(size.known for one in sizes for size in one[1:])
    worthy = len(graph.nodes) > 1 and any(node.op.quantized for node in graph.nodes)
    return (
        CodeRun(graph, kinds[0], sizes)
        if len(set(kinds)) == 1 and alone and known and worthy
        else None
    )
