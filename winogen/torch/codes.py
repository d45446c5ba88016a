"""Quantize and dequantize of an exported model: what between them computes with codes.

PyTorch's quantizers write a float graph whose tensors go through ``quantize_per_tensor`` and
``dequantize_per_tensor`` of ``torch.ops.quantized_decomposed``. What makes a quantized tensor, down
to the dequantized ones that it reads, is one operator of codes, as for ONNX: a convolution or a
linear layer with what follows, a sum, a pool. Sums are exact and rounded once, so that a code may
differ by one step from the float graph's, near halves. Codes of uint8 have 128 less here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
import torch
from torch import fx

from winogen.conv.quantization import QuantizedFilters
from winogen.errors import WinogenError
from winogen.graph import Node, QConv
from winogen.graph.ops import (
    Concat,
    Lookup,
    Operator,
    QAdd,
    QGlobalMean,
    QMean,
    ScaleSums,
    Shape,
)
from winogen.graph.ops.quantized import HIGHEST, LOWEST, After
from winogen.torch.calls import Untranslated
from winogen.torch.code_nodes import (
    ACTIVATIONS,
    CHOOSING,
    CONVOLUTIONS,
    DEQUANTIZE,
    JOINS,
    MEANS,
    PRODUCTS,
    QUANTIZE,
    RENAMING,
    SUMS,
    TRANSPOSED,
    Meaning,
    Uncoded,
    as_map,
    cut_of,
    filters_of,
    is_same,
    kind_of,
    meaning_of,
    named,
    of_transposed,
    phases_of,
    shape_of,
    window_of,
)
from winogen.torch.translate import label as label_of

# Why a tensor stays torch's: arguments that are given in another way are a doubt, too.
_DOUBTS = (Uncoded, Untranslated, WinogenError, IndexError, KeyError, TypeError, ValueError)


@dataclass
class Coded:
    """What of a trace computes with codes."""

    made: dict[fx.Node, list[Node]] = field(default_factory=dict)  # by the node whose tensor it is
    inner: set[fx.Node] = field(default_factory=set)  # nodes that nobody needs beside these
    dtypes: dict[str, str] = field(default_factory=dict)  # of values of codes, in torch
    ranks: dict[str, int] = field(default_factory=dict)  # axes of the tensors, of all values
    refusals: dict[str, str] = field(default_factory=dict)  # of layers that stay, by their nodes
    # Of what joins maps, by its value: what becomes of the codes of parts, by their places.
    tables: dict[str, dict[int, Lookup]] = field(default_factory=dict)


def is_coded(graph: fx.Graph) -> bool:
    """Return whether a graph quantizes tensors."""
    return any(kind_of(node) for node in graph.nodes)


def coded(
    module: fx.GraphModule, exclude: Callable[[fx.Node], str], held: Mapping[str, torch.Tensor]
) -> Coded:
    """Return what of a traced module computes with codes.

    ``exclude`` tells for a node why it stays torch's. ``held``: the tensors of attributes, and what
    quantizers' nodes make of these, by the names of nodes.
    """
    return _CodeReader(exclude, held).read(module.graph)


class _CodeReader:
    """All that is found while a trace is read, its quantized tensors in their order."""

    def __init__(self, exclude: Callable[[fx.Node], str], held: Mapping[str, torch.Tensor]):
        self.exclude, self.held, self.found = exclude, held, Coded()
        self.meanings: dict[fx.Node, Meaning] = {}  # of quantized tensors
        # The value that holds a quantized tensor as a map, and the shape of that map.
        self.maps: dict[fx.Node, tuple[str, Shape]] = {}

    def read(self, graph: fx.Graph) -> Coded:
        for node in graph.nodes:
            if kind_of(node) == QUANTIZE and node.name not in self.held:
                self._quantized(node)
        for node in graph.nodes:
            if node.target in (*CONVOLUTIONS, *PRODUCTS) and node not in self.found.inner:
                self._numbers(node)
        return self.found

    def _quantized(self, node: fx.Node) -> None:
        try:
            meaning = self.meanings[node] = meaning_of(node, self.held)
            shape = shape_of(node)
            self.maps[node] = node.name, as_map(shape)
        except Uncoded:
            return
        self.found.dtypes[node.name] = meaning.dtype
        self.found.ranks[node.name] = len(shape)
        try:
            inner, nodes = self._maker(node, meaning)
        except _DOUBTS:
            return
        if any(self.exclude(one) for one in (node, *inner)):
            return
        if nodes:
            self.found.made[node] = nodes
            self.found.inner |= {one for one in inner if not kind_of(one)}

    def _numbers(self, node: fx.Node) -> None:
        """A convolution of codes whose output stays numbers: its sums, scaled."""
        try:
            op, x, bias, steps = self._sums(node)
        except _DOUBTS as reason:
            self.found.refusals[node.name] = str(reason)
            return
        if self.exclude(node):
            return
        bias = np.zeros(len(steps), np.float32) if bias is None else bias
        label, sums = label_of(node), f"{node.name}.sums"
        self.found.made[node] = [
            Node(op, (x,), (sums,), label),
            Node(ScaleSums(steps, bias), (sums,), (node.name,), label),
        ]
        self.found.dtypes[node.name] = "float32"
        self.found.ranks[node.name] = len(shape_of(node))

    # ---- what makes a quantized tensor -----------------------------------------------------------

    def _maker(self, node: fx.Node, meaning: Meaning) -> tuple[list[fx.Node], list[Node]]:
        """The nodes of torch's that are not needed any more, and the operators in their place."""
        source, inner, ends = node.args[0], list[fx.Node](), (-np.inf, np.inf)
        choices: list[fx.Node] = []  # of numbers that nobody quantizes before: codes do as well
        while isinstance(source, fx.Node):
            cut = cut_of(source)
            if cut is not None:
                ends = max(ends[0], cut[0]), min(ends[1], max(cut[1], ends[0]))
            elif source.target in CHOOSING and kind_of(source.args[0]) != DEQUANTIZE:
                choices.insert(0, source)
            else:
                break
            self._only(source, inner)
            source = source.args[0]
        if not isinstance(source, fx.Node):
            raise Uncoded("it is no tensor")
        if not choices:
            return inner, self._made(node, source, inner, meaning, ends)
        if source.target in RENAMING or kind_of(source):
            raise Uncoded("it chooses among numbers of other codes")
        nodes, name = self._made(node, source, inner, meaning, ends), f"{node.name}.made"
        nodes[-1] = replace(nodes[-1], outputs=(name,))
        self.found.tables[name] = self.found.tables.pop(node.name, {})
        for number, choice in enumerate(choices, 1):
            op, reads = self._choice(choice), nodes[-1].outputs
            made = node.name if number == len(choices) else f"{name}{number}"
            nodes.append(Node(op, reads, (made,), label_of(choice)))
        return inner, nodes

    def _choice(self, source: fx.Node) -> Operator:
        op = CHOOSING[source.target](source)
        if op.output([as_map(shape_of(source.args[0]))]) != as_map(shape_of(source)):
            raise Uncoded("its output has another shape")
        return op

    def _made(
        self,
        node: fx.Node,
        source: fx.Node,
        inner: list[fx.Node],
        meaning: Meaning,
        ends: tuple[float, float],
    ) -> list[Node]:
        """The operators that make codes of what one of torch's makes of others."""
        after = meaning.after.cut(*ends)
        if source.target in RENAMING or kind_of(source):
            return self._renamed(node, source, inner, after)
        self._only(source, inner)
        if source.target in (*CONVOLUTIONS, *PRODUCTS):
            return [self._convolution(node, source, meaning, ends)]
        if source.target is TRANSPOSED:
            return self._transposed(node, source, meaning, ends)
        if source.target in SUMS:
            return [self._total(node, source, inner, meaning, ends)]
        if source.target is JOINS:
            return [self._joined(node, source, after)]
        x, here, _ = self._read(source.args[0])
        if source.target in MEANS:
            window = MEANS[source.target](source)
            mean = QGlobalMean(here.codes, after)
            op = QMean(here.codes, after, **window) if window else mean
            return [Node(op, (x,), (node.name,), label_of(source))]
        if source.target not in CHOOSING:
            raise Uncoded("it computes with numbers that are no codes")
        chosen = node.name if is_same(here, after) else f"{node.name}.chosen"
        nodes = [Node(self._choice(source), (x,), (chosen,), label_of(source))]
        if chosen != node.name:
            recoding = Lookup.recoding(here.codes, after)
            nodes.append(Node(recoding, (chosen,), (node.name,), label_of(source)))
        return nodes

    def _renamed(
        self, node: fx.Node, source: fx.Node, inner: list[fx.Node], after: After
    ) -> list[Node]:
        """Codes of other codes, of a tensor of the same numbers in other axes or not."""
        while source.target in RENAMING:
            self._only(source, inner)
            if shape_of(source)[:1] != shape_of(source.args[0])[:1]:
                raise Uncoded("it moves numbers between images")
            source = source.args[0]
        x, here, shape = self._read(source, True)
        wanted = shape_of(node)
        if shape != as_map(wanted) and len(wanted) != 2:
            raise Uncoded("its numbers are in other axes")
        if is_same(here, after):
            self.maps[node] = x, shape
            return []
        if shape != as_map(wanted):
            raise Uncoded("other codes of other axes")
        return [Node(Lookup.recoding(here.codes, after), (x,), (node.name,), label_of(node))]

    def _total(
        self,
        node: fx.Node,
        source: fx.Node,
        inner: list[fx.Node],
        meaning: Meaning,
        ends: tuple[float, float],
    ) -> Node:
        """A sum of two tensors of codes, or of one and a convolution, which takes it in."""
        if source.kwargs.get("alpha", 1) != 1 or len(source.args) != 2:
            raise Uncoded("it scales what it adds")
        one, other = source.args
        for conv, rest in ((one, other), (other, one)):
            if isinstance(conv, fx.Node) and conv.target in CONVOLUTIONS:
                self._only(conv, inner)
                return self._convolution(node, conv, meaning, ends, rest)
        (x, here, shape), (z, there, more) = self._read(one), self._read(other)
        if shape != more:
            raise Uncoded("one of them is repeated")
        after = meaning.after.cut(*ends)
        op = QAdd(here.codes, there.codes, after)
        return Node(op, (x, z), (node.name,), label_of(source))

    def _joined(self, node: fx.Node, source: fx.Node, after: After) -> Node:
        """Maps one behind the other along the channels."""
        given = {"dim": 0, **named(source, "tensors dim")}
        if given["dim"] not in (1, 1 - len(shape_of(node))):
            raise Uncoded("it joins along another axis than that of channels")
        parts = [self._read(one) for one in given["tensors"]]
        self.found.tables[node.name] = {
            place: Lookup.recoding(here.codes, after)
            for place, (_, here, _) in enumerate(parts)
            if not is_same(here, after)
        }
        return Node(Concat(), tuple(x for x, *_ in parts), (node.name,), label_of(source))

    def _transposed(
        self, node: fx.Node, conv: fx.Node, meaning: Meaning, ends: tuple[float, float]
    ) -> list[Node]:
        """A transposed convolution: one of all phases, whose channels are spread over pixels."""
        made, options = self._convolution(node, conv, meaning, ends), phases_of(conv)
        sizes = (options[name] for name in ("stride", "padding", "output_padding"))
        assert isinstance(made.op, QConv)
        op, spread = made.op.transposed(*sizes)
        if spread is None:
            return [replace(made, op=op)]
        phases = (f"{node.name}.phases",)
        spreading = Node(spread, phases, made.outputs, made.label)
        return [replace(made, op=op, outputs=phases), spreading]

    def _convolution(
        self,
        node: fx.Node,
        conv: fx.Node,
        meaning: Meaning,
        ends: tuple[float, float],
        rest: Any = None,
    ) -> Node:
        op, x, bias, steps = self._sums(conv)
        activation = ACTIVATIONS.get(ends, "")
        if activation == "":
            raise Uncoded(f"it cuts off numbers at {ends[0]:g} and {ends[1]:g}")
        counted = None
        if bias is not None:
            sums = np.rint(bias.astype(np.float64) / steps)
            if not (np.abs(sums) < 2**31).all():
                raise Uncoded("its bias does not fit 32 bits")
            counted = sums.astype(np.int32)
        codes, reads, z = meaning.codes, [x], None
        if rest is not None:
            added, there, shape = self._read(rest)
            if shape != as_map(shape_of(conv)):
                raise Uncoded("what it adds is repeated")
            reads, z = [x, added], there.codes
        after = meaning.after
        made = QConv(
            op.weight, counted, "int8", op.x_zero, op.w_zero, op.x_scale, op.w_scale,
            np.asarray(codes.scale, np.float32), codes.zero, "int8", op.stride, op.padding,
            op.dilation, op.groups, activation, (after.lowest, after.highest), z,
        )  # fmt: skip
        filters = QuantizedFilters.of(made.weight, made.w_zero, made.bias)
        filters.check_sums(LOWEST - made.x_zero, HIGHEST - made.x_zero)
        return Node(made, tuple(reads), (node.name,), label_of(conv))

    def _sums(self, conv: fx.Node) -> tuple[QConv, str, np.ndarray | None, np.ndarray]:
        """A convolution without its bias, what it reads, that, and what a step of a sum is."""
        x, here, shape = self._read(conv.args[0], conv.target in PRODUCTS)
        options: dict[str, Any] = {}
        filters = filters_of(conv.args[1], self.held, int(conv.target is TRANSPOSED))
        if conv.target is TRANSPOSED:
            options = {name: phases_of(conv)[name] for name in ("groups", "dilation")}
            filters = of_transposed(filters, options["groups"])
        weight = filters.weight
        if conv.target in PRODUCTS:
            if weight.ndim != 2 or weight.shape[1] != prod(shape[1:]):
                raise Uncoded("it multiplies along an axis of several")
            weight = np.ascontiguousarray(weight).reshape(len(weight), *shape[1:])
        elif conv.target in CONVOLUTIONS:
            options = window_of(conv, weight)
        bias = self._constant(conv.args[2]) if len(conv.args) > 2 and conv.args[2] else None
        x_scale = np.asarray(here.codes.scale, np.float32)
        steps = np.broadcast_to(x_scale * filters.scale.reshape(-1), len(weight))
        op = QConv(
            weight, None, "int8", here.codes.zero, filters.zero, x_scale, filters.scale, **options
        )
        checked = QuantizedFilters.of(weight, filters.zero, None)
        checked.check_sums(LOWEST - here.codes.zero, HIGHEST - here.codes.zero)
        return op, x, bias, np.ascontiguousarray(steps, np.float32)

    # ---- what is read ----------------------------------------------------------------------------

    def _only(self, node: fx.Node, inner: list[fx.Node]) -> None:
        if len(node.users) != 1:
            raise Uncoded("it is read as numbers, too")
        inner.append(node)

    def _read(self, source: Any, flat: bool = False) -> tuple[str, Meaning, Shape]:
        """The value of a dequantized tensor, what its codes mean, and its shape as a map.

        ``flat``: whether the tensor may have all numbers of an image along one axis.
        """
        coded = source.args[0] if kind_of(source) == DEQUANTIZE else None
        if not isinstance(coded, fx.Node) or coded not in self.maps:
            raise Uncoded("it reads what is not quantized")
        here, there = self.meanings[coded], meaning_of(source, self.held)
        if here.codes != there.codes or here.dtype != there.dtype:
            raise Uncoded("its codes are read with another meaning")
        value, shape = self.maps[coded]
        if not flat and shape != as_map(shape_of(source)):
            raise Uncoded("its numbers are an image's along one axis")
        return value, here, shape

    def _constant(self, value: Any) -> np.ndarray:
        tensor = self.held.get(getattr(value, "name", ""))
        if tensor is None or tensor.dtype != torch.float32:
            raise Uncoded("its numbers may change from call to call")
        array: np.ndarray = tensor.detach().numpy()
        return array
