"""Single nodes of a quantized graph of PyTorch: what codes mean, windows, where numbers end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import fx

from winogen.conv.phases import ordinary
from winogen.conv.quantization import RANGES, QuantizedFilters
from winogen.graph import MaxPool
from winogen.graph.ops import Codes, Enlarge, Operator, Shape, Spread
from winogen.graph.ops.quantized import After
from winogen.torch.calls import per_axis

aten = torch.ops.aten
NAMESPACE = "quantized_decomposed"
QUANTIZE, DEQUANTIZE = "quantize_per_tensor", "dequantize_per_tensor"
OF_CHANNELS = "dequantize_per_channel"
ORDER = "input scale zero_point quant_min quant_max dtype"
CHANNEL_ORDER = "input scale zero_point axis quant_min quant_max dtype"
# What computes nothing of codes, as long as the numbers of an image stay in their order.
RENAMING = (aten.flatten.using_ints, aten.view.default, aten.reshape.default)
SUMS, JOINS = (aten.add.Tensor, aten.add_.Tensor), aten.cat.default
_SAME = (aten.clone.default, aten.contiguous.default, aten.alias.default)


class Uncoded(Exception):
    """Why a tensor stays torch's."""


class CodedFilters(NamedTuple):
    """Weights as codes: (M, C/groups, KH, KW) or (M, C), their scales and zero points."""

    weight: np.ndarray
    scale: np.ndarray
    zero: np.ndarray | int


class Meaning(NamedTuple):
    """What a quantized tensor is: its codes here, their ends, and its type in torch."""

    after: After
    dtype: str

    @property
    def codes(self) -> Codes:
        """What one of its codes means."""
        return self.after.codes


def kind_of(node: Any) -> str:
    """Return what a node of the quantizers' operators is called; "" for any other."""
    target = getattr(node, "target", None)
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != NAMESPACE:
        return ""
    return str(target._schema.name).partition("::")[2]


def named(node: fx.Node, order: str) -> dict[str, Any]:
    """Return the arguments of a node that are given, by their names in this order."""
    return {**dict(zip(order.split(), node.args)), **node.kwargs}


def bound_of(node: fx.Node, order: str) -> dict[str, Any]:
    """Return the arguments of a node by name; raises Uncoded for numbers that are no float32."""
    given = named(node, order)
    if given.get("out_dtype") not in (None, torch.float32):
        raise Uncoded(f"its numbers are {given['out_dtype']}")
    return given


def folded(node: fx.Node, held: Mapping[str, torch.Tensor]) -> torch.Tensor | None:
    """Return the tensor that a quantizer's node makes of ``held`` ones; None for any other node."""
    if not kind_of(node) or any(one.name not in held for one in node.all_input_nodes):
        return None
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda one: held[one.name])
    with torch.no_grad():
        target: Any = node.target
        made: torch.Tensor = target(*args, **kwargs)
    return made


def attributes(module: fx.GraphModule) -> dict[str, torch.Tensor]:
    """Return the tensors of a trace's attributes, by the names of nodes."""
    nodes = [node for node in module.graph.nodes if node.op == "get_attr"]
    values = {node.name: attrgetter(str(node.target))(module) for node in nodes}
    return {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}


def held_by(module: fx.GraphModule) -> dict[str, torch.Tensor]:
    """Return the tensors of attributes, and what quantizers' nodes make of these."""
    held = attributes(module)
    for node in module.graph.nodes:
        made = folded(node, held)
        if made is not None:
            held[node.name] = made
    return held


def meaning_of(node: fx.Node, held: Mapping[str, torch.Tensor]) -> Meaning:
    """Return what the codes of a quantize or dequantize of whole tensors mean; raises Uncoded."""
    given = bound_of(node, ORDER)
    numbers = []
    for name in ("scale", "zero_point", "quant_min", "quant_max"):
        value = given[name]
        if isinstance(value, fx.Node):
            tensor = held.get(value.name)
            if tensor is None or tensor.numel() != 1:
                raise Uncoded("its scales may change from call to call")
            value = tensor.item()
        numbers.append(value)
    scale, zero, least, most = numbers
    dtype = str(given["dtype"]).removeprefix("torch.")
    if dtype not in RANGES:
        raise Uncoded(f"its codes are {dtype}")
    flip = 128 if dtype == "uint8" else 0
    if not (least <= zero <= most and np.isfinite(scale) and np.float32(scale) > 0):
        raise Uncoded("its zero point is no code")
    codes = Codes(float(np.float32(scale)), int(zero) - flip)
    return Meaning(After(codes, int(least) - flip, int(most) - flip), dtype)


