"""Nodes of ONNX as loops over arrays: what no layer and no operator of maps is.

Each node becomes a `Plain` of the graph for each of its outputs. What is no node of floats, or
reads indices that change, is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from winogen.graph import Graph, Node
from winogen.graph.ops import Plain
from winogen.network.functions import EACH, REDUCTIONS
from winogen.network.loops import (
    MOST_AXES,
    Loops,
    Move,
    Normalise,
    Operand,
    Piece,
    Shape,
    all_of,
    values_of,
)
from winogen.network.moves import Moves
from winogen.network.numbers import SEVERAL, Numbers
from winogen.network.operands import SAME
from winogen.network.sums import ONE_AXIS, Sums
from winogen.onnx.model import Model
from winogen.onnx.quantized import Refused
from winogen.onnx.sizes import STANDARD


def map_of(shape: Shape) -> Shape:
    """Return as which map an array lies in memory: its numbers in NCHW have its own order.

    >>> map_of(()), map_of((7,)), map_of((2, 3)), map_of((2, 3, 5)), map_of((2, 3, 4, 5, 6, 7))
    ((1, 1, 1, 1), (1, 7, 1, 1), (2, 3, 1, 1), (2, 3, 1, 5), (2, 3, 4, 210))
    """
    rank = len(shape)
    if rank in (4, 5):
        return shape
    if rank > 5:
        return (*shape[:3], prod(shape[3:]))
    if rank < 2:
        return (1, *shape, *[1] * (3 - rank))
    return (*shape[:2], 1, *shape[2:]) if rank == 3 else (*shape, 1, 1)


def with_loops(
    model: Model, graph: Graph, forms: Mapping[str, str]
) -> tuple[Graph, dict[str, str]]:
    """Return the graph whose Opaque nodes are loops where they can be, and why others cannot.

    ``forms``: of values that are no maps in the model.
    """
    taken = {*graph.inputs, *(name for node in graph.nodes for name in node.outputs)}
    reader, reasons, nodes = _Reader(model, forms, taken), dict[str, str](), list[Node]()
    for node in graph.nodes:
        if not node.op.is_opaque:
            nodes.append(node)
            continue
        try:
            nodes += reader.nodes(node)
        except Refused as reason:
            reasons[node.outputs[0]] = str(reason)
            nodes.append(node)
    return Graph(graph.inputs, nodes, graph.outputs), reasons


def as_array(name: str, given: str, shape: Shape, form: str) -> Node:
    """Return the node that brings a value out of its form."""
    operand = Operand(shape, given, form)
    loops = Move((Piece(operand, tuple(all_of(shape)), tuple(all_of(shape))),), shape)
    return Node(Plain("copy", map_of(shape), loops), (given,), (name,), f"{given} as it is")


class _Reader(Numbers, Moves, Sums):
    """Reads the nodes of a model: those of kind K by the method `_K`, if no table names another."""

    def nodes(self, node: Node) -> list[Node]:
        """The nodes of the graph that compute one of the model; raises Refused."""
        proto = node.op.payload
        if proto is None or proto.domain not in STANDARD:
            raise Refused("it is no operator of ONNX's own")
        kind = proto.op_type
        read: Callable[[Any], Any] | None = getattr(self, f"_{kind}", None)
        if kind in SEVERAL:
            read = self.of_several
        elif kind in EACH and read is None:
            read = self.of_numbers
        elif kind in REDUCTIONS:
            read = self.reduced
        elif kind in SAME:
            read = self.same
        elif kind in ONE_AXIS:
            read = self.softmax
        if read is None:
            raise Refused("")
        self._check(proto)
        made = read(proto)
        if isinstance(made, list):
            steps = made
        else:
            outputs = [name for name in proto.output if name]
            whole = made if isinstance(made, tuple) else (made,)
            if len(whole) < sum(self.model.uses[name] > 0 for name in outputs):
                raise Refused("it has further outputs that are read")
            steps = list(zip(outputs, whole))
        return [self._node(name, loops, proto, node.label) for name, loops in steps]

    def _node(self, name: str, loops: Loops, proto: Any, label: str) -> Node:
        if not values_of(loops):
            raise Refused(f"it makes a constant, of too many numbers: {prod(loops.shape):,}")
        nests: list[Sequence[int]] = [loops.shape]
        if isinstance(loops, Move):
            nests = [[o.turns for o in some] for one in loops.pieces for some in one[1:]]
        elif isinstance(loops, Normalise):
            nests = [[one.turns for one in loops.view]]
        if any(sum(count > 1 for count in nest) > MOST_AXES for nest in nests):
            raise Refused(f"it takes more than {MOST_AXES} loops")
        op = Plain(proto.op_type, map_of(loops.shape), loops)
        return Node(op, values_of(loops), (name,), label)

    def _check(self, proto: Any) -> None:
        """Raise Refused for outputs that are no floats, or whose sizes are not known."""
        tensor = self.model.onnx.TensorProto
        for name in filter(None, proto.output):
            kind = self.kind(name)
            if self.model.uses[name] and kind not in (tensor.FLOAT, tensor.BOOL):
                found = tensor.DataType.Name(kind).lower() if kind else "an unknown type"
                raise Refused(f"it makes numbers of {found}")
