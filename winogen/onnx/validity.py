"""Whether a node's attributes go with its weights, and these with what it reads: ONNX's own rules.

onnxruntime finds some of these faults only when it runs, and onnx's checker finds none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NoReturn

from winogen.errors import InvalidValue
from winogen.onnx.model import Model
from winogen.onnx.sizes import STANDARD, Sizes, number

_AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
# Attributes of windows with a number for each axis, and the least that it may be.
_EACH_AXIS = {"kernel_shape": 1, "strides": 1, "dilations": 1, "output_padding": 0}


def check_nodes(model: Model) -> None:
    """Raise InvalidValue for a node that nothing can run; it names the node and what contradicts.

    Sizes that are symbols are taken to fit.
    """
    for node in model.graph.node:
        check = _CHECKS.get(node.op_type) if node.domain in STANDARD else None
        if check is not None:
            check(_Node(model, node))


class _Node:
    """A node, and what is known of its inputs."""

    def __init__(self, model: Model, node: Any):
        self.model, self.node = model, node
        self.values = model.attributes(node)

    def has(self, place: int) -> bool:
        """Whether it has this input."""
        return place < len(self.node.input) and bool(self.node.input[place])

    def sizes(self, place: int) -> Sizes | None:
        """The sizes of an input; None where nobody knows, or there is none."""
        return self.model.sizes.get(self.node.input[place]) if self.has(place) else None

    def refuse(self, what: str, got: Any, allowed: str) -> NoReturn:
        label = f"{self.node.name or self.node.output[0]} ({self.node.op_type})"
        raise InvalidValue(f"model: got {what} {got} of {label}; allowed: {allowed}")

    def refuse_input(self, what: str, place: int, allowed: str) -> NoReturn:
        """Refuse the shape of an input."""
        shape = _shape(self.sizes(place) or ())
        self.refuse(what, f"{self.node.input[place]} of shape {shape}", allowed)

    def check_vector(self, what: str, place: int, *counts: int) -> None:
        """Refuse an input that is no vector of so many numbers."""
        sizes = self.sizes(place)
        if sizes is None or not all(size.known for size in sizes):
            return
        if len(sizes) != 1 or sizes[0].number not in counts:
            shapes = " or ".join(f"({count},)" for count in dict.fromkeys(counts))
            self.refuse_input(what, place, f"shape {shapes}")


def _shape(sizes: Sequence[Any]) -> str:
    return f"({', '.join(map(str, sizes))}{',' if len(sizes) == 1 else ''})"


# ---- windows -------------------------------------------------------------------------------------


def _check_window(node: _Node, rank: int | None, taps: Sequence[Any] | None) -> None:
    """Refuse attributes of windows of so many axes; ``taps``: as the weights have them."""
    values = node.values
    auto = values.get("auto_pad", "NOTSET")
    if auto not in _AUTO_PADS:
        node.refuse("auto_pad", repr(auto), ", ".join(_AUTO_PADS))
    if rank is None:
        return
    for name, least in _EACH_AXIS.items():
        given = values.get(name)
        if given is not None and (len(given) != rank or min(given, default=least) < least):
            node.refuse(name, list(given), f"{rank} numbers, each at least {least}")
    pads = values.get("pads")
    if pads is not None and (len(pads) != 2 * rank or min(pads, default=0) < 0):
        node.refuse("pads", list(pads), f"{2 * rank} numbers, each at least 0")
    kernel = values.get("kernel_shape")
    if kernel is not None and not all(_goes_with(*both) for both in zip(taps or (), kernel)):
        node.refuse("kernel_shape", list(kernel), f"{_listed(taps or ())}, as its weights have")


def _listed(sizes: Sequence[Any]) -> str:
    return f"[{', '.join(map(str, sizes))}]"


def _check_convolution(
    node: _Node, weight: int = 1, bias: int = 2, transposed: bool = False
) -> None:
    """Refuse a convolution whose weights, bias, input and attributes contradict each other.

    ``weight``, ``bias``: which inputs these are. ``transposed``: weights are (C, M/group, ...).
    """
    x, w, groups = node.sizes(0), node.sizes(weight), node.values.get("group", 1)
    rank = len(x) - 2 if x is not None else len(w) - 2 if w is not None else None
    if groups < 1:
        node.refuse("group", groups, "1 or more")
    if w is not None and x is not None and len(w) != len(x):
        node.refuse_input("weights", weight, f"{len(x)} axes, as its input has")
    _check_window(node, rank, None if w is None else w[2:])
    asked = node.values.get("output_shape")
    if rank is not None and asked is not None and len(asked) not in (rank, rank + 2):
        node.refuse("output_shape", list(asked), f"{rank} numbers")
    if w is None or not (w[0].known and w[1].known):
        return
    whole, of_group = w[0].number, w[1].number
    if whole % groups:
        node.refuse_input("weights", weight, f"a multiple of {groups} groups first")
    channels, filters = (whole, of_group * groups) if transposed else (of_group * groups, whole)
    if x is not None and x[1].known and x[1].number != channels:
        node.refuse_input("an input", 0, f"{channels} channels, as its weights have")
    node.check_vector("a bias", bias, filters)


def _check_pool(node: _Node) -> None:
    """Refuse a pool whose attributes contradict each other."""
    x = node.sizes(0)
    _check_window(node, None if x is None else len(x) - 2, None)
    kernel, pads = node.values.get("kernel_shape"), node.values.get("pads", ())
    if kernel is None:
        node.refuse("kernel_shape", "none", "a size for each axis")
    if any(pad >= taps for pad, taps in zip(pads, [*kernel] * 2)):
        node.refuse("pads", list(pads), f"less than the window, {list(kernel)}")


# ---- norms and what is broadcast -----------------------------------------------------------------


def _check_channels(node: _Node, *counts: int) -> None:
    """Refuse parameters of a norm that are no numbers for each channel."""
    x = node.sizes(0)
    if x is None or len(x) < 2 or not x[1].known or not node.values.get("spatial", 1):
        return
    for place in range(1, len(node.node.input)):
        node.check_vector("parameters", place, x[1].number, *counts)


def _check_groups(node: _Node) -> None:
    """Refuse groups that channels are no multiple of; at first parameters were those of groups."""
    x, groups = node.sizes(0), node.values.get("num_groups", 0)
    if groups < 1:
        node.refuse("num_groups", groups, "1 or more")
    if x is not None and len(x) > 1 and x[1].known and x[1].number % groups:
        node.refuse_input("an input", 0, f"a multiple of {groups} channels")
    _check_channels(node, *([groups] if node.model.opset < 21 else []))


def _check_layer(node: _Node) -> None:
    """Refuse a scale or shift that is not broadcast to the numbers that are normalized."""
    x = node.sizes(0)
    for place in (1, 2):
        given = node.sizes(place)
        if x is None or given is None:
            continue
        axes = zip(reversed(given), reversed(x))
        fits = len(given) <= len(x) and all(_goes_with(one, other, 1) for one, other in axes)
        if not fits:
            node.refuse_input("parameters", place, f"what is broadcast to {_shape(x)}")


def _goes_with(one: Any, other: Any, *also: int) -> bool:
    """Whether a size may be another, or one of some more."""
    given = other if isinstance(other, int) else other.number if other.known else None
    return not one.known or given is None or one.number in (given, *also)


def _check_broadcast(node: _Node) -> None:
    """Refuse inputs that are not broadcast to one shape."""
    known: dict[int, tuple[int, int]] = {}  # from the last axis: a size that is not 1, and of which
    for place in range(len(node.node.input)):
        for axis, size in enumerate(reversed(node.sizes(place) or ())):
            if not size.known or size.number == 1:
                continue
            count, first = known.setdefault(axis, (size.number, place))
            if count != size.number:
                shape = _shape(node.sizes(first) or ())
                node.refuse_input("an input", place, f"what goes with shape {shape}")


def _check_gemm(node: _Node) -> None:
    """Refuse matrices that do not go together."""
    a, b, c = node.sizes(0), node.sizes(1), node.sizes(2)
    if a is None or b is None:
        return
    for place, one in enumerate((a, b)):
        if len(one) != 2:
            node.refuse_input("an input", place, "2 axes")
    rows, inner = a[::-1] if node.values.get("transA", 0) else a
    other, columns = b[::-1] if node.values.get("transB", 0) else b
    if not _goes_with(other, inner):
        node.refuse_input("an input", 1, f"{inner} numbers along the axis that is summed over")
    made = (rows, columns)
    if c is not None:
        axes = zip(reversed(c), reversed(made))
        if len(c) > 2 or not all(_goes_with(one, other, 1) for one, other in axes):
            node.refuse_input("a bias", 2, f"what is broadcast to {_shape(made)}")


def _check_matmul(node: _Node) -> None:
    """Refuse matrices that do not go together."""
    a, b = node.sizes(0), node.sizes(1)
    if a and b and not _goes_with(b[-2] if len(b) > 1 else b[0], a[-1]):
        node.refuse_input("an input", 1, f"{a[-1]} numbers along the axis that is summed over")


def _check_concat(node: _Node) -> None:
    """Refuse parts that differ along other axes."""
    parts = [(place, node.sizes(place)) for place in range(len(node.node.input))]
    known = [(place, sizes) for place, sizes in parts if sizes and number(0) not in sizes]
    axis = node.values.get("axis", 1)
    for place, sizes in known[1:]:
        first = known[0][1]
        if len(sizes) != len(first) or not all(
            _goes_with(one, other)
            for along, (one, other) in enumerate(zip(sizes, first))
            if along != axis % len(first)
        ):
            node.refuse_input("an input", place, f"{_shape(first)} but for axis {axis}")


def _check_reshape(node: _Node) -> None:
    """Refuse a shape of another number of values."""
    x, shape = node.sizes(0), node.model.constant(node.node.input[1]) if node.has(1) else None
    if x is None or shape is None or not all(one.known for one in x):
        return
    sizes, dims = [one.number for one in x], shape.reshape(-1).tolist()
    if not node.values.get("allowzero", 0):
        copied = dict(enumerate(sizes))
        dims = [one or copied.get(axis, -2) for axis, one in enumerate(dims)]
    count, fixed = prod(sizes), prod(one for one in dims if one != -1)
    fits = dims.count(-1) <= 1 and min(dims, default=1) >= -1
    if fits and -1 in dims:
        fits = count % fixed == 0 if fixed else not count
    if not fits or (-1 not in dims and count != fixed):
        node.refuse("a shape", shape.reshape(-1).tolist(), f"one of {count} numbers, {_shape(x)}")


_BROADCAST = (
    "Add And Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min Mul Or PRelu Pow Sub "
    "Sum Where Xor"
).split()
_CHECKS: Mapping[str, Callable[[_Node], None]] = {
    "Conv": _check_convolution,
    "ConvTranspose": lambda node: _check_convolution(node, transposed=True),
    "QLinearConv": lambda node: _check_convolution(node, 3, 8),
    "ConvInteger": lambda node: _check_convolution(node, 1, 9),
    "MaxPool": _check_pool,
    "AveragePool": _check_pool,
    "LpPool": _check_pool,
    "BatchNormalization": _check_channels,
    "InstanceNormalization": _check_channels,
    "GroupNormalization": _check_groups,
    "LayerNormalization": _check_layer,
    "Gemm": _check_gemm,
    "MatMul": _check_matmul,
    "Concat": _check_concat,
    "Reshape": _check_reshape,
    **dict.fromkeys(_BROADCAST, _check_broadcast),
}