def shape_of(node: Any) -> Shape:
    """Return the shape of a node's tensor on the example; raises Uncoded."""
    for key in ("tensor_meta", "val"):
        noted = node.meta.get(key)
        if noted is not None and hasattr(noted, "shape"):
            return tuple(noted.shape)
    raise Uncoded("its shape is not known")


def as_map(shape: Shape) -> Shape:
    """Return the shape of a tensor as a map, of rows (N, C) one of a pixel; raises Uncoded."""
    if len(shape) not in (2, 4):
        raise Uncoded(f"tensors of {len(shape)} axes are no maps")
    return (*shape, 1, 1)[:4] if len(shape) == 2 else shape


def is_same(here: Meaning, after: After) -> bool:
    """Return whether codes mean the same and none of them is beyond the ends of the others."""
    inside = after.lowest <= here.after.lowest and here.after.highest <= after.highest
    return here.codes == after.codes and inside


def cut_of(node: fx.Node) -> tuple[float, float] | None:
    """Return where an activation cuts numbers off, if at all; None for what is no activation."""
    given: list[Any] = list(node.args[1:])
    if node.target in _SAME or (node.target is aten.dropout.default and not given[1]):
        return -np.inf, np.inf
    if node.target in (aten.relu.default, aten.relu_.default):
        return 0.0, np.inf
    if node.target is aten.relu6.default:
        return 0.0, 6.0
    if node.target in (aten.hardtanh.default, aten.hardtanh_.default):
        low, high = given or (-1.0, 1.0)
        return float(low), float(high)
    if node.target in (aten.clamp.default, aten.clamp_.default):
        low, high = (*given, None, None)[:2]
        return -np.inf if low is None else float(low), np.inf if high is None else float(high)
    return None


ACTIVATIONS = {(-np.inf, np.inf): None, (0.0, np.inf): "relu", (0.0, 6.0): "relu6"}


def window_of(conv: fx.Node, weight: np.ndarray) -> dict[str, Any]:
    """Return the options of a convolution of maps; raises Uncoded."""
    given: dict[str, Any] = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}
    given |= named(conv, "input weight bias stride padding dilation groups")
    if weight.ndim != 4:
        raise Uncoded("it is no convolution of maps")
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


def phases_of(conv: fx.Node) -> dict[str, Any]:
    """Return the options of a transposed convolution, as `QConv` and `QConv.transposed` have them.

    Those of the first are "groups" and "dilation".
    """
    given: dict[str, Any] = {"stride": 1, "padding": 0, "output_padding": 0}
    given |= {"groups": 1, "dilation": 1}
    given |= named(conv, "input weight bias stride padding output_padding groups dilation")
    down, across = per_axis(given["padding"])
    sizes = {name: per_axis(given[name]) for name in ("stride", "output_padding", "dilation")}
    return {**sizes, "padding": (down, down, across, across), "groups": given["groups"]}


def filters_of(source: Any, held: Mapping[str, torch.Tensor], axis: int) -> CodedFilters:
    """Return weights whose scales, where there are several, are along an axis; raises Uncoded."""
    kind = kind_of(source)
    if kind not in (DEQUANTIZE, OF_CHANNELS):
        raise Uncoded("its weights are not quantized")
    given = bound_of(source, CHANNEL_ORDER if kind == OF_CHANNELS else ORDER)
    tensor = held.get(getattr(given["input"], "name", ""))
    if tensor is None or str(tensor.dtype) not in ("torch.int8", "torch.uint8"):
        raise Uncoded("its weights are no bytes, or may change from call to call")
    if given.get("axis", axis) != axis:
        raise Uncoded("its weights have scales along another axis than that of the filters")
    scale, zero = (_numbers_of(given[name], held) for name in ("scale", "zero_point"))
    zeros = zero.astype(np.int64)
    same = zeros.size == 1 or not zeros.any()
    return CodedFilters(
        tensor.detach().contiguous().numpy(),
        np.ascontiguousarray(scale, np.float32),
        int(zeros.reshape(-1)[0]) if same else zeros,
    )


