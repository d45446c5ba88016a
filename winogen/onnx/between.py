"""What lies between quantized convolutions: activations as tables, maxima channels last.

A function of one number of 8 bits has 256 values. Whatever nodes stand between DequantizeLinear and
QuantizeLinear, if they compute each output from one input, they are a table, or one for each
channel. onnxruntime would compute them in float32, each in a pass over the array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from winogen.conv.quantization import BYTES, RANGES
from winogen.graph import Node, Opaque
from winogen.graph.ops import Codes, Lookup
from winogen.onnx.loading import computed
from winogen.onnx.matching import Match
from winogen.onnx.model import Model
from winogen.onnx.operators import OWN_DOMAIN
from winogen.onnx.sizes import ACTIVE, STANDARD, input_of, number

_CODES = 256
_MOST_NODES = 8
# Each output from one input, and constants that are the same everywhere or in a channel.
_EACH = ACTIVE | frozenset(
    "Abs Add Ceil Celu Div Elu Erf Exp Floor HardSigmoid Identity Log Max Min Mish Mul Neg Pow "
    "Reciprocal Round Selu Sigmoid Sign Softplus Softsign Sqrt Sub Tanh ThresholdedRelu".split()
)
_POOL = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")
_TO_LAST, _TO_SECOND = [0, 2, 3, 1], [0, 3, 1, 2]  # the axis of channels

# Gives a constant a name: array, label, what it is.
Naming = Callable[[np.ndarray, str, str], str]


def written(model: Model, node: Node, naming: Naming, settings: dict[str, Any]) -> Sequence[Any]:
    """Return what is written of a node of these; nothing of others."""
    op: Any = node.op
    if isinstance(op.payload, Pool):
        return op.payload.nodes(model)
    if not op.is_table:
        return ()
    names = [*node.inputs, naming(op.table, node.label, "table")]
    make = model.onnx.helper.make_node
    return [make("Lookup", names, node.outputs, node.label, domain=OWN_DOMAIN, **settings)]


class Pool(NamedTuple):
    """MaxPool of bytes, which onnxruntime computes tens of times as fast with channels last."""

    input: str
    within: tuple[Any, ...]
    pool: Any

    def nodes(self, model: Model) -> list[Any]:
        """What is written."""
        output, make = self.within[-1].output[0], model.onnx.helper.make_node
        values = model.attributes(self.pool)
        values = {name: values[name] for name in _POOL if name in values}
        first, last = f"{output}.nhwc", f"{output}.pooled"
        label = self.pool.name or output
        return [
            make("Transpose", [self.input], [first], f"{output}.to_nhwc", perm=_TO_LAST),
            make("NhwcMaxPool", [first], [last], label, domain="com.microsoft", **values),
            make("Transpose", [last], [output], f"{output}.to_nchw", perm=_TO_SECOND),
        ]


def between(model: Model, taken: set[int]) -> dict[str, Match]:
    """Return what replaces nodes, by its output; ``within`` has its last node, too.

    ``taken``: ids of nodes that are replaced already.
    """
    found: dict[str, Match] = {}
    for node in model.graph.node:
        if node.domain not in STANDARD or id(node) in taken:
            continue
        one: Match | None = None
        if node.op_type == "QuantizeLinear":
            one = _pool(model, node) or _lookup(model, node)
        elif node.op_type == "MaxPool" and _is_map(model, node.input[0]) and _is_plain(model, node):
            one = _pooled(node.input[0], (node,), node)
        if one is not None and not taken.intersection(map(id, one.within)):
            found[one.within[-1].output[0]] = one
    return found


def _pooled(source: str, within: tuple[Any, ...], pool: Any) -> Match:
    op = Opaque("Pool", Pool(source, within, pool))
    return Match(op, (source,), within, within[0].name or within[0].output[0])


def _pool(model: Model, last: Any) -> Match | None:
    """MaxPool between codes that are the same before and behind."""
    pool = model.makers.get(last.input[0])
    if pool is None or pool.op_type != "MaxPool" or model.uses[last.input[0]] != 1:
        return None
    first = model.makers.get(pool.input[0])
    if first is None or first.op_type != "DequantizeLinear" or not _is_plain(model, pool):
        return None
    if not _is_map(model, first.input[0]):
        return None
    here, there = _codes(model, first), _codes(model, last)
    if here is None or here != there:
        return None
    return _pooled(first.input[0], (pool, last), pool)


def _is_map(model: Model, name: str) -> bool:
    """Whether a value is (N, C, H, W) of bytes."""
    sizes, kind = model.sizes.get(name), model.kind(name)
    tensor = model.onnx.TensorProto
    return sizes is not None and len(sizes) == 4 and kind in (tensor.UINT8, tensor.INT8)


def _is_plain(model: Model, pool: Any) -> bool:
    """Whether only the maxima of a MaxPool in two dimensions are wanted."""
    values = model.attributes(pool)
    return not any(pool.output[1:]) and len(values.get("kernel_shape", ())) == 2


def _codes(model: Model, node: Any) -> tuple[float, int, str] | None:
    """Scale, zero point and type of codes that are the same for a whole array."""
    scale = model.constant(node.input[1])
    zero = model.constant(input_of(node, 2))
    if scale is None or zero is None or scale.size != 1 or zero.size != 1:
        return None
    if scale.dtype != np.float32 or zero.dtype.name not in BYTES:
        return None
    return float(scale.reshape(-1)[0]), int(zero.reshape(-1)[0]), zero.dtype.name


def _lookup(model: Model, last: Any) -> Match | None:
    """The function between DequantizeLinear and a QuantizeLinear, if it is one."""
    nodes, first = _function(model, last)
    if first is None or not nodes:
        return None
    here, there = _codes(model, first), _codes(model, last)
    sizes = model.sizes.get(first.input[0])
    if here is None or there is None or sizes is None or len(sizes) > 4:
        return None
    made = {name for node in nodes for name in node.output}
    arrays = {name: model.constant(name) for node in nodes for name in node.input if name}
    constants = {n: a for n, a in arrays.items() if n not in made and n != first.output[0]}
    channels = 1
    for array in constants.values():
        if array is None or array.ndim > len(sizes):  # else the output has more axes
            return None
        if array.size == 1:
            continue
        shape = (1,) * (4 - array.ndim) + array.shape
        # Where an array of one channel, or of nobody knows how many, meets several, it may grow.
        if len(sizes) != 4 or shape != (1, shape[1], 1, 1) or sizes[1] != number(shape[1]):
            return None
        channels = shape[1]
    table = _table(model, nodes, first, last, constants, channels)
    if table is None:
        return None
    op = Lookup(table, Codes(*there[:2]), here[2])
    within = (*nodes, last)
    return Match(op, (first.input[0],), within, nodes[0].name or last.output[0])


def _function(model: Model, last: Any) -> tuple[list[Any], Any]:
    """The nodes before a QuantizeLinear that compute each number by itself, and their first."""
    found: list[Any] = []
    wanted, first = [last.input[0]], None
    while wanted:
        name = wanted.pop()
        node = model.makers.get(name)
        if node is None:
            return [], None
        if node.op_type == "DequantizeLinear":
            if first is not None and node is not first:
                return [], None
            first = node
            continue
        if node in found:
            continue
        if node.op_type not in _EACH or node.domain not in STANDARD or len(found) == _MOST_NODES:
            return [], None
        found.append(node)
        wanted += [n for n in node.input if n and model.constant(n) is None]
    order = {id(node): place for place, node in enumerate(model.graph.node)}
    found.sort(key=lambda node: order[id(node)])
    inside = {id(node) for node in (*found, last)}
    for node in found:  # nobody else may read what is no longer made
        for name in node.output:
            readers = model.readers.get(name, ())
            if len(readers) != model.uses[name] or any(id(r) not in inside for r in readers):
                return [], None
    return found, first


def _table(
    model: Model, nodes: list[Any], first: Any, last: Any, constants: dict[str, Any], channels: int
) -> np.ndarray | None:
    """The outputs for all inputs, (channels, 256), as ONNX's evaluator computes them."""
    here, there = _codes(model, first), _codes(model, last)
    assert here is not None and there is not None
    codes = np.arange(_CODES, dtype=np.uint8).view(here[2]).astype(np.int32)
    reals = ((codes - here[1]).astype(np.float32) * np.float32(here[0])).reshape(1, 1, _CODES, 1)
    feed = np.ascontiguousarray(np.broadcast_to(reals, (1, channels, _CODES, 1)))
    opset = [model.onnx.helper.make_opsetid("", model.opset)]
    made = computed(nodes, {**constants, first.output[0]: feed}, last.input[:1], opset)
    if made is None:  # not worth more than leaving it as it is
        return None
    (y,) = made
    if y.shape != feed.shape or y.dtype != np.float32 or not np.isfinite(y).all():
        return None
    least, most = RANGES[there[2]]
    steps = np.rint(y.astype(np.float32) / np.float32(there[0])).astype(np.float64) + there[1]
    return np.clip(steps, least, most).astype(there[2]).reshape(channels, _CODES)
