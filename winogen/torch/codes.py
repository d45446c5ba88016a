"""Quantize and dequantize of an exported model: what between them computes with codes.

PyTorch's quantizers write a float graph whose tensors go through ``quantize_per_tensor`` and
``dequantize_per_tensor`` of ``torch.ops.quantized_decomposed``. What makes a quantized tensor, down
to the dequantized ones that it reads, is one operator of codes, as for ONNX: a convolution or a
linear layer with what follows, a sum, a pool. Sums are exact and rounded once, so that a code may
differ by one step from the float graph's, near halves. Codes of uint8 have 128 less here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import fx

from winogen.conv.quantization import RANGES, QuantizedFilters
from winogen.errors import WinogenError
from winogen.graph import MaxPool, Node, QConv
from winogen.graph.ops import Codes, Lookup, QAdd, QGlobalMean, QMean, ScaleSums, Shape
from winogen.graph.ops.quantized import HIGHEST, LOWEST, After
from winogen.torch.calls import Untranslated, per_axis
from winogen.torch.translate import label as label_of

aten = torch.ops.aten
NAMESPACE = "quantized_decomposed"
_QUANTIZE, _DEQUANTIZE = "quantize_per_tensor", "dequantize_per_tensor"
_OF_CHANNELS = "dequantize_per_channel"
_ORDER = "input scale zero_point quant_min quant_max dtype".split()
_CHANNEL_ORDER = "input scale zero_point axis quant_min quant_max dtype".split()
# What computes nothing of codes, as long as the numbers of an image stay in their order.
_RENAMING = (aten.flatten.using_ints, aten.view.default, aten.reshape.default)
_SAME = (aten.clone.default, aten.contiguous.default, aten.alias.default)


class Refused(Exception):
    """Why a tensor stays torch's."""


class Meaning(NamedTuple):
    """What a quantized tensor is: its codes here, their ends, and its type in torch."""

    after: After
    dtype: str

    @property
    def codes(self) -> Codes:
        return self.after.codes


class Filters(NamedTuple):
    """Weights as codes: (M, C/groups, KH, KW) or (M, C), their scales and zero points."""

    weight: np.ndarray
    scale: np.ndarray
    zero: np.ndarray | int


@dataclass
class Coded:
    """What of a trace computes with codes."""

    made: dict[fx.Node, list[Node]] = field(default_factory=dict)  # by the node whose tensor it is
    inner: set[fx.Node] = field(default_factory=set)  # nodes that nobody needs beside these
    dtypes: dict[str, str] = field(default_factory=dict)  # of values of codes, in torch
    ranks: dict[str, int] = field(default_factory=dict)  # axes of the tensors, of all values
    refusals: dict[str, str] = field(default_factory=dict)  # of layers that stay, by their nodes


def kind_of(node: Any) -> str:
    """Return what a node of the quantizers' operators is called; "" for any other."""
    target = getattr(node, "target", None)
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != NAMESPACE:
        return ""
    return str(target._schema.name).partition("::")[2]


def is_coded(graph: fx.Graph) -> bool:
    """Return whether a graph quantizes tensors."""
    return any(kind_of(node) for node in graph.nodes)


def folded(node: fx.Node, held: Mapping[str, torch.Tensor]) -> torch.Tensor | None:
    """Return the tensor that a quantizer's node makes of ``held`` ones; None for any other node."""
    if not kind_of(node) or any(one.name not in held for one in node.all_input_nodes):
        return None
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda one: held[one.name])
    with torch.no_grad():
        made: torch.Tensor = node.target(*args, **kwargs)  # type: ignore[operator]
    return made


def coded(
    module: fx.GraphModule, exclude: Callable[[fx.Node], str], held: Mapping[str, torch.Tensor]
) -> Coded:
    """Return what of a traced module computes with codes.

    ``exclude`` tells for a node why it stays torch's. ``held``: the tensors of attributes, and what
    quantizers' nodes make of these, by the names of nodes.
    """
    return _Reader(exclude, held).read(module.graph)


