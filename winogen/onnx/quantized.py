"""Quantized convolutions of a model as operators of a graph: QLinearConv, ConvInteger, and pairs.

Exporters write a quantized convolution as a float one between DequantizeLinear and QuantizeLinear.
It becomes one operator of integers, whose sums are exact and rounded once:

    y = saturate(round((sum + bias) * (x_scale * w_scale / y_scale) + y_zero))

with halves to the even integer. The float form rounds after each addition, to float32, and adds
y_zero after the last rounding, so that the two may differ by one step, near halves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from winogen.conv.quantization import BYTES, RANGES, QuantizedFilters, Scales, check_zero
from winogen.errors import WinogenError
from winogen.graph import QConv
from winogen.onnx.between import between
from winogen.onnx.matching import Match
from winogen.onnx.model import Model
from winogen.onnx.sizes import STANDARD, input_of


class Refused(Exception):
    """Why a convolution stays with the framework."""


class Codes(NamedTuple):
    """How a value is quantized: real = scale * (code - zero)."""

    scale: np.ndarray  # float32: one number, or one for each filter
    zero: np.ndarray  # as many, or one; of the type of the codes


class Layer(NamedTuple):
    """A quantized convolution as a model has it; ``y`` None: its output are the sums."""

    input: str
    x: Codes
    weight: np.ndarray
    w: Codes
    bias: np.ndarray | None
    y: Codes | None
    relu: bool
    within: tuple[Any, ...]  # nodes that it stands for, the last makes the output


@dataclass
class Narrow:
    """What of a model computes with bytes."""

    matches: dict[str, Match] = field(default_factory=dict)  # by what they make
    taken: dict[int, Any] = field(default_factory=dict)  # id -> node that they stand for
    refusals: dict[str, str] = field(default_factory=dict)  # output of a node -> why it stays


def quantized(
    model: Model, excluded: Mapping[str, str] | None = None, tables: bool = False
) -> Narrow:
    """Return the quantized convolutions of a model, and what lies between them if it has any.

    ``excluded``: values that the framework goes on to compute, and why. ``tables``: whether what
    lies between codes is read without any convolution, too.
    """
    excluded, found = excluded or {}, Narrow()

    def take(output: str, made: Match) -> None:
        found.matches[output] = made._replace(within=made.within[:-1])
        found.taken |= {id(node): node for node in made.within}

    for node in model.graph.node:
        read = _READERS.get(node.op_type) if node.domain in STANDARD else None
        if read is None:
            continue
        try:
            layer = read(model, node)
            if layer is None:
                continue
            output, attributes = layer.within[-1].output[0], model.attributes(node)
            if output in excluded:
                raise Refused(excluded[output])
            _check(model, layer, attributes)
            label = layer.within[0].name or layer.within[0].output[0]
            op = _operator(layer, attributes)
            take(output, Match(op, (layer.input,), layer.within, label))
        except (Refused, WinogenError) as reason:
            found.refusals[node.output[0]] = str(reason)
    if found.matches or tables:
        for name, other in between(model, set(found.taken)).items():
            if name not in excluded and model.constant(other.inputs[0]) is None:
                take(name, other)
    return found


def _operator(layer: Layer, attributes: dict[str, Any]) -> QConv:
    auto = attributes.get("auto_pad", "NOTSET")
    top, left, bottom, right = attributes.get("pads", (0, 0, 0, 0)) if auto == "NOTSET" else [0] * 4
    outputs: dict[str, Any] = {}
    if layer.y is not None:
        outputs = {
            "x_scale": whole(layer.x.scale),
            "w_scale": whole(layer.w.scale),
            "y_scale": whole(layer.y.scale),
            "y_zero": int(layer.y.zero.reshape(-1)[0]),
            "y_dtype": layer.y.zero.dtype.name,
        }
    return QConv(
        layer.weight,
        layer.bias,
        layer.x.zero.dtype.name,
        int(layer.x.zero.reshape(-1)[0]),
        whole(layer.w.zero),
        stride=tuple(attributes.get("strides", (1, 1))),
        padding=auto if auto.startswith("SAME") else (top, bottom, left, right),
        dilation=tuple(attributes.get("dilations", (1, 1))),
        groups=attributes.get("group", 1),
        activation="relu" if layer.relu else None,
        **outputs,
    )


# ---- what a node means ---------------------------------------------------------------------------


def _linear(model: Model, node: Any) -> Layer:
    names = [*node.input, *[""] * (9 - len(node.input))]
    w = constant_of(model, names[3], "its weights")
    bias = constant_of(model, names[8], "its bias") if names[8] else None
    return Layer(
        names[0],
        codes_of(model, names[1], names[2], names[0]),
        w,
        codes_of(model, names[4], names[5], names[3]),
        bias,
        codes_of(model, names[6], names[7], node.output[0]),
        False,
        (node,),
    )


def _integer(model: Model, node: Any) -> Layer:
    names = [*node.input, *[""] * (4 - len(node.input))]
    w = constant_of(model, names[1], "its weights")
    one = np.float32(1).reshape(())
    x_zero, w_zero = (
        constant_of(model, zero, "its zero points") if zero else np.zeros((), _dtype(model, of))
        for zero, of in ((names[2], names[0]), (names[3], names[1]))
    )
    return Layer(names[0], Codes(one, x_zero), w, Codes(one, w_zero), None, None, False, (node,))


def _pairs(model: Model, node: Any) -> Layer | None:
    """A float convolution, if DequantizeLinear makes its weights or its input."""
    x, w = (_maker(model, name, "DequantizeLinear") for name in node.input[:2])
    if x is None or w is None:
        if x is None and w is None:
            return None
        which = "weights are" if w is None else "input is"
        raise Refused(f"its {which} not quantized")
    within = [node]
    relu, after = False, _only_reader(model, node.output[0])
    activation = after if after is not None and after.op_type in ("Relu", "Clip") else None
    if activation is not None:
        within.append(activation)
        after = _only_reader(model, activation.output[0])
    if after is None or after.op_type != "QuantizeLinear" or after.domain not in STANDARD:
        raise Refused("its output is not quantized, or is read as float, too")
    within.append(after)
    y = codes_of(model, after.input[1], input_of(after, 2), after.output[0])
    if activation is not None:
        relu = _is_relu(model, activation, y)
    weight = constant_of(model, w.input[0], "its weights")
    w_codes = codes_of(model, w.input[1], input_of(w, 2), w.input[0])
    if w_codes.scale.size > 1 and model.attributes(w).get("axis", 1) not in (0, -weight.ndim):
        raise Refused("its weights have scales along another axis than that of the filters")
    x_codes = codes_of(model, x.input[1], input_of(x, 2), x.input[0])
    bias = None
    if name := input_of(node, 2):
        bias = counted_bias(model, name, x_codes.scale, w_codes.scale)
    return Layer(x.input[0], x_codes, weight, w_codes, bias, y, relu, tuple(within))


_READERS = {"QLinearConv": _linear, "ConvInteger": _integer, "Conv": _pairs}


def _is_relu(model: Model, node: Any, y: Codes) -> bool:
    """Whether an activation is max(y, 0); of a Clip, what saturation does anyway is left out."""
    if node.op_type == "Relu":
        return True
    low, high = clip_bounds(model, node)
    least, most = RANGES[y.zero.dtype.name]
    zero, scale = int(y.zero.reshape(-1)[0]), float(y.scale.reshape(-1)[0])
    if np.rint(high / scale) + zero < most:
        raise Refused(f"Clip to {high:g} cuts off numbers that its output could have")
    if np.rint(low / scale) + zero <= least:
        return False
    if low != 0:
        raise Refused(f"Clip to {low:g} cuts off numbers that its output could have")
    return True


def clip_bounds(model: Model, node: Any) -> tuple[float, float]:
    """Return what a Clip cuts off below and above, infinite for nothing; raises Refused.

    Of a lower bound above the upper one, all numbers become the upper: then both are that.
    """
    values = model.attributes(node)
    bounds = [values.get("min"), values.get("max")]
    for place, name in enumerate(node.input[1:3]):
        if name:
            bounds[place] = constant_of(model, name, "the bounds of its Clip")
    low, high = (
        otherwise if bound is None else float(np.asarray(bound).reshape(-1)[0])
        for bound, otherwise in zip(bounds, (-np.inf, np.inf))
    )
    return (high if low > high else low), high


def counted_bias(model: Model, name: str, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return a bias counted in the steps of the sums; raises Refused."""
    steps = (x.reshape(-1) * w.reshape(-1)).astype(np.float32)
    maker = _maker(model, name, "DequantizeLinear")
    if maker is None:
        real = constant_of(model, name, "its bias").astype(np.float64)
    else:
        codes = constant_of(model, maker.input[0], "its bias")
        scale = constant_of(model, maker.input[1], "its bias").reshape(-1)
        zero_name = input_of(maker, 2)
        zero = constant_of(model, zero_name, "its bias") if zero_name else np.zeros((), codes.dtype)
        exact = codes.dtype == np.int32 and not zero.any()
        if exact and (np.broadcast_to(scale, codes.shape) == steps).all():
            return codes
        real = (codes.astype(np.float64) - zero) * scale
    sums = np.rint(real / steps)
    if not (np.abs(sums) < 2**31).all():
        raise Refused("its bias does not fit 32 bits")
    return sums.astype(np.int32)


