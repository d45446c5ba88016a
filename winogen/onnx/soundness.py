"""Whether a rewritten model is one, and which of its nodes are new, without a run."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from winogen.onnx.loading import first_line, require
from winogen.onnx.model import Model

# Files of protobuf end at 2 GiB; larger models keep their weights beside them.
MOST_BYTES = 2**31 - 2**20


@dataclass(eq=False)
class Part:
    """New nodes that make values of the original from values of the original."""

    nodes: list[Any]
    inputs: list[str]  # but for constants
    outputs: list[str]

    def originals(self, model: Model) -> tuple[list[Any], dict[str, Any]] | None:
        """Return the nodes that it stands for and their constants, as arrays.

        None where one of those is no constant.
        """
        nodes = [model.renamed(node) for node in model.cone(self.outputs, set(self.inputs))]
        made = {name for node in nodes for name in node.output}
        read = {name for node in nodes for name in model.reads(node)} - made - {*self.inputs}
        constants = {name: model.constant(name) for name in sorted(read)}
        return None if any(array is None for array in constants.values()) else (nodes, constants)


def alone(
    nodes: Iterable[Any],
    constants: Iterable[Any],
    feed: Mapping[str, Any],
    outputs: Iterable[str],
    opsets: Iterable[Any],
    ir_version: int,
    fixed: bool = False,
) -> Any:
    """Return a ModelProto of these nodes, for inputs of the types and ranks of ``feed``.

    ``constants``: TensorProtos. ``opsets``: what the nodes mean. ``fixed``: whether inputs may have
    no other sizes than those of ``feed``.
    """
    helper = require("onnx").helper
    kind = helper.np_dtype_to_tensor_dtype
    inputs = [
        helper.make_tensor_value_info(name, kind(x.dtype), x.shape if fixed else [None] * x.ndim)
        for name, x in feed.items()
    ]
    made = [helper.make_empty_tensor_value_info(name) for name in outputs]
    # In place, as the helper's models are copies of graphs with all their constants.
    empty = helper.make_graph([], "part", inputs, made)
    proto = helper.make_model(empty, opset_imports=opsets, ir_version=ir_version)
    proto.graph.node.extend(nodes)
    proto.graph.initializer.extend(constants)
    return proto


def fault_of(model: Model, proto: Any) -> str | None:
    """Return why ``proto``, made of ``model``, cannot be loaded or means something else; or None.

    Every value is made once and before it is read. Inputs that a caller may leave out may still be
    left out. What is not new stands there as in the original. onnx's checker finds no fault that
    the original has not.
    """
    graph = proto.graph
    defaults = {tensor.name for tensor in graph.initializer}
    defaults |= {tensor.values.name for tensor in graph.sparse_initializer}
    inputs = {value.name for value in graph.input}
    required = inputs - defaults - {value.name for value in model.graph.input}
    required |= (inputs - defaults) & model.replaceable
    if required:
        return f"its inputs {', '.join(sorted(required))} are required"
    if [v.name for v in graph.output] != [v.name for v in model.graph.output]:
        return "its outputs have other names"
    made = inputs | defaults
    for node in graph.node:
        for name in model.reads(node):
            if name not in made:
                return f"{name} is read by {node.name or node.op_type} before it is made"
        for name in filter(None, node.output):
            if name in made - defaults - inputs:
                return f"{name} is made twice"
            made.add(name)
    missing = [value.name for value in graph.output if value.name not in made]
    if missing:
        return f"its outputs {', '.join(missing)} are not made"
    if proto.ByteSize() > MOST_BYTES:  # too large for the checker
        return None
    return new_complaint(proto, model.proto)


def new_complaint(proto: Any, original: Any) -> str | None:
    """Return what onnx's checker says against a model made of another, if that has no fault."""
    why = _complaint(proto)
    return None if why is None or _complaint(original) is not None else why


def _complaint(proto: Any) -> str | None:
    try:
        require("onnx.checker").check_model(proto)
    except Exception as problem:  # errors of its own
        return first_line(problem)
    return None


def parts_of(model: Model, proto: Any) -> list[Part]:
    """Return the new nodes of ``proto``, together where they have values of their own between them.

    All other nodes are those of ``model``, to the byte, reading the same values: so each part alone
    decides whether the two models compute the same.
    """
    old = {
        one.SerializeToString(deterministic=True)
        for node in model.graph.node
        for one in (node, model.renamed(node))
    }
    given = (value.name for value in model.graph.input)
    known = {*model.makers, *(name for name in given if model.constant(name) is None)}
    constants = {tensor.name for tensor in proto.graph.initializer} - known
    constants |= model.constant_nodes.keys()
    homes: dict[str, Part] = {}  # by values that the original does not have
    parts: list[Part] = []
    places = {node.output[0]: place for place, node in enumerate(proto.graph.node)}
    for node in proto.graph.node:
        if node.SerializeToString(deterministic=True) in old:
            continue
        reads = model.reads(node)
        joined = list({id(home): home for name in reads if (home := homes.get(name))}.values())
        if len(joined) == 1:
            part = joined[0]
        else:
            part = _united(joined, places)
            own = {name for one in joined for node in one.nodes for name in node.output}
            homes |= dict.fromkeys(own & homes.keys(), part)
            for one in joined:
                parts.remove(one)
            parts.append(part)
        part.nodes.append(node)
        part.inputs += _others(reads, constants, homes, part.inputs, part.outputs)
        for name in filter(None, node.output):
            if name in known:
                part.outputs.append(name)
            else:
                homes[name] = part
    return parts


def _united(parts: Sequence[Part], places: Mapping[str, int]) -> Part:
    """Return a part with the nodes of some, in the order of the model; an empty one for none.

    A value of the original that one makes and another reads is no input any more. ``places``: of
    nodes in the model, by their first outputs.
    """
    made = {name for part in parts for name in part.outputs}
    inputs = dict.fromkeys(name for part in parts for name in part.inputs if name not in made)
    nodes = [node for part in parts for node in part.nodes]
    nodes.sort(key=lambda node: places[node.output[0]])
    return Part(nodes, list(inputs), [name for part in parts for name in part.outputs])


def _others(names: Iterable[str], *known: Container[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if not any(name in some for some in known)]