class _Reader:
    def __init__(self, exclude: Callable[[fx.Node], str], held: Mapping[str, torch.Tensor]):
        self.exclude, self.held, self.found = exclude, held, Coded()
        self.meanings: dict[fx.Node, Meaning] = {}  # of quantized tensors
        # The value that holds a quantized tensor as a map, and the shape of that map.
        self.maps: dict[fx.Node, tuple[str, Shape]] = {}

    def read(self, graph: fx.Graph) -> Coded:
        for node in graph.nodes:
            if kind_of(node) == _QUANTIZE and node.name not in self.held:
                self._quantized(node)
        for node in graph.nodes:
            if node.target in (*_CONVOLUTIONS, *_PRODUCTS) and node not in self.found.inner:
                self._numbers(node)
        return self.found

    def _quantized(self, node: fx.Node) -> None:
        try:
            meaning = self.meanings[node] = _meaning(node, self.held)
        except Refused:
            return
        shape = _shape_of(node)
        self.maps[node] = node.name, _as_map(shape)
        self.found.dtypes[node.name] = meaning.dtype
        self.found.ranks[node.name] = len(shape)
        try:
            inner, nodes = self._maker(node, meaning)
        except (Refused, Untranslated, WinogenError):
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
        except (Refused, Untranslated, WinogenError) as reason:
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
        self.found.ranks[node.name] = len(_shape_of(node))

    # ---- what makes a quantized tensor -----------------------------------------------------------

    def _maker(self, node: fx.Node, meaning: Meaning) -> tuple[list[fx.Node], list[Node]]:
        """The nodes of torch's that are not needed any more, and the operators in their place."""
        source, inner, ends = node.args[0], list[fx.Node](), (-np.inf, np.inf)
        while isinstance(source, fx.Node) and (cut := _cut_of(source)) is not None:
            self._only(source, inner)
            ends = max(ends[0], cut[0]), min(ends[1], max(cut[1], ends[0]))
            source = source.args[0]
        if not isinstance(source, fx.Node):
            raise Refused("it is no tensor")
        if source.target in _CONVOLUTIONS or source.target in _PRODUCTS:
            self._only(source, inner)
            return inner, [self._convolution(node, source, meaning, ends)]
        after = meaning.after.cut(*ends)
        if source.target in (aten.add.Tensor, aten.add_.Tensor):
            return self._total(node, source, inner, meaning, ends)
        if source.target in _MEANS:
            self._only(source, inner)
            x, here, _ = self._read(source.args[0])
            window = _MEANS[source.target](source)
            mean = QGlobalMean(here.codes, after)
            op = QMean(here.codes, after, **window) if window else mean
            return inner, [Node(op, (x,), (node.name,), label_of(source))]
        if source.target in (aten.max_pool2d.default,):
            self._only(source, inner)
            x, here, _ = self._read(source.args[0])
            pool = _largest(source)
            pooled = node.name if _is_same(here, after) else f"{node.name}.pooled"
            nodes = [Node(pool, (x,), (pooled,), label_of(source))]
            if pooled != node.name:
                recoding = Lookup.recoding(here.codes, after)
                nodes.append(Node(recoding, (pooled,), (node.name,), label_of(source)))
            return inner, nodes
        return self._renamed(node, source, inner, after)

    def _renamed(
        self, node: fx.Node, source: fx.Node, inner: list[fx.Node], after: After
    ) -> tuple[list[fx.Node], list[Node]]:
        """Codes of other codes, of a tensor of the same numbers in other axes or not."""
        while source.target in _RENAMING:
            self._only(source, inner)
            if _shape_of(source)[:1] != _shape_of(source.args[0])[:1]:
                raise Refused("it moves numbers between images")
            source = source.args[0]  # type: ignore[assignment]
        x, here, shape = self._read(source, True)
        wanted = _shape_of(node)
        if shape != _as_map(wanted) and len(wanted) != 2:
            raise Refused("its numbers are in other axes")
        if _is_same(here, after):
            self.maps[node] = x, shape
            return inner, []
        if shape != _as_map(wanted):
            raise Refused("other codes of other axes")
        return inner, [
            Node(Lookup.recoding(here.codes, after), (x,), (node.name,), label_of(node))
        ]

    def _total(
        self,
        node: fx.Node,
        source: fx.Node,
        inner: list[fx.Node],
        meaning: Meaning,
        ends: tuple[float, float],
    ) -> tuple[list[fx.Node], list[Node]]:
        """A sum of two tensors of codes, or of one and a convolution, which takes it in."""
        self._only(source, inner)
        if source.kwargs.get("alpha", 1) != 1 or len(source.args) != 2:
            raise Refused("it scales what it adds")
        one, other = source.args
        for conv, rest in ((one, other), (other, one)):
            if isinstance(conv, fx.Node) and conv.target in _CONVOLUTIONS:
                self._only(conv, inner)
                return inner, [self._convolution(node, conv, meaning, ends, rest)]
        (x, here, shape), (z, there, more) = self._read(one), self._read(other)
        if shape != more:
            raise Refused("one of them is repeated")
        after = meaning.after.cut(*ends)
        op = QAdd(here.codes, there.codes, after)
        return inner, [Node(op, (x, z), (node.name,), label_of(source))]

    def _convolution(
        self,
        node: fx.Node,
        conv: fx.Node,
        meaning: Meaning,
        ends: tuple[float, float],
        rest: Any = None,
    ) -> Node:
        op, x, bias, steps = self._sums(conv)
        activation = _ACTIVATIONS.get(ends, "")
        if activation == "":
            raise Refused(f"it cuts off numbers at {ends[0]:g} and {ends[1]:g}")
        counted = None
        if bias is not None:
            sums = np.rint(bias.astype(np.float64) / steps)
            if not (np.abs(sums) < 2**31).all():
                raise Refused("its bias does not fit 32 bits")
            counted = sums.astype(np.int32)
        codes, reads, z = meaning.codes, [x], None
        if rest is not None:
            added, there, shape = self._read(rest)
            if shape != _as_map(_shape_of(conv)):
                raise Refused("what it adds is repeated")
            reads, z = [x, added], there.codes
        after = meaning.after
        made = QConv(
            op.weight, counted, "int8", op.x_zero, op.w_zero, op.x_scale, op.w_scale,
            np.float32(codes.scale), codes.zero, "int8", op.stride, op.padding, op.dilation,
            op.groups, activation, (after.lowest, after.highest), z,
        )  # fmt: skip
        filters = QuantizedFilters.of(made.weight, made.w_zero, made.bias)
        filters.check_sums(LOWEST - made.x_zero, HIGHEST - made.x_zero)
        return Node(made, tuple(reads), (node.name,), label_of(conv))

    def _sums(self, conv: fx.Node) -> tuple[QConv, str, np.ndarray | None, np.ndarray]:
        """A convolution without its bias, what it reads, that, and what a step of a sum is."""
        x, here, shape = self._read(conv.args[0], conv.target in _PRODUCTS)
        filters = self._filters(conv.args[1])
        options: dict[str, Any] = {}
        weight = filters.weight
        if conv.target in _PRODUCTS:
            if weight.ndim != 2 or weight.shape[1] != prod(shape[1:]):
                raise Refused("it multiplies along an axis of several")
            weight = np.ascontiguousarray(weight).reshape(len(weight), *shape[1:])
        else:
            options = _window(conv, weight)
        bias = self._constant(conv.args[2]) if len(conv.args) > 2 and conv.args[2] else None
        x_scale = np.float32(here.codes.scale)
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
            raise Refused("it is read as numbers, too")
        inner.append(node)

    def _read(self, source: Any, flat: bool = False) -> tuple[str, Meaning, Shape]:
        """The value of a dequantized tensor, what its codes mean, and its shape as a map.

        ``flat``: whether the tensor may have all numbers of an image along one axis.
        """
        coded = source.args[0] if kind_of(source) == _DEQUANTIZE else None
        if not isinstance(coded, fx.Node) or coded not in self.meanings:
            raise Refused("it reads what is not quantized")
        here, there = self.meanings[coded], _meaning(source, self.held)
        if here.codes != there.codes or here.dtype != there.dtype:
            raise Refused("its codes are read with another meaning")
        value, shape = self.maps[coded]
        if not flat and shape != _as_map(_shape_of(source)):
            raise Refused("its numbers are an image's along one axis")
        return value, here, shape

    def _constant(self, value: Any) -> np.ndarray:
        tensor = self.held.get(getattr(value, "name", ""))
        if tensor is None or tensor.dtype != torch.float32:
            raise Refused("its numbers may change from call to call")
        array: np.ndarray = tensor.detach().numpy()
        return array

    def _filters(self, source: Any) -> Filters:
        kind = kind_of(source)
        if kind not in (_DEQUANTIZE, _OF_CHANNELS):
            raise Refused("its weights are not quantized")
        order = _CHANNEL_ORDER if kind == _OF_CHANNELS else _ORDER
        given = _bound(source, order)
        tensor = self.held.get(getattr(given["input"], "name", ""))
        if tensor is None or str(tensor.dtype) not in ("torch.int8", "torch.uint8"):
            raise Refused("its weights are no bytes, or may change from call to call")
        if given.get("axis", 0) != 0:
            raise Refused("its weights have scales along another axis than that of the filters")
        scale, zero = (self._numbers_of(given[name]) for name in ("scale", "zero_point"))
        zeros = zero.astype(np.int64)
        same = zeros.size == 1 or not zeros.any()
        return Filters(
            tensor.detach().contiguous().numpy(),
            np.ascontiguousarray(scale, np.float32),
            int(zeros.reshape(-1)[0]) if same else zeros,
        )

    def _numbers_of(self, value: Any) -> np.ndarray:
        if not isinstance(value, fx.Node):
            return np.asarray(value, np.float64).reshape(-1)
        tensor = self.held.get(value.name)
        if tensor is None:
            raise Refused("its scales may change from call to call")
        numbers: np.ndarray = tensor.detach().double().numpy().reshape(-1)
        return numbers


