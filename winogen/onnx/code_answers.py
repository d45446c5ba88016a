"""What a node of codes is answered: the nodes that it stands for as a segment, bound to kernels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from winogen.graph import Graph, Node, code_calls
from winogen.graph.code_choice import Tiles, fastest, layers_of, with_tiles
from winogen.graph.code_segment import BoundCodes, CodeSegment, kernels
from winogen.graph.compiling import compile_all
from winogen.graph.ops import Recast, Shape
from winogen.kernels.kind import Spec
from winogen.onnx.loading import require
from winogen.onnx.model import Model
from winogen.onnx.quantized_graph import quantized_graph
from winogen.tasks.limit import Limit

_TILES = "winogen.tiles"  # of such a model's metadata


def segment_of(model: Model, tiles: Tiles) -> CodeSegment:
    """Return what makes codes of others in a model of known sizes, whose channels come first.

    ``tiles``: of its layers that are not exact.
    """
    read = quantized_graph(model)
    graph = with_tiles(read.graph, read.shapes, tiles)
    return CodeSegment(graph.with_nodes([_planar(node) for node in graph.nodes]))


def tiles_of(proto: Any) -> Tiles:
    """Return the tiles that a model which a node of codes stands for says its layers run in."""
    texts = (entry.value for entry in proto.metadata_props if entry.key == _TILES)
    found: Iterable[tuple[str, tuple[int, Any]]] = json.loads(next(texts, "[]"))
    return {layer: (tile, products) for layer, (tile, products) in found}


def held_tiles(nodes: Iterable[Any]) -> Tiles:
    """Return the tiles of the layers of all nodes of codes among these."""
    codes = (node.attribute for node in nodes if node.op_type == "Codes")
    contents = [one.s for attributes in codes for one in attributes if one.name == "original"]
    held = map(require("onnx").ModelProto.FromString, contents)
    return {layer: kind for one in held for layer, kind in tiles_of(one).items()}


def put_tiles(model: Model, content: bytes, shapes: Sequence[Shape], tolerance: float) -> bytes:
    """Return such a model that says so of the layers that are faster in tiles, as measured.

    ``shapes``: of its inputs, of one image; ``tolerance``: as `fastest` has it. Raises BuildError.
    """
    proto = model.onnx.ModelProto.FromString(content)
    read = quantized_graph(Model(proto, {f"i{place}": shape for place, shape in enumerate(shapes)}))
    found = fastest(layers_of(read.graph, read.shapes), tolerance)
    if not found:
        return content
    proto.metadata_props.add(key=_TILES, value=json.dumps(sorted(found.items())))
    changed: bytes = proto.SerializeToString(deterministic=True)
    return changed


def _planar(node: Node) -> Node:
    op = node.op
    return replace(node, op=replace(op, planar=True)) if isinstance(op, Recast) else node


def key_of(content: Any) -> int:
    """Return what the bytes of a model add up to, as csrc/runtime/carried_codes.h does it."""
    words = np.frombuffer(bytes(content) + bytes(-len(content) % 8), "<u8")
    odd = np.arange(1, 2 * len(words), 2, dtype=np.uint64)
    return int((words * odd).sum(dtype=np.uint64))


class CodeAnswer:
    """The plan of one question about a node of codes, which `bind` binds to kernels.

    ``segment``: of an earlier question about the node, at other sizes. Raises MissingPackage
    without onnx, and InvalidValue.
    """

    tolerance = 0.0
    errors: Sequence[Any] = ()  # codes have none
    weights: Sequence[int] = ()  # arrays of weights: it holds its own
    held: Sequence[np.ndarray] = ()
    bound: BoundCodes  # once it is bound

    def __init__(self, ffi: Any, question: Any, segment: CodeSegment | None = None):
        self._ffi = ffi
        content = ffi.buffer(question.codes, question.code_bytes)
        self.bytes, self.key = len(content), key_of(content)
        arrays = [question.array[number] for number in range(question.arrays)]
        shapes = [tuple(array.shape)[: array.rank] for array in arrays]
        self.threads = int(question.threads)
        self.asked: list[Shape] = shapes[: question.inputs]
        self.shapes: list[Shape] = [(*shape, 1, 1)[:4] for shape in self.asked]
        if segment is None:
            proto = require("onnx").ModelProto.FromString(content[:])
            sizes = {f"i{number}": shape for number, shape in enumerate(self.asked)}
            segment = segment_of(Model(proto, sizes), tiles_of(proto))
        self.segment = segment

    @property
    def graph(self) -> Graph:
        """What is computed."""
        return self.segment.graph

    @cached_property
    def wanted(self) -> list[Spec]:
        """The kernels of its plan."""
        return kernels([(self.segment, self.shapes)], self.threads)

    @property
    def specs(self) -> list[Spec]:
        """The kernels that it calls, once it is bound."""
        return list(dict.fromkeys(self.bound.specs.values()))

    def late(self, limit: Limit) -> set[int]:
        """Compile its kernels as far as a limit allows; return the layers that lack one then."""
        ready = compile_all(self.wanted, others={"codes": code_calls.library}, limit=limit)
        layers = [node for node in self.graph.nodes if node.op.quantized]
        lacking = not ready.issuperset(self.wanted)
        return set(range(len(layers))) if lacking else set()

    def bind(self, measures: bool = True) -> CodeAnswer:
        """Load its kernels and pack; returns itself."""
        compile_all(self.wanted, others={"codes": code_calls.library})  # side by side
        self.bound = self.segment.bound(self.shapes, self.threads)
        return self

    def fill(self, plan: Any) -> None:
        """Write the answer."""
        plan.count, steps = self.bound.plan
        plan.steps = self._ffi.cast("winogen_step *", steps)
        plan.scratch_bytes = self.bound.scratch_bytes