def _check(model: Model, layer: Layer, attributes: dict[str, Any]) -> None:
    """Raise Refused, or what `QConv2d` would."""
    filters = len(layer.weight)
    if model.constant(layer.input) is not None:
        raise Refused("its input never changes")
    for name, array in (("input", layer.x.zero), ("weights", layer.w.zero)):
        if array.dtype.name not in BYTES:
            raise Refused(f"its {name} are {array.dtype}")
    if layer.weight.dtype != layer.w.zero.dtype:
        raise Refused(f"its weights are {layer.weight.dtype}, their zeros {layer.w.zero.dtype}")
    if layer.weight.ndim != 4:
        raise Refused(f"{layer.weight.ndim - 2}D")
    if layer.x.zero.size != 1 or layer.x.scale.size != 1:
        raise Refused("its input has scales or zero points for each channel")
    made = QuantizedFilters.of(layer.weight, whole(layer.w.zero), layer.bias)
    zero = int(layer.x.zero.reshape(-1)[0])
    lowest, highest = RANGES[layer.x.zero.dtype.name]
    made.check_sums(lowest - zero, highest - zero)
    if filters % attributes.get("group", 1):
        raise Refused("its filters are not a multiple of its groups")
    if layer.y is None:
        return
    if layer.y.zero.dtype.name not in BYTES:
        raise Refused(f"its output is {layer.y.zero.dtype}")
    if layer.y.zero.size != 1 or layer.y.scale.size != 1:
        raise Refused("its output has scales or zero points for each channel")
    y_zero = int(layer.y.zero.reshape(-1)[0])
    check_zero("y_zero", y_zero, layer.y.zero.dtype.name)
    Scales.of(
        filters, layer.x.scale.reshape(()), whole(layer.w.scale), layer.y.scale.reshape(()),
        y_zero, layer.y.zero.dtype.name,
    )  # fmt: skip


