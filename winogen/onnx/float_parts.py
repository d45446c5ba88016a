"""The parts of a quantized model that compute with float32: each is a model of its own.

Such a part reads numbers of DequantizeLinear nodes, of the model's inputs and of other parts. Nodes
are in one part if values lead from one to the other and no codes lie between: a node's stage counts
how often numbers have become codes, and codes numbers, on the way to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from winogen.errors import InvalidValue
from winogen.graph import Node, Opaque
from winogen.graph.ops import Codes, Dequantize, Shape
from winogen.onnx.model import Model, copied, fresh
from winogen.onnx.quantized import Refused, codes_of
from winogen.onnx.quantized_nodes import Nodes, map_sizes
from winogen.onnx.sizes import STANDARD, input_of


class FloatPart(NamedTuple):
    """What a node computes with floats, of one image."""

    model: Model
    inputs: tuple[str, ...]  # as the part calls what the node reads
    shapes: tuple[Shape, ...]  # of the outputs in the whole model

    def check(self, batch: int) -> None:
        """Raise InvalidValue where images are joined."""
        for value, shape in zip(self.model.graph.output, self.shapes):
            sizes = [size.number for size in self.model.sizes[value.name]]
            if prod(sizes) * batch != prod(shape):
                raise InvalidValue(
                    f"model: got {value.name}, of which an image's part is not known; allowed: "
                    "layers of floats that compute each image alone"
                )


class FloatParts:
    """What is found of a model's parts of floats.

    ``codes``: makes a value of codes one of the graph.
    """

    def __init__(
        self, model: Model, made: Nodes, inputs: Sequence[str], outputs: Sequence[str],
        codes: Callable[[str], str],
    ):  # fmt: skip
        self.model, self.made, self.codes = model, made, codes
        self.inputs, self.outputs = inputs, outputs
        self.values: set[str] = set()  # numbers that nodes of the graph read or make
        self.nodes: dict[int, Any] = {}  # that compute with floats
        self.constants: dict[str, np.ndarray] = {}
        self._wanted: list[str] = []  # values, of which some may be followed already

    def value(self, name: str) -> str:
        """A value that is numbers, computed by a part or given by the caller."""
        if name not in self.values:
            if self.model.kind(name) != self.model.onnx.TensorProto.FLOAT:
                raise Refused(f"{name} is neither codes nor float32")
            shape = self.made.shape(name)
            if not shape:
                raise Refused(f"{name} has no axis for images")
            sizes = map_sizes(shape) if len(shape) in (2, 4) else (prod(shape[1:]), 1, 1)
            self.values.add(self.made.value(name, sizes))
            self._wanted.append(name)
        return name

    def dequantized(self, name: str, value: str, codes: Codes) -> None:
        """Codes become numbers, once."""
        if name not in self.values:
            self.value(name)
            self._wanted.remove(name)
            sizes = self.made.shapes[name]
            wanted, count = (prod(self.made.shapes[one]) for one in (name, value))
            if wanted != count:
                raise Refused(f"{name} has {wanted} numbers an image, of {count} codes")
            self.made.add(f"numbers of {name}", Dequantize(codes), (value,), name)
            self.made.shapes[name] = sizes  # it may be flattened

    def wanted(self) -> Iterator[str]:
        """Values that parts compute, and that were not followed yet: more may come meanwhile."""
        while self._wanted:
            yield self._wanted.pop()

    def follow(self, name: str) -> None:
        """Find the nodes that make a value, up to codes, inputs and constants; raises Refused."""
        left = [name]
        while left:
            name = left.pop()
            node = self.model.makers.get(name)
            if name in self.constants:
                continue
            constant = self._constant(name, node)
            if constant is not None:
                self.constants[name] = constant
            elif node is None and name not in self.inputs:
                raise Refused(f"{name} is an initializer, which callers may replace")
            elif node is None:
                self.value(name)
            elif self._is_of_codes(node):
                self.dequantized(name, self.codes(node.input[0]), self.made.meaning(node))
            elif id(node) not in self.nodes:
                self.nodes[id(node)] = node
                left += self.model.reads(node)

    def _is_of_codes(self, node: Any) -> bool:
        return node.domain in STANDARD and node.op_type == "DequantizeLinear"

    def _constant(self, name: str, node: Any) -> np.ndarray | None:
        """A constant, or the numbers of constant codes."""
        found = self.model.constant(name)
        if found is not None or node is None or not self._is_of_codes(node):
            return found
        whole = self.model.constant(node.input[0])
        if whole is None:
            return None
        step, zero = codes_of(self.model, node.input[1], input_of(node, 2), node.input[0])
        values = self.model.attributes(node)
        if values.get("block_size", 0):
            raise Refused("its weights are quantized in blocks")
        axis = values.get("axis", 1)
        shape = [1] * whole.ndim
        if step.size > 1:
            shape[axis] = step.size
        steps = step.size
        step, zero = (np.broadcast_to(a.reshape(-1), steps).reshape(shape) for a in (step, zero))
        return ((whole.astype(np.int32) - zero.astype(np.int32)) * step).astype(np.float32)

    # ---- parts -----------------------------------------------------------------------------------

    def parts(self, batch: int) -> list[Node]:
        """Return the parts, each as an Opaque node of the graph."""
        return [self._node(nodes, batch) for nodes in self._parts()]

    def _parts(self) -> list[list[Any]]:
        """The nodes of each part in their order."""
        stages: dict[str, int] = {}
        homes: dict[str, list[Any]] = {}  # of values, the part that makes them
        parts: list[list[Any]] = []
        for node in self.model.graph.node:
            reads = self.model.reads(node)
            stage = max((stages.get(name, 0) for name in reads), default=0)
            floats = id(node) in self.nodes
            stage += stage % 2 if floats else 1 - stage % 2  # those of floats are even
            if not floats:
                if all(self.model.constant(name) is not None for name in node.output):
                    stage = 0
                stages |= dict.fromkeys(node.output, stage)
                continue
            part: list[Any] = []
            parts.append(part)
            for name in reads:
                other = homes.get(name)
                if other is not None and other is not part and stages[name] == stage:
                    part += other
                    parts = [one for one in parts if one is not other]
                    homes = {n: part if home is other else home for n, home in homes.items()}
            part.append(node)
            stages |= dict.fromkeys(node.output, stage)
            homes |= dict.fromkeys(node.output, part)
        places = {id(node): place for place, node in enumerate(self.model.graph.node)}
        for part in parts:
            part.sort(key=lambda node: places[id(node)])
        return parts

    def _node(self, nodes: Sequence[Any], batch: int) -> Node:
        made = {name for node in nodes for name in node.output}
        reads = dict.fromkeys(name for node in nodes for name in self.model.reads(node))
        inputs = [name for name in reads if name not in made and name not in self.constants]
        read = {
            name
            for node in self.nodes.values()
            if not any(node is one for one in nodes)
            for name in self.model.reads(node)
        }
        outputs = [name for name in made if name in self.values or name in read]
        outputs.sort()
        whole, names = self._model(nodes, inputs, outputs, batch)
        shapes = tuple(map(self.made.shape, outputs))
        first, last = nodes[0], nodes[-1]
        label = f"floats: {self.made.label(first, '')}"
        if len(nodes) > 1:
            label += f" to {self.made.label(last, '')}"
        op = Opaque("floats", FloatPart(whole, tuple(names), shapes))
        for name in (*inputs, *outputs):
            self.value(name)
        return Node(op, tuple(inputs), tuple(outputs), label)

    def _model(
        self, nodes: Sequence[Any], inputs: Sequence[str], outputs: Sequence[str], batch: int
    ) -> tuple[Model, list[str]]:
        """A part as a model of one image, and what its inputs are called."""
        model = self.model
        helper, kind = model.onnx.helper, model.onnx.TensorProto.FLOAT
        taken, copies, given, names = model.names(), [], [], []
        for name in inputs:
            shape = self.made.shape(name)
            here = name
            if len(shape) == 2:  # numbers of an image: as a map of a pixel
                here = fresh(f"{name}.pixel", taken)
                copies.append(helper.make_node("Flatten", [here], [name], name=here, axis=1))
                shape = (*shape, 1, 1)
            names.append(here)
            given.append(helper.make_tensor_value_info(here, kind, (1, *shape[1:])))
        copies += [copied(node) for node in nodes]
        shapes = {node.input[1] for node in nodes if node.op_type == "Reshape"}
        reads = dict.fromkeys(name for node in nodes for name in model.reads(node))
        tensors = []
        for name in reads:
            array = self.constants.get(name)
            if array is None:
                continue
            if name in shapes and array.size > 1 and array[0] == batch:
                array = np.concatenate([[1], array[1:]]).astype(np.int64)
            tensors.append(model.onnx.numpy_helper.from_array(array, name))
        made = [helper.make_tensor_value_info(name, kind, None) for name in outputs]
        graph = helper.make_graph(copies, "part", given, made, tensors)
        version = max(model.proto.ir_version, 4)  # constants are no inputs
        opsets = list(model.proto.opset_import)
        proto = helper.make_model(graph, opset_imports=opsets, ir_version=version)
        return Model(proto, {}), names