# ---- single nodes --------------------------------------------------------------------------------


def _bound(node: fx.Node, order: list[str]) -> dict[str, Any]:
    given = {**dict(zip(order, node.args)), **node.kwargs}
    if given.get("out_dtype") not in (None, torch.float32):
        raise Refused(f"its numbers are {given['out_dtype']}")
    return given


def _meaning(node: fx.Node, held: Mapping[str, torch.Tensor]) -> Meaning:
    """What the codes of a quantize or dequantize of whole tensors mean."""
    given = _bound(node, _ORDER)
    numbers = []
    for name in ("scale", "zero_point", "quant_min", "quant_max"):
        value = given[name]
        if isinstance(value, fx.Node):
            tensor = held.get(value.name)
            if tensor is None or tensor.numel() != 1:
                raise Refused("its scales may change from call to call")
            value = tensor.item()
        numbers.append(value)
    scale, zero, least, most = numbers
    dtype = str(given["dtype"]).removeprefix("torch.")
    if dtype not in RANGES:
        raise Refused(f"its codes are {dtype}")
    flip = 128 if dtype == "uint8" else 0
    if not (least <= zero <= most and np.isfinite(scale) and np.float32(scale) > 0):
        raise Refused("its zero point is no code")
    codes = Codes(float(np.float32(scale)), int(zero) - flip)
    return Meaning(After(codes, int(least) - flip, int(most) - flip), dtype)


