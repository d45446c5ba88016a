"""Graphs as text and arrays, for files of others: an ONNX node, a pickled module.

The text is JSON. Arrays are counted, so that whoever keeps them may choose how.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import numpy as np

from winogen.errors import InvalidValue
from winogen.graph.ir import (
    Activation,
    Add,
    Affine,
    Concat,
    Conv,
    Graph,
    MaxPool,
    Node,
    Operator,
    Pad,
    QConv,
    Repeat,
    Slice,
    Spread,
)

# Raised when a reader of an older version would misunderstand what is written.
FORMAT = 1
_KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (Conv, QConv, Affine, Activation, Add, Concat, Slice, Pad, MaxPool, Repeat, Spread)
}


def save(graph: Graph) -> tuple[str, list[np.ndarray]]:
    """Return the graph as text and arrays; raises InvalidValue for one with Opaque nodes.

    >>> from winogen.graph import Graph, Node, Pad
    >>> text, arrays = save(Graph(("x",), [Node(Pad((1, 1, 0, 0)), ("x",), ("y",))], ("y",)))
    >>> print(load(text, arrays))
    x ->
    y = pad 1,1,0,0 zeros (x)
    -> y
    """
    arrays: list[np.ndarray] = []
    numbers: dict[int, int] = {}  # a shared array is kept once

    def written(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            if id(value) not in numbers:
                numbers[id(value)] = len(arrays)
                arrays.append(value)
            return {"array": numbers[id(value)]}
        if isinstance(value, tuple):
            return [written(item) for item in value]
        return value

    nodes = []
    for node in graph.nodes:
        kind = type(node.op).__name__
        if kind not in _KINDS:
            raise InvalidValue(f"graph: got an operator {node.op}; allowed: none of a framework")
        op = {field.name: written(getattr(node.op, field.name)) for field in fields(node.op)}
        nodes.append(
            {
                "kind": kind,
                "op": op,
                "inputs": list(node.inputs),
                "output": node.output,
                "label": node.label,
            }
        )
    whole = {
        "format": FORMAT,
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "nodes": nodes,
    }
    return json.dumps(whole, separators=(",", ":")), arrays


def load(text: str, arrays: list[np.ndarray]) -> Graph:
    """Return the graph that `save` wrote; raises InvalidValue for a text that it did not write."""
    try:
        whole = json.loads(text)
        if whole["format"] != FORMAT:
            raise InvalidValue(
                f"graph: got format {whole['format']}; allowed: {FORMAT}. Another version of "
                "winogen wrote it: optimize the model again"
            )
        nodes = [
            Node(
                _operator(node["kind"], node["op"], arrays),
                tuple(node["inputs"]),
                (node["output"],),
                node["label"],
            )
            for node in whole["nodes"]
        ]
        return Graph(whole["inputs"], nodes, whole["outputs"])
    except (KeyError, IndexError, TypeError, json.JSONDecodeError) as problem:
        raise InvalidValue(f"graph: got a text that is damaged ({problem!r})") from problem


def _operator(kind: str, values: dict[str, Any], arrays: list[np.ndarray]) -> Operator:
    def read(value: Any) -> Any:
        if isinstance(value, dict):
            return arrays[value["array"]]
        if isinstance(value, list):
            return tuple(read(item) for item in value)
        return value

    op: Operator = _KINDS[kind](**{name: read(value) for name, value in values.items()})
    return op