def constant_of(model: Model, name: str, what: str) -> np.ndarray:
    """Return a constant; raises Refused."""
    array = model.constant(name) if name else None
    if array is None:
        raise Refused(f"{what} may change from call to call")
    return array


def given_of(model: Model, node: Any, place: int, what: str) -> np.ndarray | None:
    """Return the numbers of an input that is a constant; None without it. Raises Refused."""
    name = input_of(node, place)
    return constant_of(model, name, f"its {what}").reshape(-1) if name else None


def _dtype(model: Model, name: str) -> np.dtype:
    array, kind = model.constant(name), model.kind(name)
    if array is not None:
        return array.dtype
    if not kind:
        raise Refused("the type of its input is not known")
    return np.dtype(model.onnx.helper.tensor_dtype_to_np_dtype(kind))


def codes_of(model: Model, scale: str, zero: str, value: str) -> Codes:
    """Return how a value is quantized, of the names of both; raises Refused."""
    steps = constant_of(model, scale, "its scales")
    if steps.dtype != np.float32:
        raise Refused(f"its scales are {steps.dtype}")
    zeros = (
        constant_of(model, zero, "its zero points") if zero else np.zeros((), _dtype(model, value))
    )
    return Codes(steps, zeros)


def _maker(model: Model, name: str, kind: str) -> Any:
    node = model.makers.get(name)
    return node if node is not None and node.op_type == kind else None


def _only_reader(model: Model, name: str) -> Any:
    """The node that alone reads a value; None if several do, or the model returns it."""
    readers = model.readers.get(name, ())
    return readers[0] if model.uses[name] == len(readers) == 1 else None


def whole(array: np.ndarray) -> np.ndarray:
    """One number as an array without axes."""
    return array.reshape(()) if array.size == 1 else array
