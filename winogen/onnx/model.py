"""A model of others as it is needed here: constants, sizes, who reads what."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np

from winogen.conv.arguments import named_shapes
from winogen.errors import InvalidValue
from winogen.onnx.inference import SMALL, inferred
from winogen.onnx.loading import computed, names_from_outside, require
from winogen.onnx.sizes import ACTIVE, STANDARD, Sizes, declared, input_of, number, propagate

OLDEST_OPSET = 7  # before it, broadcasting was asked for by attributes
# What computes weights: each number by itself, or of no more numbers than are read.
_OF_WEIGHTS = ACTIVE | frozenset(
    "Abs Add Cast Concat Div Exp Flatten Log Max Min Mul Neg Pow Reciprocal ReduceL2 ReduceMean "
    "ReduceSum Reshape Selu Slice Softsign Sqrt Squeeze Sub Sum Transpose Unsqueeze".split()
)
_FOLDABLE = _OF_WEIGHTS | {"ConstantOfShape", "Gather", "Range", "Shape"}
_MOST = 1 << 24  # numbers of weights that are computed


class Model:
    """A ModelProto with what follows from it. Nothing here changes it.

    ``input_shapes``: the sizes of some inputs, where the model leaves them open. Raises
    InvalidValue, and anything else for a model whose fields contradict each other.
    """

    def __init__(self, proto: Any, input_shapes: Mapping[str, Any] | None = None):
        self.onnx = require("onnx")
        self.proto = proto
        self.graph = proto.graph
        self.opset = self._opset()
        self.fixed = self._fixed(input_shapes or {})
        self._constants: dict[str, Any] = {}  # of TensorProtos, or arrays once they were read
        self._collect_constants()
        self._check_reads()
        self._attributes: dict[tuple[str, ...], dict[str, Any]] = {}

    def _check_reads(self) -> None:
        """Raise InvalidValue where a value is read before a node makes it, or made twice."""
        made = {value.name for value in self.graph.input}
        made |= {tensor.name for tensor in self.graph.initializer}
        made |= {tensor.values.name for tensor in self.graph.sparse_initializer}
        for node in self.graph.node:
            if not made.issuperset(self.reads(node)):
                raise InvalidValue(
                    f"model: got the node {node.name or node.op_type}, which reads what no node "
                    "before it makes; allowed: nodes in an order in which they can be computed"
                )
            for name in filter(None, node.output):
                if name in made:
                    raise InvalidValue(f"model: got {name} made twice; allowed: each value once")
                made.add(name)
        if not made.issuperset(value.name for value in self.graph.output):
            raise InvalidValue(
                "model: got an output that no node makes; allowed: outputs that the model makes"
            )

    def _opset(self) -> int:
        newest = self.onnx.defs.onnx_opset_version()
        versions = {one.version for one in self.proto.opset_import if one.domain in STANDARD}
        if not versions:
            raise InvalidValue("model: got none of ONNX's own operators; allowed: an opset of them")
        if len(versions) > 1:
            listed = " and ".join(map(str, sorted(versions)))
            raise InvalidValue(f"model: got opsets {listed} of ONNX's own operators; allowed: one")
        (version,) = versions
        if not OLDEST_OPSET <= version <= newest:
            raise InvalidValue(
                f"model: got opset {version}; allowed: {OLDEST_OPSET} to {newest}, "
                f"which onnx {self.onnx.__version__} knows"
            )
        return int(version)

    def _fixed(self, shapes: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
        inputs = {value.name: declared(value) for value in self.graph.input}
        constant = {tensor.name for tensor in self.graph.initializer}
        free = [name for name in inputs if name not in constant]
        shapes = named_shapes(shapes, free if "" in shapes else [*inputs])
        for name, shape in shapes.items():
            sizes, fits = inputs[name], isinstance(shape, (tuple, list))
            fits = fits and all(isinstance(n, int) and n > 0 for n in shape)
            if fits and sizes is not None:
                fits = len(shape) == len(sizes)
                fits = fits and all(not s.known or s.number == n for s, n in zip(sizes, shape))
            if not fits:
                wanted = "positive sizes" if sizes is None else " x ".join(map(str, sizes))
                raise InvalidValue(f"input_shapes: got {name}: {shape}; allowed: {wanted}")
        return {name: tuple(shape) for name, shape in shapes.items()}

    def _collect_constants(self) -> None:
        # From IR 4 on, a caller may replace an initializer that is an input, too.
        replaceable = set()
        if self.proto.ir_version >= 4:
            replaceable = {value.name for value in self.graph.input}
        self.replaceable = frozenset(
            tensor.name for tensor in self.graph.initializer if tensor.name in replaceable
        )
        for tensor in self.graph.initializer:
            if tensor.name not in replaceable:
                self._constants[tensor.name] = tensor
        self.constant_nodes: dict[str, Any] = {}  # by what they make
        for node in self.graph.node:
            name = node.output[0]
            if node.op_type == "Constant" and node.domain in STANDARD and len(node.attribute) == 1:
                (attribute,) = node.attribute
                value = self._value_of(attribute)
                if value is not None:
                    self._constants[name], self.constant_nodes[name] = value, node
            elif node.op_type == "Identity" and node.input[0] in self._constants:
                self._constants[name] = self._constants[node.input[0]]
                self.constant_nodes[name] = node
            else:
                value = self._computed(node)
                if value is not None:
                    self._constants[name], self.constant_nodes[name] = value, node

    def _computed(self, node: Any) -> np.ndarray | None:
        """What a node of constants makes: exporters compute paddings, sizes and weights that way.

        None for what is not worth the memory.
        """
        if node.op_type not in _FOLDABLE or node.domain not in STANDARD or len(node.output) != 1:
            return None
        inputs = [name for name in node.input if name]
        if not inputs or any(name not in self._constants for name in inputs):
            return None
        arrays = {name: self.constant(name) for name in inputs}
        most = _MOST if node.op_type in _OF_WEIGHTS else SMALL
        if _numbers(node.op_type, [array for array in arrays.values() if array is not None]) > most:
            return None
        opset = [self.onnx.helper.make_opsetid("", self.opset)]
        made = computed([node], arrays, node.output, opset)
        if made is None or np.size(made[0]) > most:
            return None
        return np.asarray(made[0])

    def _value_of(self, attribute: Any) -> Any:
        kinds: dict[str, Any] = {"value_float": np.float32, "value_floats": np.float32}
        kinds |= {"value_int": np.int64, "value_ints": np.int64}
        if attribute.name == "value":
            return attribute.t
        if attribute.name in kinds:
            value = self.onnx.helper.get_attribute_value(attribute)
            return np.asarray(value, kinds[attribute.name])
        return None

    def constant(self, name: str) -> np.ndarray | None:
        """Return a value that never changes; None if it may. The same array every time."""
        value = self._constants.get(name)
        if value is None or isinstance(value, np.ndarray):
            return value
        array = self.onnx.numpy_helper.to_array(value)
        # One array for all names of a tensor, so that it is written once.
        for other, kept in self._constants.items():
            if kept is value:
                self._constants[other] = array
        return array

    def attributes(self, node: Any) -> dict[str, Any]:
        """Return the attributes of a node as numbers, lists of numbers, texts and tensors."""
        key = tuple(node.output)
        if key not in self._attributes:
            read = self.onnx.helper.get_attribute_value
            values = {a.name: read(a) for a in node.attribute}
            self._attributes[key] = {
                name: value.decode("utf-8", "replace") if isinstance(value, bytes) else value
                for name, value in values.items()
            }
        return self._attributes[key]

    @cached_property
    def plain(self) -> Model:
        """The same model, its values by the same names, without forms that onnx does not know."""
        from winogen.onnx.code_forms import expanded

        return expanded(self)

    @cached_property
    def inferred(self) -> dict[str, Any]:
        """ValueInfoProtos of all values that onnx itself knows of, by name."""
        return inferred(self) if self.plain is self else self.plain.inferred

    @cached_property
    def sizes(self) -> dict[str, Sizes]:
        """The sizes of all values for which anything is known."""
        return self._propagated(self.inferred) if self.plain is self else self.plain.sizes

    @cached_property
    def derived(self) -> dict[str, Sizes]:
        """The sizes that follow from those of the inputs, whatever the model declares of others."""
        return self._propagated(inferred(self, believing=False))

    def _propagated(self, inferred: Mapping[str, Any]) -> dict[str, Sizes]:
        known: dict[str, Sizes] = {}
        for tensor in self.graph.initializer:
            if tensor.name not in self.replaceable:  # by one of other sizes, it may be
                known[tensor.name] = tuple(map(number, tensor.dims))
        for name, value in inferred.items():
            sizes = declared(value)
            if sizes is not None:
                known[name] = sizes
        return propagate(self.graph.node, known, self.attributes, self.constant)

    def write_fixed(self, graph: Any) -> None:
        """Write the sizes that were asked for into the inputs of a graph."""
        for value in graph.input:
            for dim, size in zip(value.type.tensor_type.shape.dim, self.fixed.get(value.name, ())):
                dim.dim_value = size

    def kind(self, name: str) -> int:
        """Return the type of a value's numbers as TensorProto counts them; 0 if not known."""
        value = self.inferred.get(name)
        return 0 if value is None else value.type.tensor_type.elem_type

    @cached_property
    def captured(self) -> frozenset[str]:
        """Names that bodies of loops and branches read from outside."""
        names: set[str] = set()
        for node in self.graph.node:
            for attribute in node.attribute:
                for graph in (attribute.g, *attribute.graphs):
                    names |= names_from_outside(graph)
        return frozenset(names)

    @staticmethod
    def reads(node: Any) -> tuple[str, ...]:
        """Return all that a node reads, what the bodies in its attributes do included."""
        inner = set()
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                inner |= names_from_outside(graph)
        return (*filter(None, node.input), *sorted(inner - set(node.input)))

    def may_drop(self, node: Any) -> bool:
        """Whether a Dropout may drop numbers, which only training does."""
        name = input_of(node, 2)
        training = self.constant(name)
        return bool(name) and (training is None or bool(training.any()))

    @cached_property
    def sparse(self) -> frozenset[str]:
        """The initializers that are sparse."""
        return frozenset(tensor.values.name for tensor in self.graph.sparse_initializer)

    def names(self) -> set[str]:
        """Return the names of all values."""
        graph = self.graph
        names = {value.name for value in (*graph.input, *graph.output)}
        names |= {tensor.name for tensor in graph.initializer}
        for node in graph.node:
            names |= {*node.input, *node.output}
        return names | self.captured

    @cached_property
    def uses(self) -> Counter[str]:
        """How often each value is read, by nodes and as an output."""
        counts = Counter(value.name for value in self.graph.output)
        for node in self.graph.node:
            counts.update(self.reads(node))
        return counts

    @cached_property
    def readers(self) -> dict[str, list[Any]]:
        """The nodes that read each value, once for each time."""
        found: dict[str, list[Any]] = {}
        for node in self.graph.node:
            for name in self.reads(node):
                found.setdefault(name, []).append(node)
        return found

    @cached_property
    def makers(self) -> dict[str, Any]:
        """The node that makes each value."""
        return {name: node for node in self.graph.node for name in node.output if name}

    @cached_property
    def aliases(self) -> dict[str, str]:
        """Values that are copies, of Identity and of Dropout at inference, and of what."""
        outputs = {value.name for value in self.graph.output}
        aliases: dict[str, str] = {}
        for node in self.graph.node:
            if node.domain not in STANDARD or node.op_type not in ("Identity", "Dropout"):
                continue
            output = node.output[0]
            if output in outputs or output in self.captured or self.constant(output) is not None:
                continue
            if any(name and self.uses[name] for name in node.output[1:]):
                continue
            if node.op_type == "Dropout" and self.may_drop(node):
                continue
            source = node.input[0]
            if self.constant(source) is None:
                aliases[output] = aliases.get(source, source)
        return aliases

    def cone(self, outputs: Iterable[str], known: Container[str] = ()) -> list[Any]:
        """Return the nodes that make ``outputs`` of ``known`` values, in the model's order.

        Copies are looked through, and constants are not computed.
        """
        wanted, found = list(outputs), set()
        while wanted:
            name = wanted.pop()
            name = self.aliases.get(name, name)
            place = self._places.get(name)
            if place is None or place in found or name in known or name in self.constant_nodes:
                continue
            found.add(place)
            wanted += self.reads(self.graph.node[place])
        return [self.graph.node[place] for place in sorted(found)]

    @cached_property
    def _places(self) -> dict[str, int]:
        nodes = enumerate(self.graph.node)
        return {name: place for place, node in nodes for name in node.output if name}

    def renamed(self, node: Any) -> Any:
        """Return a copy of a node that reads no copies of values, but these themselves."""
        copy = copied(node)
        for place, name in enumerate(copy.input):
            copy.input[place] = self.aliases.get(name, name)
        return copy

    def interface(self, read: Container[str]) -> tuple[list[Any], list[Any]]:
        """Return the inputs and the initializers of a model that reads these names.

        An initializer that a caller may replace stays, and so does its input, read or not: without
        this default, the input would be required. All other initializers are no inputs any more, as
        IR 4 allows.
        """
        mine = {tensor.name for tensor in self.graph.initializer} - self.replaceable
        inputs = [value for value in self.graph.input if value.name not in mine]
        kept = [
            tensor
            for tensor in self.graph.initializer
            if tensor.name in read or tensor.name in self.replaceable
        ]
        return inputs, kept


def fresh(name: str, taken: set[str]) -> str:
    """Return a new name like ``name``; it is taken from then on."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def named_apart(nodes: Iterable[Any], theirs: Iterable[Any]) -> None:
    """Give nodes names that neither others of them have nor ``theirs``: onnxruntime refuses two."""
    taken = {node.name for node in theirs}
    for node in nodes:
        while node.name and node.name in taken:
            node.name += "_"
        taken.add(node.name)


def copied(message: Any) -> Any:
    """Return a copy of a protobuf."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def _numbers(kind: str, arrays: list[np.ndarray]) -> float:
    """How many numbers a node reads or makes of constants, at most."""
    count = float(sum(array.size for array in arrays))
    with suppress(TypeError, ValueError):  # of wrong inputs, which it refuses itself
        if kind == "ConstantOfShape":
            return max(count, np.prod(arrays[0], dtype=np.float64))
        if kind == "Range":
            start, limit, step = (float(array.reshape(())) for array in arrays)
            return math.inf if step == 0 else max(count, (limit - start) / step)
        shapes = np.broadcast_shapes(*(array.shape for array in arrays))
        return max(count, math.prod(shapes))
    return count
