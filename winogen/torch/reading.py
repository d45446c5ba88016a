"""From a traced model to a graph: what is a convolution, or lies between, and what stays torch's.

Works on any `fx.Graph`, whoever traced it: modules, functions, methods and aten operators are read
alike. Values are called as fx calls its nodes. What is not understood becomes `Opaque`, with the fx
node as its payload.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import fx, nn

from winogen.graph import Graph, Node, Opaque, Slice
from winogen.torch import mutation
from winogen.torch.calls import Translation, Untranslated
from winogen.torch.translate import translate


class Untraceable(Exception):
    """A model that cannot be a graph of values; says why."""


@dataclass(frozen=True)
class Reading:
    """A graph, and the traced module whose nodes its Opaque operators are."""

    graph: Graph
    module: fx.GraphModule
    shapes: dict[str, tuple[int, ...]]  # of the values that are maps (N, C, H, W)
    results: Any  # the arguments of the fx output node, with names of values instead of nodes


def read(
    module: fx.GraphModule,
    *,
    constants: MutableMapping[str, torch.Tensor] | None = None,
    exclude: Callable[[fx.Node], bool] | None = None,
) -> Reading:
    """Return the graph of a traced module whose nodes know their shapes.

    ``constants``: tensors of placeholders that may be taken for weights; those of attributes are
    added. ``exclude`` says which
    nodes stay torch's. Raises Untraceable for changes in place that cannot be taken apart.
    """
    tensors = {} if constants is None else constants
    return _Reader(module, tensors, exclude or (lambda node: False)).read()


class _Reader:
    def __init__(
        self,
        module: fx.GraphModule,
        constants: MutableMapping[str, torch.Tensor],
        exclude: Callable[[fx.Node], bool],
    ):
        self.module, self.constants, self.exclude = module, constants, exclude
        self.modules = dict(module.named_modules(remove_duplicate=False))
        self.value: dict[fx.Node, str] = {}  # what an fx node's tensor is called now
        self.fresh: set[str] = set()  # values whose memory nothing else looks at
        self.watched: set[str] = set()  # values that may have views
        self.nodes: list[Node] = []
        self.inputs: list[str] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.alternatives = 0

    def read(self) -> Reading:
        results: Any = None
        for node in self.module.graph.nodes:
            shape = map_shape(node)
            if shape is not None:
                self.shapes[node.name] = shape
            if node.op == "placeholder":
                self.inputs.append(node.name)
                self.value[node] = node.name
            elif node.op == "output":
                results = fx.map_arg(node.args[0], lambda n: _Name(self.value[n]))
            else:
                self._read(node)
        outputs: list[str] = []
        _names(results, outputs)
        graph = Graph(self.inputs, self.nodes, dict.fromkeys(outputs))
        return Reading(graph, self.module, self.shapes, results)

    def _read(self, node: fx.Node) -> None:
        if node.op == "get_attr":
            tensor = _attribute(self.module, str(node.target))
            if isinstance(tensor, torch.Tensor):
                self.constants[node.name] = tensor
        translation = None
        if node.op != "get_attr" and not self.exclude(node):
            try:
                translation = translate(node, self.modules, self.constants, self.shapes)
            except Untranslated:
                translation = None
        changed = mutation.changed_by(node, self.modules)
        if translation is None:
            self._opaque(node, changed)
        else:
            self._translated(node, translation)
        if changed is not None:
            self._rename(node, changed)

    def _translated(self, node: fx.Node, translation: Translation) -> None:
        names = [self.value[n] for n in translation.inputs]
        if not translation.ops:  # the tensor itself
            self.value[node] = names[0]
            return
        for place, op in enumerate(translation.ops):
            last = place == len(translation.ops) - 1
            output = node.name if last else f"{node.name}.{place}"
            # Operators follow each other; the last takes all other inputs, too.
            reads = (names[:1] if not last else names) if not place else [
                self.nodes[-1].output, *(names[1:] if last else [])
            ]  # fmt: skip
            self.nodes.append(Node(op, tuple(reads), (output,), translation.label))
        self.value[node] = node.name
        if isinstance(translation.ops[-1], Slice):  # a view
            self.watched.update(names)
        else:
            self.fresh.add(node.name)

    def _opaque(self, node: fx.Node, changed: fx.Node | None) -> None:
        if changed is not None and not mutation.made_functional(node, self.modules):
            raise Untraceable(f"{node.format_node()} changes a tensor in place")
        reads = tuple(self.value[n] for n in node.all_input_nodes)
        self.nodes.append(Node(Opaque(node.name, node), reads, (node.name,), str(node.target)))
        self.value[node] = node.name
        if mutation.is_fresh(node, self.modules):
            self.fresh.add(node.name)
        else:
            self.watched.update(reads)

    def _rename(self, node: fx.Node, changed: fx.Node) -> None:
        """Whoever reads the changed tensor from here on reads the result."""
        old = self.value[changed]
        if old == self.value[node]:
            return
        if old not in self.fresh or old in self.watched:
            raise Untraceable(f"{node.format_node()} changes a tensor that others may look at")
        for other, name in self.value.items():
            if name == old:
                self.value[other] = self.value[node]


class _Name(str):
    """The name of a value, among other things that a model may return."""


def _names(results: Any, found: list[str]) -> None:
    if isinstance(results, _Name):
        found.append(str(results))
    elif isinstance(results, (tuple, list)):
        for item in results:
            _names(item, found)
    elif isinstance(results, dict):
        for item in results.values():
            _names(item, found)
    elif isinstance(results, slice):
        _names((results.start, results.stop, results.step), found)


def replaced(results: Any, nodes: Mapping[str, fx.Node]) -> Any:
    """Return what a model returns, with nodes instead of names of values."""
    if isinstance(results, _Name):
        return nodes[str(results)]
    if isinstance(results, (tuple, list)):
        items = [replaced(item, nodes) for item in results]
        if hasattr(results, "_fields"):
            return type(results)(*items)
        return tuple(items) if isinstance(results, tuple) else items
    if isinstance(results, dict):
        return {key: replaced(item, nodes) for key, item in results.items()}
    return results


def map_shape(node: fx.Node) -> tuple[int, ...] | None:
    """Return the shape of a node's tensor of numbers, whoever noted it; None for anything else."""
    for key in ("val", "example_value"):
        tensor = node.meta.get(key)
        if isinstance(tensor, torch.Tensor):
            return tuple(tensor.shape) if tensor.dtype in _FLOATS else None
    noted = node.meta.get("tensor_meta")
    if noted is not None and hasattr(noted, "dtype") and noted.dtype in _FLOATS:
        return tuple(noted.shape)
    return None


_FLOATS = (torch.float32, torch.float64)


def _attribute(module: nn.Module, path: str) -> Any:
    value: Any = module
    for name in path.split("."):
        value = getattr(value, name)
    return value


def excluding(
    names: Collection[Any], modules: Mapping[str, nn.Module]
) -> Callable[[fx.Node], bool]:
    """Return what tells whether a node belongs to a module of these names or types."""
    texts = [name for name in names if isinstance(name, str)]
    types = tuple(name for name in names if isinstance(name, type))

    def excluded(node: fx.Node) -> bool:
        places = [str(node.target)] if node.op == "call_module" else []
        stack = node.meta.get("nn_module_stack") or {}
        for entry in stack.values():
            path = entry[0] if isinstance(entry, tuple) else ""
            places.append(path.removeprefix("L['self'].").removeprefix("L['self']"))
        for place in places:
            if any(place == text or place.startswith(f"{text}.") for text in texts):
                return True
            if types and isinstance(modules.get(place), types):
                return True
        return False

    return excluded


def numbers(tensor: torch.Tensor) -> np.ndarray:
    """Return a tensor's numbers as a contiguous array that nobody else writes."""
    return np.array(tensor.detach().contiguous().numpy(), order="C")
