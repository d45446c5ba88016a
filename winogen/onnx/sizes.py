"""Sizes of a model's values, as far as they can be proven: numbers, or symbols to compare.

A dynamic height stays the same through a padded 3x3 convolution. onnx's own inference gives it up
there, and then nobody knows whether a residual addition broadcasts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from winogen.onnx.padding import is_whole, transposed, windows
from winogen.records import ACTIVATIONS


def input_of(node: Any, place: int) -> str:
    """Return the name of an input of a node; "" where it is left out."""
    return node.input[place] if place < len(node.input) else ""


class Size(NamedTuple):
    """A symbol and a number that are added; ``symbol`` is "" for a plain number.

    >>> print(Size("h", 0) + 2, Size("", 3) + 2)
    h+2 5
    """

    symbol: str
    number: int

    def __add__(self, other: Any) -> Size:
        return Size(self.symbol, self.number + other)

    def __str__(self) -> str:
        if not self.symbol:
            return str(self.number)
        return f"{self.symbol}{self.number:+d}" if self.number else self.symbol

    @property
    def known(self) -> bool:
        """Whether it is a number."""
        return not self.symbol

    def divided(self, divisor: int) -> Size:
        """Return it divided, rounded down."""
        if divisor == 1:
            return self
        if self.known:
            return Size("", self.number // divisor)
        return Size(f"({self})//{divisor}", 0)

    def times(self, factor: int) -> Size:
        """Return it multiplied."""
        if factor == 1:
            return self
        return Size("", self.number * factor) if self.known else Size(f"({self})*{factor}", 0)


Sizes = tuple[Size, ...]

STANDARD = ("", "ai.onnx")  # two names of ONNX's own operators

# Activations of winogen's.
ACTIVE = frozenset(function.names for known in ACTIVATIONS.values() for function in known.onnx)

# One input decides.
_ALIKE = ACTIVE | frozenset(
    "BatchNormalization Cast Ceil Celu Dropout Elu Erf Exp Floor HardSigmoid Identity "
    "GroupNormalization InstanceNormalization LRN LayerNormalization Log LpNormalization Mish "
    "Neg Reciprocal Selu Sigmoid Softmax Softplus Softsign Sqrt Tanh ThresholdedRelu".split()
)
POOLS = ("MaxPool", "AveragePool", "LpPool")
_BROADCAST = frozenset("Add Sub Mul Div Pow Max Min Sum Mean".split())


def number(value: int) -> Size:
    """Return a size that is known."""
    return Size("", value)


def is_open(dim: Any) -> bool:
    """Whether a size is written as -1 or "?", by which some exporters mean any."""
    return bool(dim.dim_value < 0 or dim.dim_param == "?")


def declared(value: Any) -> Sizes | None:
    """Return the sizes of a ValueInfoProto, symbols of its own for what it leaves open."""
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not kind.HasField("shape"):
        return None
    sizes = []
    for axis, dim in enumerate(kind.shape.dim):
        if dim.HasField("dim_value") and not is_open(dim):
            sizes.append(number(dim.dim_value))
        else:
            named = "" if is_open(dim) else dim.dim_param
            sizes.append(Size(named or f"{value.name}:{axis}", 0))
    return tuple(sizes)


def propagate(
    nodes: Iterable[Any],
    known: dict[str, Sizes],
    attributes: Callable[[Any], dict[str, Any]],
    constant: Callable[[str], Any],
) -> dict[str, Sizes]:
    """Return the sizes of all values that follow from ``known``, the sizes of some.

    ``nodes``: NodeProtos in an order in which they can be computed. What is in ``known`` and has
    symbols is replaced by what its node makes of its inputs, which says more.
    """
    sizes = dict(known)
    contents: dict[str, Sizes] = {}  # of lists of sizes
    for node in nodes:
        listed = _listed(node, sizes, contents, attributes(node), constant)
        if listed is not None:
            contents[node.output[0]] = listed
        inputs = [sizes.get(name) for name in node.input]
        made = _outputs(node, inputs, attributes(node), constant)
        if node.op_type == "Reshape" and node.domain in STANDARD and inputs[0] is not None:
            made = _reshaped(inputs[0], _list_of(node.input[1], contents, constant))
        if made is None or not node.output:
            continue
        before = sizes.get(node.output[0])
        if before is None or len(before) != len(made):
            sizes[node.output[0]] = made
        else:  # a number beats a symbol
            sizes[node.output[0]] = tuple(b if b.known else m for b, m in zip(before, made))
    return sizes


def _outputs(node: Any, inputs: list, attributes: dict[str, Any], constant: Any) -> Sizes | None:
    kind = node.op_type
    if node.domain not in STANDARD or not inputs or inputs[0] is None:
        return None
    if kind in _ALIKE:
        return inputs[0]
    if kind in _BROADCAST:
        return _broadcast(inputs)
    if kind == "Concat":
        return _joined(inputs, attributes.get("axis", 1))
    if kind in ("Gemm", "MatMul") and inputs[1] is not None and len(inputs[1]) == 2:
        if attributes.get("transA", 0) or (kind == "Gemm" and len(inputs[0]) != 2):
            return None
        return (*inputs[0][:-1], inputs[1][0 if attributes.get("transB", 0) else 1])
    if kind == "Slice":
        return _cut(inputs[0], node, attributes, constant)
    if not 3 <= len(inputs[0]) <= 5:
        return None
    if kind == "Conv":
        return _windows(inputs[0], attributes, inputs[1])
    if kind == "ConvTranspose":
        return _enlarged(inputs[0], attributes, inputs[1])
    if kind in POOLS:
        return _windows(inputs[0], attributes, None)
    if kind == "GlobalAveragePool":
        return (*inputs[0][:2], *(number(1) for _ in inputs[0][2:]))
    if kind == "Resize":
        return _resized(inputs[0], attributes, node, constant)
    if kind == "Pad":
        pads = constant(node.input[1]) if len(node.input) > 1 else attributes.get("pads")
        rank = len(inputs[0])
        if pads is None or len(pads) != 2 * rank or input_of(node, 3):
            return None
        return tuple(s + int(pads[i]) + int(pads[i + rank]) for i, s in enumerate(inputs[0]))
    return None


def _list_of(name: str, contents: dict[str, Sizes], constant: Any) -> Sizes | None:
    """The sizes that a value lists; 0 and -1 are as they stand there."""
    numbers = constant(name)
    if numbers is None or numbers.ndim > 1 or numbers.dtype.kind != "i":
        return contents.get(name)
    return tuple(number(int(one)) for one in numbers.reshape(-1))


def _listed(
    node: Any, sizes: dict[str, Sizes], contents: dict[str, Sizes], values: Any, constant: Any
) -> Sizes | None:
    """The sizes that the output of a node lists: those of a value, some of them, put together."""
    kind = node.op_type
    if node.domain not in STANDARD or not node.input:
        return None
    if kind == "Shape" and not values.get("start") and values.get("end") is None:
        return sizes.get(node.input[0])
    lists = [_list_of(name, contents, constant) for name in node.input if name]
    if kind in ("Unsqueeze", "Squeeze", "Cast", "Identity"):
        return lists[0]
    if kind == "Concat" and None not in lists:
        return tuple(size for one in lists if one is not None for size in one)
    place = constant(node.input[1]) if kind == "Gather" else None
    if lists[0] is None or place is None or place.size != 1:
        return None
    index = int(place.reshape(-1)[0])
    return lists[0][index : index + 1 or None] if -len(lists[0]) <= index < len(lists[0]) else None


def _reshaped(x: Sizes, target: Sizes | None) -> Sizes | None:
    """The sizes of a Reshape; the one that is left open, -1, is what the others leave."""
    if target is None:
        return None
    open_size, copied = number(-1), number(0)
    if any(one == copied and place >= len(x) for place, one in enumerate(target)):
        return None
    made = [x[place] if one == copied else one for place, one in enumerate(target)]
    if open_size not in made:
        return tuple(made)
    left, whole = [*x], [one for one in made if one != open_size]
    for one in list(whole):  # symbols must go with symbols
        if one in left and not one.known:
            left.remove(one)
            whole.remove(one)
    if not all(one.known for one in (*left, *whole)):
        return None
    rest, of = math.prod(one.number for one in left), math.prod(one.number for one in whole)
    if not of or rest % of:
        return None
    return tuple(number(rest // of) if one == open_size else one for one in made)


def _broadcast(inputs: list[Sizes | None]) -> Sizes | None:
    shapes = [shape for shape in inputs if shape is not None]
    if len(shapes) < len(inputs):
        return None
    rank = max(map(len, shapes))
    result = []
    for axis in range(-rank, 0):
        along = {shape[axis] for shape in shapes if len(shape) >= -axis} - {number(1)}
        if len(along) > 1:
            return None
        result.append(along.pop() if along else number(1))
    return tuple(result)


def _joined(inputs: list[Sizes | None], axis: int) -> Sizes | None:
    shapes = [shape for shape in inputs if shape is not None]
    if len(shapes) < len(inputs) or not -len(shapes[0]) <= axis < len(shapes[0]):
        return None
    along = [shape[axis] for shape in shapes]
    if not all(size.known for size in along):
        return None
    result = list(shapes[0])
    result[axis] = number(sum(size.number for size in along))
    return tuple(result)


def sliced(size: int, start: int, end: int, step: int) -> range:
    """Return the places of an axis that Slice takes.

    Ends are cut off as ONNX says: going backward, those before the first number begin at it, where
    a slice of Python has none.

    >>> [*sliced(5, -9, 3, 1)], [*sliced(5, 9, -9, -2)], [*sliced(5, -9, -20, -1)]
    ([0, 1, 2], [4, 2, 0], [0])
    """
    start, end = (one + size if one < 0 else one for one in (start, end))
    if step < 0:
        return range(min(max(start, 0), size - 1), min(max(end, -1), size - 1), step)
    return range(min(max(start, 0), size), min(max(end, 0), size), step)


def _cut(x: Sizes, node: Any, attributes: dict[str, Any], constant: Any) -> Sizes | None:
    """Of a Slice whose ends and steps are constants, along axes that are known."""
    given: list[Any] = [attributes.get(name) for name in ("starts", "ends", "axes")] + [None]
    for place, name in enumerate(node.input[1:5]):
        if name:
            array = constant(name)
            if array is None:
                return None
            given[place] = array.reshape(-1).tolist()
    starts, ends, axes, steps = given
    if starts is None or ends is None:
        return None
    made = list(x)
    for start, end, axis, step in zip(
        starts, ends, axes or range(len(starts)), steps or [1] * len(starts)
    ):
        if not -len(x) <= axis < len(x) or not x[axis].known or step == 0:
            return None
        made[axis] = number(len(sliced(x[axis].number, start, end, step)))
    return tuple(made)


def _windows(x: Sizes, attributes: dict[str, Any], weight: Sizes | None) -> Sizes | None:
    """Of a convolution with these weights, or of a pooling without."""
    channels, rank = x[1], len(x) - 2
    taps = attributes.get("kernel_shape")
    if weight is not None:
        if len(weight) != len(x) or not all(size.known for size in weight):
            return None
        channels, taps = weight[0], [size.number for size in weight[2:]]
    if taps is None or len(taps) != rank or not is_whole(attributes, rank):
        return None
    pads = attributes.get("pads", [0] * 2 * rank)
    strides, dilations = (attributes.get(name, [1] * rank) for name in ("strides", "dilations"))
    auto_pad = attributes.get("auto_pad", "NOTSET")
    result = [x[0], channels]
    for axis in range(rank):
        size, reach = x[2 + axis], dilations[axis] * (taps[axis] - 1)
        if size.known:
            made = windows(attributes, axis, rank, size.number, taps[axis])
            result.append(number(made.outputs))
            continue
        if attributes.get("ceil_mode", 0):
            return None
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            result.append((size + (strides[axis] - 1)).divided(strides[axis]))
            continue
        padding = 0 if auto_pad == "VALID" else pads[axis] + pads[axis + rank]
        result.append((size + (padding - reach - 1)).divided(strides[axis]) + 1)
    return tuple(result)


def _enlarged(x: Sizes, attributes: dict[str, Any], weight: Sizes | None) -> Sizes | None:
    """Of a transposed convolution with these weights, (C, M/group, ...)."""
    rank = len(x) - 2
    if weight is None or len(weight) != len(x) or not all(size.known for size in weight):
        return None
    if not is_whole(attributes, rank):
        return None
    strides, dilations = (attributes.get(name, [1] * rank) for name in ("strides", "dilations"))
    made = []
    for axis, (size, taps) in enumerate(zip(x[2:], weight[2:])):
        ends = transposed(attributes, axis, rank, size, taps.number)
        if ends is None:
            return None
        reach = dilations[axis] * (taps.number - 1) + 1
        longer = reach + ends.more - ends.before - ends.after
        made.append((size + -1).times(strides[axis]) + longer)
    return (x[0], weight[1].times(attributes.get("group", 1)), *made)


def _resized(x: Sizes, attributes: dict[str, Any], node: Any, constant: Any) -> Sizes | None:
    scales = constant(name) if (name := input_of(node, 2)) else None
    if scales is None or len(scales) != len(x) or attributes.get("axes"):
        return None
    if any(scale != int(scale) or scale < 1 for scale in scales):
        return None
    return tuple(size.times(int(scale)) for size, scale in zip(x, scales))