def _shape_of(node: Any) -> Shape:
    for key in ("tensor_meta", "val"):
        noted = node.meta.get(key)
        if noted is not None and hasattr(noted, "shape"):
            return tuple(noted.shape)
    raise Refused("its shape is not known")


def _as_map(shape: Shape) -> Shape:
    """The shape of a tensor as a map: of rows (N, C), one of a pixel."""
    if len(shape) not in (2, 4):
        raise Refused(f"tensors of {len(shape)} axes are no maps")
    return (*shape, 1, 1)[:4] if len(shape) == 2 else shape


def _is_same(here: Meaning, after: After) -> bool:
    """Whether codes mean the same and none of them is beyond the ends of the others."""
    inside = after.lowest <= here.after.lowest and here.after.highest <= after.highest
    return here.codes == after.codes and inside


def _cut_of(node: fx.Node) -> tuple[float, float] | None:
    """At which numbers an activation cuts off, if at any; None for what is no activation."""
    if node.target in _SAME or (node.target is aten.dropout.default and not node.args[2]):
        return -np.inf, np.inf
    if node.target in (aten.relu.default, aten.relu_.default):
        return 0.0, np.inf
    if node.target is aten.relu6.default:
        return 0.0, 6.0
    if node.target in (aten.hardtanh.default, aten.hardtanh_.default):
        low, high = (*node.args[1:], *(-1.0, 1.0)[len(node.args) - 1 :])
        return float(low), float(high)  # type: ignore[arg-type]
    if node.target in (aten.clamp.default, aten.clamp_.default):
        low, high = (*node.args[1:], None, None)[:2]
        return (
            -np.inf if low is None else float(low),  # type: ignore[arg-type]
            np.inf if high is None else float(high),  # type: ignore[arg-type]
        )
    return None


