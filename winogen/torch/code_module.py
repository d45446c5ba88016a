"""The operator `winogen::codes`: a part of a network that computes with codes, as one call."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import nn

from winogen.errors import Unsupported
from winogen.graph import Graph, Node, cut
from winogen.graph.code_calls import OPERATORS
from winogen.graph.code_segment import CodeSegment
from winogen.graph.ops import Opaque, Operator, Recast, Shape
from winogen.torch.codes import Coded
from winogen.torch.segment_op import library, numbered, refuse_device

library.define("codes(Tensor[] inputs, int number) -> Tensor[]")

_modules: WeakValueDictionary[int, CodeModule] = WeakValueDictionary()
_SIGNED = ".int8"  # ends the names of codes that are uint8 in torch


@dataclass(frozen=True, eq=False)
class CodePart:
    """A graph of codes, in a model: ``dtypes`` and numbers of axes of its outputs, in torch.

    Its inputs and outputs are called as their tensors in the trace.
    """

    graph: Graph
    dtypes: tuple[str, ...]
    ranks: tuple[int, ...]
    inner: dict[str, str]  # tensors of the trace that are codes, and which values are these codes

    def is_impure(self) -> bool:
        """Whether it stays although nobody reads it, as fx asks of its nodes."""
        return False

    @property
    def layers(self) -> list[Node]:
        """Its convolutions."""
        return [node for node in self.graph.nodes if node.op.quantized is not None]


def is_of_codes(op: Operator) -> bool:
    """Return whether a part of codes may have an operator."""
    return isinstance(op, OPERATORS) and not op.is_opaque


def collected(graph: Graph, coded: Coded) -> Graph:
    """Return a graph whose operators of codes are in parts, each an Opaque node."""
    nodes: list[Node] = []
    coded_values = {name for some in coded.made.values() for one in some for name in one.outputs}
    # Pools and concatenations of floats have the same operators as those of codes.
    floats = [name for one in graph.nodes for name in one.outputs if name not in coded_values]
    for piece in cut(graph, floats, is_of_codes):
        if not piece.ours or not piece.graph.nodes:
            nodes += piece.graph.nodes
            continue
        part = _part(piece.graph, coded)
        label = next(iter(piece.graph.outputs))
        reads, made = piece.graph.inputs, piece.graph.outputs
        nodes.append(Node(Opaque(label, part), reads, made, label))
    return graph.with_nodes(nodes)


def _part(graph: Graph, coded: Coded) -> CodePart:
    """Codes of uint8 become int8 where they come in, and uint8 where they are given back."""
    dtypes, ends = coded.dtypes, {*graph.inputs, *graph.outputs}
    floats = {name for name in graph.outputs if dtypes.get(name) == "float32"}

    def inside(name: str) -> str:
        is_code = name in dtypes and name not in floats
        return f"{name}{_SIGNED}" if is_code and dtypes[name] == "uint8" and name in ends else name

    nodes = [
        Node(Recast("uint8"), (name,), (inside(name),))
        for name in graph.inputs
        if inside(name) != name
    ]
    for node in graph.nodes:
        reads, made = list(map(inside, node.inputs)), tuple(map(inside, node.outputs))
        for place, table in coded.tables.get(node.output, {}).items():
            part = f"{node.output}.{place}"
            nodes.append(Node(table, (reads[place],), (part,), node.label))
            reads[place] = part
        nodes.append(Node(node.op, tuple(reads), made, node.label))
    nodes += [
        Node(Recast("uint8", True), (inside(name),), (name,))
        for name in graph.outputs
        if inside(name) != name
    ]
    every = [*graph.inputs, *(name for node in graph.nodes for name in node.outputs)]
    return CodePart(
        Graph(graph.inputs, nodes, graph.outputs),
        tuple(dtypes[name] for name in graph.outputs),
        tuple(coded.ranks[name] for name in graph.outputs),
        {name: inside(name) for name in every},
    )


class CodeModule(nn.Module):
    """A part of codes of a network: no parameters, nothing in the state.

    Takes and gives tensors of the trace, (N, C, H, W) or (N, C): codes of uint8 or int8, and gives
    float32 where these are numbers. ``threads`` None is what torch uses at the time of a call.
    ``tolerance``: how far off layers in tiles may be, as `fastest` has it.
    """

    def __init__(self, part: CodePart, threads: int | None = None, tolerance: float = 0.0):
        super().__init__()
        self._begin(part, threads, tolerance)

    def _begin(self, part: CodePart, threads: int | None, tolerance: float) -> None:
        self.part, self.threads, self.tolerance = part, threads, tolerance
        self.segment = CodeSegment(part.graph)
        self.dtypes = [getattr(torch, name) for name in part.dtypes]
        self.number = secrets.randbits(62)
        _modules[self.number] = self

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Return the output, or a list of several."""
        outputs = torch.ops.winogen.codes(list(inputs), self.number)
        return outputs[0] if len(self.dtypes) == 1 else outputs

    def empty(self, shapes: Sequence[Shape], device: torch.device | None = None) -> list[Any]:
        """Return tensors for the outputs, of these shapes (N, C, H, W)."""
        made = zip(shapes, self.dtypes)
        last = torch.channels_last
        return [
            torch.empty(shape, dtype=dtype, memory_format=last, device=device)
            for shape, dtype in made
        ]

    def shaped(self, outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return outputs with as many axes as in the model."""
        return [y if rank == 4 else y.flatten(1) for y, rank in zip(outputs, self.part.ranks)]

    def extra_repr(self) -> str:
        """What it computes."""
        return str(self.segment.graph)

    def _apply(self, fn: Any, recurse: bool = True) -> CodeModule:
        """Refuse another device; codes have no other type."""
        probe = fn(torch.empty(0, dtype=torch.float32))
        if probe.device.type != "cpu":
            raise Unsupported(f"to: got {probe.device}; allowed: the CPU")
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {
            "part": self.part,
            "threads": self.threads,
            "tolerance": self.tolerance,
            "training": self.training,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        nn.Module.__init__(self)
        self._begin(state["part"], state["threads"], state["tolerance"])
        self.training = state["training"]

    def __deepcopy__(self, memo: dict) -> CodeModule:
        """The copy shares the weights, which nobody writes."""
        copy = CodeModule(self.part, self.threads, self.tolerance)
        memo[id(self)] = copy
        return copy.train(self.training)


def as_maps(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return tensors as maps whose channels lie last in memory."""
    maps = [x[:, :, None, None] if x.dim() == 2 else x for x in inputs]
    return [x.contiguous(memory_format=torch.channels_last) for x in maps]


def _run(inputs: list[torch.Tensor], number: int) -> list[torch.Tensor]:
    module = numbered(_modules, number, "codes")
    maps = as_maps(inputs)
    bound = module.segment.bound(
        [tuple(x.shape) for x in maps], module.threads or torch.get_num_threads()
    )
    outputs = module.empty([(n, c, *size) for (n, *size, c), _ in bound.outputs])
    bound.run([x.data_ptr() for x in (*maps, *outputs)])
    return module.shaped(outputs)


def _fake(inputs: list[torch.Tensor], number: int) -> list[torch.Tensor]:
    module = numbered(_modules, number, "codes")
    shapes = [(*x.shape, 1, 1)[:4] if x.dim() == 2 else tuple(x.shape) for x in inputs]
    made = module.segment.output_shapes(shapes)
    return module.shaped(module.empty(made, inputs[0].device))


library.impl("codes", _run, "CPU")
library.impl("codes", refuse_device, "CUDA")
torch.library.register_fake("winogen::codes", _fake, lib=library)