def _numbers_of(value: Any, held: Mapping[str, torch.Tensor]) -> np.ndarray:
    if not isinstance(value, fx.Node):
        return np.asarray(value, np.float64).reshape(-1)
    tensor = held.get(value.name)
    if tensor is None:
        raise Uncoded("its scales may change from call to call")
    numbers: np.ndarray = tensor.detach().double().numpy().reshape(-1)
    return numbers


def of_transposed(given: CodedFilters, groups: int) -> CodedFilters:
    """Return weights of a transposed convolution as an ordinary one has them; raises Uncoded."""
    scale = np.tile(given.scale, groups) if given.scale.size > 1 else given.scale
    zero = given.zero if isinstance(given.zero, int) else np.tile(given.zero, groups)
    signed = QuantizedFilters.of(ordinary(given.weight, groups), zero, None)
    if signed.zero is not None:
        raise Uncoded("its weights have zero points other than 0")
    return CodedFilters(signed.weight, scale, 0)


def largest_of(node: fx.Node) -> MaxPool:
    """Return the operator of a maximum of windows; raises Uncoded."""
    given: dict[str, Any] = {"stride": (), "padding": 0, "dilation": 1, "ceil_mode": False}
    given |= named(node, "input kernel stride padding dilation ceil_mode")
    if given["ceil_mode"]:
        raise Uncoded("its last windows reach beyond the padding")
    kernel = per_axis(given["kernel"])
    down, across = per_axis(given["padding"])
    stride = per_axis(given["stride"]) if given["stride"] else kernel
    return MaxPool(kernel, stride, (down, down, across, across), per_axis(given["dilation"]))


def _enlarged_of(node: fx.Node) -> Enlarge:
    """The operator of an enlargement to the nearest pixels, by factors or to a size."""
    is_listed = node.target is aten.upsample_nearest2d.vec
    order = "scale_factors" if is_listed else "scales_h scales_w"
    given = named(node, f"input output_size {order}")
    factors = given.get("scale_factors") or [given.get("scales_h"), given.get("scales_w")]
    if factors == [None, None]:
        return Enlarge(size=per_axis(given["output_size"]))
    if len(factors) != 2 or any(factor != int(factor) or factor < 1 for factor in factors):
        raise Uncoded("it enlarges by factors that are not whole")
    return Enlarge(tuple(map(int, factors)))


def _spread_of(node: fx.Node) -> Spread:
    """The operator of channels spread over blocks of pixels."""
    return Spread(per_axis(node.args[1]))


def _mean_of_map(node: fx.Node) -> dict[str, Any]:
    """No window: the mean is one over whole maps."""
    if node.target is aten.mean.dim:
        axes: Any = node.args[1]
        if not isinstance(axes, (list, tuple)) or sorted(axis % 4 for axis in axes) != [2, 3]:
            raise Uncoded("it is a mean along other axes")
    elif per_axis(node.args[1]) != (1, 1):
        raise Uncoded("it is a mean of several windows")
    return {}


def _mean_of_windows(node: fx.Node) -> dict[str, Any]:
    """The window of a mean."""
    given: dict[str, Any] = {"stride": (), "padding": 0, "ceil_mode": False}
    given |= {"count_include_pad": True, "divisor_override": None}
    given |= named(node, "input kernel stride padding ceil_mode count_include_pad divisor_override")
    if given["ceil_mode"] or given["divisor_override"]:
        raise Uncoded("its last windows are others")
    kernel = per_axis(given["kernel"])
    down, across = per_axis(given["padding"])
    return {
        "kernel": kernel,
        "stride": per_axis(given["stride"]) if given["stride"] else kernel,
        "padding": (down, down, across, across),
        "counted": bool(given["count_include_pad"]),
    }


# What chooses some codes of others.
CHOOSING: dict[Any, Callable[[fx.Node], Operator]] = {
    aten.max_pool2d.default: largest_of,
    aten.upsample_nearest2d.vec: _enlarged_of,
    aten.upsample_nearest2d.default: _enlarged_of,
    aten.pixel_shuffle.default: _spread_of,
}
TRANSPOSED = aten.conv_transpose2d.input
CONVOLUTIONS = (aten.conv2d.default, aten.conv2d.padding)
PRODUCTS = (aten.linear.default,)
MEANS: dict[Any, Callable[[fx.Node], dict[str, Any]]] = {
    aten.adaptive_avg_pool2d.default: _mean_of_map,
    aten.mean.dim: _mean_of_map,
    aten.avg_pool2d.default: _mean_of_windows,
}
