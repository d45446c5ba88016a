"""From a traced model to a graph: what is a convolution, or lies between, and what stays torch's.

Works on any `fx.Graph`, whoever traced it: modules, functions, methods and aten operators are read
alike. Values are called as fx calls its nodes. What is not understood becomes `Opaque`, with the fx
node as its payload.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import fx, nn
from torch.nn.modules.conv import _ConvNd

from winogen.errors import InvalidValue
from winogen.graph import Graph, Node, Opaque
from winogen.graph.shapes import output_shape
from winogen.torch import mutation, rows, views
from winogen.torch.calls import Translation, Untranslated, dtype, first, weight_of
from winogen.torch.code_module import collected
from winogen.torch.code_nodes import attributes, folded, held_by
from winogen.torch.codes import Coded, coded, is_coded
from winogen.torch.translate import label as node_label
from winogen.torch.translate import translate

_NO_KERNEL = "winogen has no kernel for it"


class Untraceable(Exception):
    """A model that cannot be a graph of values; says why."""


@dataclass(frozen=True)
class Stays:
    """A convolution that torch goes on to compute, and why."""

    name: str
    what: str
    why: str


@dataclass(frozen=True)
class Reading:
    """A graph, and the traced module whose nodes its Opaque operators are."""

    graph: Graph
    module: fx.GraphModule
    shapes: dict[str, tuple[int, ...]]  # of the values that are maps (N, C, H, W), or volumes
    results: Any  # the arguments of the fx output node, with names of values instead of nodes
    stays: tuple[Stays, ...] = ()


def read(
    module: fx.GraphModule,
    *,
    constants: MutableMapping[str, torch.Tensor] | None = None,
    exclude: Callable[[fx.Node], str] | None = None,
    codes: bool = True,
) -> Reading:
    """Return the graph of a traced module whose nodes know their shapes.

    All maps of the graph have one type, which most convolutions have; what computes in another
    stays torch's. ``constants``: tensors of placeholders that may be taken for weights; tensors of
    attributes are added. ``exclude`` tells for a node why it stays torch's, with "" for all others.
    ``codes``: whether what lies between quantized tensors may be computed with codes.

    Raises Untraceable for changes in place that cannot be taken apart, and for what depends on the
    memory of a tensor or may do anything.
    """
    tensors = {} if constants is None else constants
    exclude = exclude or (lambda node: "")
    kinds = Counter(
        kind for node in module.graph.nodes if (kind := convolution_kind(node, module)) is not None
    )
    kind = kinds.most_common(1)[0][0] if kinds else torch.float32
    own = _duplicate(module)
    tensors.update(attributes(own))
    found = Coded()
    if codes and is_coded(own.graph):
        found = coded(own, exclude, held_by(own))
    return _Reader(own, tensors, exclude, kind, found).read()


def convolution_kind(node: fx.Node, module: nn.Module) -> torch.dtype | None:
    """Return the type that a convolution makes; None for any other node, or if nobody noted it."""
    if convolution_of(node, module) is None:
        return None
    try:
        return dtype(node)
    except Untranslated:
        return None


def convolution_of(node: fx.Node, module: nn.Module) -> str | None:
    """Return what a node that is a convolution of any kind is called; None for any other."""
    if node.op == "call_module":
        inner = module.get_submodule(str(node.target))
        return type(inner).__name__ if isinstance(inner, _ConvNd) else None
    if node.op == "call_function":
        name = getattr(node.target, "__name__", "").partition(".")[0]
        return name if name in _CONVOLUTIONS else None
    return None


_CONVOLUTIONS = {f"conv{t}{n}d" for t in ("", "_transpose") for n in (1, 2, 3)} | {"convolution"}


def _duplicate(module: fx.GraphModule) -> fx.GraphModule:
    """A graph of its own: reading makes operations of it functional."""
    graph = fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    return fx.GraphModule(module, graph, type(module).__name__)


class _Reader:
    def __init__(
        self,
        module: fx.GraphModule,
        constants: MutableMapping[str, torch.Tensor],
        exclude: Callable[[fx.Node], str],
        kind: torch.dtype,
        codes: Coded,
    ):
        self.module, self.constants, self.exclude, self.kind = module, constants, exclude, kind
        self.codes = codes
        self.modules = dict(module.named_modules(remove_duplicate=False))
        self.value: dict[fx.Node, str] = {}  # what an fx node's tensor is called now
        self.fresh: set[str] = set()  # values whose memory nothing else looks at
        self.watched: set[str] = set()  # values that may have views
        self.steady: set[str] = set()  # values that follow from no input
        self.nodes: list[Node] = []
        self.inputs: list[str] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.stays: list[Stays] = []
        self.views: dict[str, views.View] = {}  # values that hold a map with its axes elsewhere
        self.pixels: set[str] = set()  # maps of a single pixel, whatever the sizes of the inputs

    def read(self) -> Reading:
        results: Any = None
        for node in self.module.graph.nodes:
            shape = map_shape(node)
            if shape is not None and dtype(node) == self.kind:
                self.shapes[node.name] = shape
            if node.op == "placeholder":
                self.inputs.append(node.name)
                self.value[node] = node.name
            elif node in self.codes.made:
                self.nodes += self.codes.made[node]
                self.value[node] = node.name
                self.fresh.add(node.name)
            elif node in self.codes.inner:
                continue
            elif node.op == "output":
                results = fx.map_arg(node.args[0], lambda n: _Name(self.value[n]))
            else:
                self._read(node)
        outputs: list[str] = []
        _names(results, outputs)
        graph = Graph(self.inputs, self._read_by_any(outputs), dict.fromkeys(outputs))
        if self.codes.made:
            graph = collected(graph.without_dead(), self.codes)
        return Reading(graph, self.module, self.shapes, results, tuple(self.stays))

    def _read_by_any(self, outputs: Collection[str]) -> list[Node]:
        """The nodes without torch's unread ones, if being read is all that they are for.

        What a graph reads in one operator was several of torch's, the first of which are left.
        """
        needed, kept = set(outputs), []
        for node in reversed(self.nodes):
            payload = node.op.payload
            if payload is None or payload.is_impure() or needed.intersection(node.outputs):
                kept.append(node)
                needed.update(node.reads)
        return kept[::-1]

    def _read(self, node: fx.Node) -> None:
        self._fold(node)
        if all(self.value[before] in self.steady for before in node.all_input_nodes):
            self.steady.add(node.name)
        changed = mutation.changed_by(node, self.modules)
        if not mutation.is_known(node):
            raise Untraceable(f"{node.format_node()} may do anything")
        if mutation.looks_at_memory(node):
            raise Untraceable(f"{node.format_node()} looks at how a tensor lies in memory")
        reason = "" if node.op == "get_attr" else self.exclude(node)
        try:
            if node.op == "get_attr" or reason:
                raise Untranslated(reason)
            if not self._through_view(node):
                self._translated(node, self._translation(node))
        except Untranslated as problem:
            self._opaque(node, changed)
            self._open(node)
            what = convolution_of(node, self.module)
            if what is not None:
                label = str(node.target) if node.op == "call_module" else node_label(node)
                why = str(problem) or self.codes.refusals.get(node.name, _NO_KERNEL)
                self.stays.append(Stays(label, what, why))
        if changed is not None:
            self._rename(node, changed)

    def _fold(self, node: fx.Node) -> None:
        """Keep what a node makes of a constant: by other sizes of it, or as numbers of codes."""
        numbers = folded(node, self.constants)
        if numbers is not None:
            self.constants[node.name] = numbers
        if node.op != "call_method" or node.target not in ("view", "reshape", "unsqueeze"):
            return
        tensor = weight_of(node.args[0], self.constants)
        if tensor is not None and len(node.all_input_nodes) == 1:
            self.constants[node.name] = getattr(tensor, node.target)(*node.args[1:], **node.kwargs)

    def _translation(self, node: fx.Node) -> Translation:
        """What becomes of a node, if its types and its shape are what the trace has seen."""
        translation = translate(node, self.modules, self.constants, self.shapes)
        self._check(node, translation, self.shapes, self.shapes.get(node.name))
        return translation

    def _check(
        self,
        node: fx.Node,
        translation: Translation,
        known: Mapping[str, tuple[int, ...]],
        made: tuple[int, ...] | None,
    ) -> None:
        """Raise Untranslated if types or shapes, ``known`` and ``made``, are not as was seen."""
        model_dtype = np.dtype(str(self.kind).removeprefix("torch."))
        for op in translation.ops:
            if any(array.dtype != model_dtype for array in op.parameters):
                raise Untranslated(f"its weights are not of {model_dtype}, as most others are")
        shapes = [known.get(one.name) for one in translation.inputs]
        if None in shapes or made is None:
            raise Untranslated("its input has neither 4 axes nor 5")
        steady = [self.value[one] in self.steady for one in translation.inputs]
        if any(op.inputs.start > 1 for op in translation.ops) and any(steady):
            raise Untranslated("a constant may be repeated for every image of a batch")
        if self._shape(translation, shapes) != tuple(made):
            raise Untranslated("its output has another shape")

    def _shape(self, translation: Translation, known: Sequence[Any]) -> tuple[int, ...]:
        shape = tuple(known[0])
        for place, op in enumerate(translation.ops):
            others = [tuple(one) for one in known[1:]] if place == len(translation.ops) - 1 else []
            names = tuple(str(i) for i in range(1 + len(others)))
            try:
                shape = output_shape(Node(op, names, ("y",)), [shape, *others])
            except InvalidValue:
                raise Untranslated("its shapes do not fit") from None
        return shape

    # ---- maps with their axes elsewhere ----------------------------------------------------------

    def _through_view(self, node: fx.Node) -> bool:
        """Read a node of tensors that hold maps in one form; whether it is one."""
        tensors = [one for one in node.all_input_nodes if one.name not in self.constants]
        tensors = [one for one in tensors if map_shape(one) is not None]
        if len(tensors) == 1 and rows.begins(node, self.modules):
            self._begin_row(tensors[0])
        held = {one: self.views.get(self.value[one]) for one in tensors}
        first = next(iter(held.values()), None)
        if first is None or any(view is None or view.form != first.form for view in held.values()):
            return False
        shapes = {one.name: self.shapes[view.map] for one, view in held.items() if view}
        made, x, form = map_shape(node), self.shapes[first.map], first.form
        if made is None or dtype(node) != self.kind:
            return False
        if len(held) == 1 and views.closed(node, self.modules, form, made, x):
            self.watched.update(self.value[one] for one in held)  # a view
            self.value[node] = first.map
            return True
        alone = len(held) == 1 and (form != "row" or first.map in self.pixels)
        other = views.reshaped(node, self.modules, form, made, x) if alone else ""
        if other:
            self._opaque(node, None)
            self.views[node.name] = views.View(first.map, other)
            return True
        found = views.inside(node, form, views.Inside(self.modules, self.constants, shapes))
        axes = (0, views.FORMS[form].axis)
        expected = (
            x if not found.ops else self._shape(found, [shapes[n.name] for n in found.inputs])
        )
        there, wanted = [made[axis] for axis in axes], [*expected[:2]]
        if form == "row":
            there, wanted = [*there, made[2]], [*wanted, expected[3]]
        if there != wanted:
            raise Untranslated("its output has another shape")
        self._check(node, found, shapes, expected)
        if not found.ops:
            self.value[node] = self.value[found.inputs[0]]
            return True
        names = [held[one].map for one in found.inputs]  # type: ignore[union-attr]
        self._made(node, found, names, f"{node.name}.{form}")
        self._held(node, form)
        return True

    def _begin_row(self, signal: fx.Node) -> None:
        """Enter the map of a signal that is none yet."""
        name, shape = self.value[signal], map_shape(signal)
        if name in self.views or shape is None or len(shape) != 3 or dtype(signal) != self.kind:
            return
        made = f"{name}_row"
        self.nodes.append(Node(Opaque(made, views.row(made)), (name,), (made,), made))
        self.shapes[made] = (*shape[:2], 1, shape[2])
        self.watched.add(name)
        self.views[name] = views.View(made, "row")

    def _held(self, node: fx.Node, form: str) -> None:
        """Enter the tensor of a node: it holds the newest map."""
        last = self.nodes[-1].output
        op = Opaque(node.name, views.payload(node.name, form))
        self.nodes.append(Node(op, (last,), (node.name,), node.name))
        self.value[node] = node.name
        self.fresh.add(node.name)
        self.views[node.name] = views.View(last, form)

    def _open(self, node: fx.Node) -> None:
        """Enter a tensor of torch's if it holds a map."""
        source = first(node)
        shape = map_shape(node)
        if not isinstance(source, fx.Node) or shape is None or len(node.all_input_nodes) > 2:
            return
        name = self.value[source]
        x = self.shapes.get(name)
        if x is None or name in self.views or dtype(source) != self.kind:
            return
        form = views.opened(node, self.modules, shape, x)
        if form == "last" or (form and name in self.pixels):
            self.views[node.name] = views.View(name, form)

    def _made(
        self, node: fx.Node, translation: Translation, names: Sequence[str], output: str
    ) -> None:
        """Enter the operators that make a map of others."""
        for place, op in enumerate(translation.ops):
            last = place == len(translation.ops) - 1
            name = output if last else f"{output}.{place}"
            # Operators follow each other; the last takes all other inputs, too.
            reads = (names[:1] if not last else names) if not place else [
                self.nodes[-1].output, *(names[1:] if last else [])
            ]  # fmt: skip
            made = Node(op, tuple(reads), (name,), translation.label)
            shape = output_shape(made, [self.shapes[one] for one in reads])
            if op.is_global or (self.pixels.issuperset(reads) and set(shape[2:]) == {1}):
                self.pixels.add(name)
            self.shapes[name] = shape
            self.nodes.append(made)

    def _translated(self, node: fx.Node, translation: Translation) -> None:
        names = [self.value[n] for n in translation.inputs]
        if not translation.ops:  # the tensor itself
            self.value[node] = names[0]
            return
        self._made(node, translation, names, node.name)
        self.value[node] = node.name
        if translation.ops[-1].view is not None:
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


def excluding(names: Collection[Any], modules: Mapping[str, nn.Module]) -> Callable[[fx.Node], str]:
    """Return what tells why a node stays torch's: it belongs to modules of these names or types."""
    texts = [name for name in names if isinstance(name, str)]
    types = tuple(name for name in names if isinstance(name, type))

    def excluded(node: fx.Node) -> str:
        places = [str(node.target)] if node.op == "call_module" else []
        stack = node.meta.get("nn_module_stack") or {}
        for entry in stack.values():
            path = entry[0] if isinstance(entry, tuple) else ""
            places.append(path.removeprefix("L['self'].").removeprefix("L['self']"))
        for place in places:
            if any(place == text or place.startswith(f"{text}.") for text in texts):
                return "excluded"
            if types and isinstance(modules.get(place), types):
                return "excluded"
        return ""

    return excluded
