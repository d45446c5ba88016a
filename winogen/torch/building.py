"""From pieces of a graph to a module again: segments as calls, all else as it was."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence

import torch
from torch import fx, nn

from winogen.graph import Graph, cut
from winogen.torch.code_module import CodeModule, CodePart
from winogen.torch.plain import Plain
from winogen.torch.reading import Reading, replaced
from winogen.torch.segment_op import SegmentModule

# Keys of what the nodes of a built module know: names of values, and the graph they are made by.
VALUES, GRAPH = "winogen_values", "winogen_graph"


def build(
    reading: Reading,
    graph: Graph,
    excluded: Collection[str],
    segment: Callable[[Graph], SegmentModule] | None = None,
    layout: str = "NCHW",
    threads: int | None = None,
    tolerance: float | None = None,
) -> fx.GraphModule:
    """Return a module that computes what the reading's did, from its simplified ``graph``.

    ``excluded`` are outputs of nodes that torch computes, in ``layout``; ``segment`` makes the
    module of one, None where torch computes all; ``threads`` and ``tolerance`` are those of codes.
    The nodes of the result know which values they make, as ``meta["winogen_values"]``.
    """
    module = _Root(reading.module)
    new = fx.Graph()
    nodes: dict[str, fx.Node] = {}
    for node in reading.module.graph.nodes:
        if node.op == "placeholder":
            nodes[node.name] = new.node_copy(node)
    segments = layers = parts = 0
    for piece in cut(graph, excluded):
        if piece.ours and segment is not None:
            name = f"winogen_segment_{segments}"
            segments += 1
            made = segment(piece.graph)
            module.add(name, made)
            call = new.call_module(name, tuple(nodes[n] for n in piece.graph.inputs))
            call.meta = {VALUES: piece.graph.outputs, GRAPH: piece.graph}
            _several(new, call, piece.graph.outputs, nodes)
            continue
        for node in piece.graph.nodes:
            if isinstance(node.op.payload, CodePart):
                name = f"winogen_codes_{parts}"
                parts += 1
                module.add(name, CodeModule(node.op.payload, threads, tolerance or 0.0))
                call = new.call_module(name, tuple(nodes[n] for n in node.inputs))
                call.meta = {VALUES: node.outputs}
                _several(new, call, node.outputs, nodes)
            elif node.op.is_opaque:
                nodes[node.output] = _copied(new, node.op.payload, node.reads, nodes)
            else:
                name = f"torch_layer_{layers}"
                layers += 1
                module.add(name, Plain(node).ordered(layout))
                call = new.call_module(name, tuple(nodes[n] for n in node.reads))
                call.meta = {VALUES: node.outputs, GRAPH: piece.graph}
                nodes[node.output] = call
    new.output(replaced(reading.results, nodes))
    built = fx.GraphModule(module.root, new, type(reading.module).__name__)
    built.graph.eliminate_dead_code()
    built.delete_all_unused_submodules()
    built.recompile()
    return built


def _several(
    new: fx.Graph, call: fx.Node, outputs: Sequence[str], nodes: dict[str, fx.Node]
) -> None:
    """Enter the node of each output of a call, which returns a list of several."""
    if len(outputs) == 1:
        nodes[outputs[0]] = call
        return
    for i, output in enumerate(outputs):
        nodes[output] = new.call_function(operator.getitem, (call, i))


class _Root:
    """The traced module, with more modules in it."""

    def __init__(self, traced: fx.GraphModule):
        self.root = nn.Module()
        # By reference: what is not used any more is left behind.
        self.root.__dict__.update(
            {key: value for key, value in traced.__dict__.items() if key not in _OWN}
        )
        for kind in ("_parameters", "_buffers", "_modules"):
            setattr(self.root, kind, dict(getattr(traced, kind)))
        self.root.training = False

    def add(self, name: str, module: nn.Module) -> None:
        self.root._modules[name] = module.eval()


_OWN = ("_parameters", "_buffers", "_modules", "_graph", "_code")


def _copied(new: fx.Graph, node: fx.Node, reads: tuple[str, ...], nodes: dict) -> fx.Node:
    """A node of torch's between new ones."""
    mapping = {old: nodes[name] for old, name in zip(node.all_input_nodes, reads)}
    copy = new.node_copy(node, lambda old: mapping[old])
    copy.meta[VALUES] = (node.name,)
    # Maps may lie in memory with the channels last.
    reshapes = {"view": "reshape", torch.ops.aten.view.default: torch.ops.aten.reshape.default}
    if copy.op != "call_module" and copy.target in reshapes:
        copy.target = reshapes[copy.target]
        copy.kwargs = {{"size": "shape"}.get(name, name): x for name, x in copy.kwargs.items()}
    return copy
