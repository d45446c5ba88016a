"""A network as a graph: operators between named values, most of them maps (N, C, H, W).

Shapes are always (N, C, H, W) here, or (N, C, D, H, W) of volumes, with which the same operators go
that name no axes. How the numbers lie in memory is chosen later. All that a
framework keeps to itself is an `Opaque` operator, whose values may be anything. Operators are
immutable, and so are graphs: a pass returns a new one.

>>> import numpy as np
>>> from winogen.graph import Activation, Conv
>>> weight = np.ones((8, 3, 3, 3), np.float32)
>>> nodes = [Node(Conv(weight, padding=(1, 1, 1, 1)), ("x",), ("y",)),
...          Node(Activation("relu"), ("y",), ("z",))]
>>> print(Graph(("x",), nodes, ("z",)))
x ->
y = conv 3x3 3->8 pad 1,1,1,1 (x)
z = relu (y)
-> z
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from winogen.errors import InvalidType, InvalidValue
from winogen.graph.ops import Operator

# Of pickled graphs: raised when an operator changes its fields or what they mean.
FORMAT = 9


@dataclass(frozen=True, eq=False)
class Node:
    """An operator between values. All but Opaque have one output."""

    op: Operator
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    label: str = ""  # what people call it: the name of the layer

    @property
    def output(self) -> str:
        """The only output."""
        (output,) = self.outputs
        return output

    @property
    def add(self) -> str:
        """The value that is added before the activation, or the other factor; "" for none."""
        return self.inputs[1] if len(self.inputs) > 1 else ""

    @property
    def add_after(self) -> str:
        """The value that a convolution adds behind its activation; "" for none."""
        return self.inputs[2] if len(self.inputs) > 2 else ""

    @property
    def reads(self) -> tuple[str, ...]:
        """Its inputs without the missing ones."""
        return tuple(name for name in self.inputs if name)

    def seams(self, add: str, add_after: str) -> Node:
        """Return the convolution with these values to add."""
        inputs: tuple[str, ...] = (self.inputs[0], add, add_after)
        while not inputs[-1]:
            inputs = inputs[:-1]
        return replace(self, inputs=inputs)


class Graph:
    """Nodes in an order in which they can be computed, with the inputs and outputs of the whole.

    Raises InvalidValue for a value that is made twice, or read before it is made, and for an
    operator with a wrong number of inputs.
    """

    def __init__(self, inputs: Iterable[str], nodes: Iterable[Node], outputs: Iterable[str]):
        self.inputs = tuple(inputs)
        self.nodes: tuple[Node, ...] = tuple(nodes)
        self.outputs = tuple(outputs)
        self._check()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "format": FORMAT}

    def __setstate__(self, state: dict[str, Any]) -> None:
        written = state.pop("format", None)
        if written != FORMAT:
            raise InvalidValue(
                f"graph: got format {written}; allowed: {FORMAT}. Another version of winogen wrote "
                "it: optimize the model again"
            )
        self.__dict__.update(state)

    def _check(self) -> None:
        made = set(self.inputs)
        if len(made) < len(self.inputs):
            raise InvalidValue(f"inputs: got {self.inputs}; allowed: every name once")
        for node in self.nodes:
            if not isinstance(node.op, Operator):
                raise InvalidType(f"op: got {type(node.op).__name__}; allowed: an operator of ops")
            if len(node.inputs) not in node.op.inputs or (
                not node.op.is_opaque and len(node.outputs) != 1
            ):
                raise InvalidValue(
                    f"node {node.label or node.op}: got {len(node.inputs)} inputs and "
                    f"{len(node.outputs)} outputs; allowed: as many as the operator has"
                )
            for name in node.reads:
                if name not in made:
                    raise InvalidValue(f"value {name!r}: read by {node.op} before it is made")
            for name in node.outputs:
                if name in made or not name:
                    raise InvalidValue(f"value {name!r}: made twice, or without a name")
                made.add(name)
        for name in self.outputs:
            if name not in made:
                raise InvalidValue(f"outputs: got {name!r}; allowed: values of the graph")

    def __str__(self) -> str:
        lines = [f"{', '.join(self.inputs)} ->"]
        for node in self.nodes:
            inputs = ", ".join(name or "-" for name in node.inputs)
            lines.append(f"{', '.join(node.outputs)} = {node.op} ({inputs})")
        return "\n".join([*lines, f"-> {', '.join(self.outputs)}"])

    @property
    def convolutions(self) -> list[Node]:
        """The nodes that are convolutions of floats, transposed ones, too."""
        return [node for node in self.nodes if node.op.is_convolution]

    @property
    def uses(self) -> Counter[str]:
        """How often each value is read, by nodes and as an output of the graph."""
        counts = Counter(self.outputs)
        for node in self.nodes:
            counts.update(node.reads)
        return counts

    @property
    def makers(self) -> dict[str, Node]:
        """The node that makes each value; inputs are not among them."""
        return {name: node for node in self.nodes for name in node.outputs}

    @property
    def dtype(self) -> np.dtype | None:
        """The type of all parameters; None if there are none. Raises InvalidType if they differ."""
        kinds = {array.dtype for node in self.nodes for array in node.op.parameters}
        if len(kinds) > 1:
            names = ", ".join(sorted(map(str, kinds)))
            raise InvalidType(f"parameters: got dtypes {names}; allowed: one for the whole graph")
        return kinds.pop() if kinds else None

    def computed(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the outputs for these inputs, as its operators compute them in numpy."""
        values = dict(zip(self.inputs, arrays, strict=True))
        for node in self.nodes:
            values[node.output] = node.op.computed(*(values[name] for name in node.reads))
        return [values[name] for name in self.outputs]

    def with_nodes(self, nodes: Sequence[Node]) -> Graph:
        """Return the same graph with other nodes."""
        return Graph(self.inputs, nodes, self.outputs)

    def without_dead(self) -> Graph:
        """Return the graph without nodes that nothing depends on; Opaque ones stay."""
        needed, kept = set(self.outputs), []
        for node in reversed(self.nodes):
            if node.op.is_opaque or needed.intersection(node.outputs):
                kept.append(node)
                needed.update(node.reads)
        return self.with_nodes(kept[::-1])