_ACTIVATIONS = {(-np.inf, np.inf): None, (0.0, np.inf): "relu", (0.0, 6.0): "relu6"}


def _window(conv: fx.Node, weight: np.ndarray) -> dict[str, Any]:
    """The options of a convolution of maps."""
    order = "input weight bias stride padding dilation groups".split()
    given: dict[str, Any] = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}
    given |= {**dict(zip(order, conv.args)), **conv.kwargs}
    if weight.ndim != 4:
        raise Refused("it is no convolution of maps")
    stride, dilation = (per_axis(given[name]) for name in ("stride", "dilation"))
    if given["padding"] == "valid":
        padding = (0, 0, 0, 0)
    elif given["padding"] == "same":
        totals = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
        top, left = (total // 2 for total in totals)
        padding = (top, totals[0] - top, left, totals[1] - left)
    else:
        down, across = per_axis(given["padding"])
        padding = (down, down, across, across)
    sizes = {"stride": stride, "dilation": dilation, "padding": padding}
    return {**sizes, "groups": given["groups"]}


def _largest(node: fx.Node) -> MaxPool:
    order = "input kernel stride padding dilation ceil_mode".split()
    given = {"stride": (), "padding": 0, "dilation": 1, "ceil_mode": False}
    given |= {**dict(zip(order, node.args)), **node.kwargs}
    if given["ceil_mode"]:
        raise Refused("its last windows reach beyond the padding")
    kernel = per_axis(given["kernel"])
    down, across = per_axis(given["padding"])
    stride = per_axis(given["stride"]) if given["stride"] else kernel
    return MaxPool(kernel, stride, (down, down, across, across), per_axis(given["dilation"]))


def _mean_of_map(node: fx.Node) -> dict[str, Any]:
    """No window: the mean is one over whole maps."""
    if node.target is aten.mean.dim:
        axes = node.args[1] if isinstance(node.args[1], (list, tuple)) else [node.args[1]]
        keeps = len(node.args) > 2 and node.args[2] or node.kwargs.get("keepdim")
        if sorted(axis % 4 for axis in axes) != [2, 3]:  # type: ignore[operator]
            raise Refused("it is a mean along other axes")
        if not keeps and len(_shape_of(node)) != 2:
            raise Refused("it is a mean along other axes")
    elif per_axis(node.args[1]) != (1, 1):
        raise Refused("it is a mean of several windows")
    return {}


def _mean_of_windows(node: fx.Node) -> dict[str, Any]:
    """The window of a mean."""
    order = "input kernel stride padding ceil_mode count_include_pad divisor_override".split()
    given: dict[str, Any] = {"stride": (), "padding": 0, "ceil_mode": False}
    given |= {"count_include_pad": True, "divisor_override": None}
    given |= {**dict(zip(order, node.args)), **node.kwargs}
    if given["ceil_mode"] or given["divisor_override"]:
        raise Refused("its last windows are others")
    kernel = per_axis(given["kernel"])
    down, across = per_axis(given["padding"])
    return {
        "kernel": kernel,
        "stride": per_axis(given["stride"]) if given["stride"] else kernel,
        "padding": (down, down, across, across),
        "counted": bool(given["count_include_pad"]),
    }


_CONVOLUTIONS = (aten.conv2d.default, aten.conv2d.padding)
_PRODUCTS = (aten.linear.default,)
_MEANS: dict[Any, Callable[[fx.Node], dict[str, Any]]] = {
    aten.adaptive_avg_pool2d.default: _mean_of_map,
    aten.mean.dim: _mean_of_map,
    aten.avg_pool2d.default: _mean_of_windows,
}


def _attributes(module: fx.GraphModule) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors of a trace's attributes by the names of nodes."""
    for node in module.graph.nodes:
        if node.op == "get_attr":
            value: Any = module
            for name in str(node.target).split("."):
                value = getattr(value, name)
            if isinstance(value, torch.Tensor):
                yield node.name, value


def held_by(module: fx.GraphModule) -> dict[str, torch.Tensor]:
    """Return the tensors of attributes, and what quantizers' nodes make of these."""
    held = dict(_attributes(module))
    for node in module.graph.nodes:
        made = folded(node, held) if kind_of(node) else None
        if made is not None:
            held[node.name] = made
    return held
