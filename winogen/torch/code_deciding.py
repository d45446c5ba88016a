"""What of a model runs as codes: compiled, measured beside torch, and described."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx, nn

from winogen.graph import Node, code_segment
from winogen.graph.adapter import TimedPart
from winogen.graph.code_choice import fastest, layers_of, with_tiles
from winogen.graph.compiling import compile_all
from winogen.graph.decide import LATE
from winogen.graph.measured import digest
from winogen.graph.ops import Opaque, Shape, Spread
from winogen.graph.shapes import shapes
from winogen.progress import counting
from winogen.tasks.duel import Times
from winogen.tasks.limit import limit
from winogen.torch.code_module import CodeModule, CodePart
from winogen.torch.code_nodes import held_by
from winogen.torch.deciding import in_turns
from winogen.torch.reading import Reading
from winogen.torch.report import USUAL, Row


def parts_of(reading: Reading) -> list[CodePart]:
    """Return the parts of codes of a model."""
    payloads = (node.op.payload for node in reading.graph.nodes)
    return [payload for payload in payloads if isinstance(payload, CodePart)]


def in_tiles(reading: Reading, tolerance: float) -> Reading:
    """Return a reading whose layers of codes run in tiles where these are faster, as measured.

    ``tolerance``: as `fastest` has it. Raises BuildError.
    """
    values = {part: _values(part, reading.module) for part in parts_of(reading)}
    layers = [one for part, some in values.items() for one in layers_of(part.graph, some)]
    tiles = fastest(layers, tolerance)

    def chosen(node: Node) -> Node:
        part = node.op.payload
        if not isinstance(part, CodePart):
            return node
        made = replace(part, graph=with_tiles(part.graph, values[part], tiles))
        return replace(node, op=Opaque(str(node.op), made))

    graph = reading.graph.with_nodes([chosen(node) for node in reading.graph.nodes])
    return replace(reading, graph=graph)


def _values(part: CodePart, module: fx.GraphModule) -> dict[str, Shape]:
    return shapes(part.graph, dict(zip(part.graph.inputs, _shapes(part, module))))


def late(reading: Reading, threads: int | None) -> dict[str, str]:
    """Compile the kernels of all parts; return the tensors of those that lack one, and why.

    They do where the limit of seconds leaves no time.
    """
    count = threads or torch.get_num_threads()
    needs = {part: _specs(part, reading.module, count) for part in parts_of(reading)}
    if not needs:
        return {}
    specs = list(dict.fromkeys(spec for some in needs.values() for spec in some))
    with counting("compiling kernels of codes") as step:
        ready = compile_all(specs, step, code_segment.libraries(), limit())
    lacking = [part for part, some in needs.items() if not ready.issuperset(some)]
    return {name: LATE for part in lacking for name in made_by(part)}


def _specs(part: CodePart, module: fx.GraphModule, threads: int) -> list[Any]:
    segment = code_segment.CodeSegment(part.graph)
    return code_segment.kernels([(segment, _shapes(part, module))], threads)


def made_by(part: CodePart) -> list[str]:
    """Return the tensors of the trace that a part makes."""
    return [name for name in part.inner if name not in part.graph.inputs]


def _noted(module: fx.GraphModule) -> dict[str, Any]:
    return {node.name: node.meta.get("tensor_meta") for node in module.graph.nodes}


def _shapes(part: CodePart, module: fx.GraphModule) -> list[Shape]:
    noted = _noted(module)
    return [(*noted[name].shape, 1, 1)[:4] for name in part.graph.inputs]


@dataclass(frozen=True, eq=False)
class CodeTrial:
    """A part as winogen and as torch computes it, and what both are given."""

    ours: CodeModule
    theirs: nn.Module
    bound: code_segment.BoundCodes  # for the inputs
    inputs: Sequence[torch.Tensor]
    threads: int

    def times(self) -> Times:
        """Return the seconds of both, measured in turns."""
        return in_turns(
            lambda: self.ours(*self.inputs), lambda: self.theirs(*self.inputs), self.threads
        )


def timed(reading: Reading, body: fx.GraphModule, threads: int | None) -> list[TimedPart]:
    """Return the parts of a built module to be measured."""
    modules = modules_of(body)
    if not modules:
        return []
    count = threads or torch.get_num_threads()
    noted, held = _noted(reading.module), held_by(reading.module)
    found: list[TimedPart] = []
    for module in modules:
        part = module.part
        given, layers = _shapes(part, reading.module), part.layers
        bound = module.segment.bound(given, count)
        generator = torch.Generator().manual_seed(0)
        inputs = [
            torch.randint(
                *_ends(noted[name].dtype), tuple(noted[name].shape), generator=generator,
                dtype=noted[name].dtype,
            )
            for name in part.graph.inputs
        ]  # fmt: skip
        key = digest("codes", str(part.graph), given, sorted(bound.variants.items()), count)
        names = [node.label or node.output for node in layers]
        label = f"{names[0]} to {names[-1]}, {len(names)} layers of codes" if names else ""
        theirs = torchs(reading.module, part, held)
        subject = CodeTrial(module, theirs, bound, inputs, count)
        worth = sum(bound.seconds.values())
        values = made_by(part)
        found.append(TimedPart(key, values[-1], label, worth, subject, values, is_layer=False))
    return found


def _ends(dtype: torch.dtype) -> tuple[int, int]:
    return (0, 256) if dtype == torch.uint8 else (-128, 128)


def modules_of(body: nn.Module) -> list[CodeModule]:
    """Return the modules of codes in a built one."""
    return [module for module in body.modules() if isinstance(module, CodeModule)]


def torchs(
    module: fx.GraphModule, part: CodePart, held: Mapping[str, torch.Tensor]
) -> fx.GraphModule:
    """Return what a trace computes between the inputs and the outputs of a part.

    ``held``: what follows from attributes alone, as the numbers of weights: it is there already.
    """
    root, graph = nn.Module(), fx.Graph()
    nodes = {name: graph.placeholder(name) for name in part.graph.inputs}
    traced = {node.name: node for node in module.graph.nodes}
    for node in _between(traced, part):
        if node.name in held:
            root.register_buffer(node.name, held[node.name])
            nodes[node.name] = graph.get_attr(node.name)
        else:
            nodes[node.name] = graph.node_copy(node, lambda one: nodes[one.name])
    graph.output(tuple(nodes[name] for name in part.graph.outputs))
    return fx.GraphModule(root, graph)


def _between(traced: Mapping[str, fx.Node], part: CodePart) -> list[fx.Node]:
    """The nodes that outputs of a part follow from, up to its inputs, in their order."""
    waiting, found = list(part.graph.outputs), set[str]()
    while waiting:
        name = waiting.pop()
        if name in found or name in part.graph.inputs:
            continue
        found.add(name)
        waiting += [one.name for one in traced[name].all_input_nodes]
    return [node for name, node in traced.items() if name in found]


def weight_bytes(body: fx.GraphModule) -> int:
    """Return the bytes of the weights of all layers of codes."""
    layers = (node.op.quantized for one in modules_of(body) for node in one.part.layers)
    return sum(op.weight.nbytes for op in layers if op is not None)


def rows(parts: Sequence[TimedPart], times: Mapping[str, Times]) -> list[Row]:
    """Return a row for each convolution and linear layer of codes; ``times`` by keys of parts."""
    made = []
    for timed_part in parts:
        module, measured = timed_part.subject.ours, times.get(timed_part.key)
        bound, layers = timed_part.subject.bound, module.part.layers
        why = USUAL
        if measured is not None:
            why = f"of {len(layers)} in one call, measured: torch {measured}"
        elif limit().seconds is not None:
            why = f"as predicted: not measured in {limit().seconds:g} seconds"
        spread = {
            (node.inputs[0], node.label): f", {node.op}"
            for node in module.part.graph.nodes
            if isinstance(node.op, Spread)
        }
        for node in layers:
            seams = " + add" if node.add else spread.get((node.output, node.label), "")
            near = bound.near.get(node.output)
            made.append(
                Row(
                    name=node.label or node.output,
                    what=f"{node.op}{seams}",
                    runs=bound.variants[node.output],
                    why=why,
                    predicted=bound.seconds[node.output],
                    error=near and near.prediction.error,
                    packed_bytes=module.segment.packed_of(node.output),
                )
            )
    return made
