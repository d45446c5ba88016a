"""Values that hold a map otherwise: (N, H, W, C), (N, C, W) of one row, (N, C) of one pixel.

Between a Transpose and the one that takes it back, or behind a Flatten, nodes are read as operators
of maps. A value keeps its name: in the graph it is the map, in the model it has its form. Where a
part of the graph becomes a node, what it reads and makes is brought from one to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from winogen.graph import Conv, GlobalAverage, LayerNorm, Softmax
from winogen.onnx.matching import Match
from winogen.onnx.patterns import Patterns, affine
from winogen.onnx.rows import LIFTED, STARTS, Rows
from winogen.onnx.sizes import ACTIVE, Sizes, input_of, number


class Form(NamedTuple):
    """Where the axis of the channels is, and which nodes turn a map into the form and back."""

    channels: int
    rank: int
    into: tuple[str, tuple[int, ...]]  # a node's operator and the axes it is about
    back: tuple[str, tuple[int, ...]]

    def map_sizes(self, sizes: Sequence[Any], one: Any) -> tuple[Any, ...]:
        """Return the sizes of the map of a value with these; ``one`` is that of a new axis."""
        kind, axes = self.back
        if kind == "Transpose":
            return tuple(sizes[axis] for axis in axes)
        made = list(sizes)
        for axis in axes:
            made.insert(axis, one)
        return tuple(made)


FORMS = {
    "last": Form(3, 4, ("Transpose", (0, 2, 3, 1)), ("Transpose", (0, 3, 1, 2))),
    "flat": Form(1, 2, ("Squeeze", (2, 3)), ("Unsqueeze", (2, 3))),
    "row": Form(1, 3, ("Squeeze", (2,)), ("Unsqueeze", (2,))),
    "thin": Form(1, 3, ("Squeeze", (3,)), ("Unsqueeze", (3,))),
}


def turning(
    model: Any,
    way: tuple[str, tuple[int, ...]],
    source: str,
    target: str,
    name_of: Callable[[np.ndarray], str],
) -> Any:
    """Return the node that brings a value into another form; ``name_of`` names a constant of it.

    It has no name, since one of the original's nodes may be called as the value is.
    """
    kind, axes = way
    make = model.onnx.helper.make_node
    if kind == "Transpose":
        return make(kind, [source], [target], perm=axes)
    if model.opset < 13:
        return make(kind, [source], [target], axes=axes)
    return make(kind, [source, name_of(np.array(axes, np.int64))], [target])


_EACH = ACTIVE | {"Add", "Sum", "Mul", "Div", "Max", "Min"}
_PIXEL = (number(1), number(1))


class Held(NamedTuple):
    """A value of the graph, and the form in which another holds it; "" for the map itself."""

    value: str
    form: str


class Forms:
    """What is known of the values of a model whose numbers are of one type.

    ``held``: values by what they hold. ``made``: the forms of the graph's values that are not maps.
    """

    def __init__(self, patterns: Patterns):
        self.model, self.patterns = patterns.model, patterns
        self._rows = Patterns(Rows(self.model), patterns.kind, patterns.everywhere)  # type: ignore[arg-type]
        self.held: dict[str, Held] = {}
        self.made: dict[str, str] = {}

    def enter(self, node: Any) -> bool:
        """Note what a node holds that moves no numbers, as far as maps go; whether it does."""
        if not node.input or len(node.output) != 1:
            return False
        source, output = self._source(node.input[0]), node.output[0]
        if source is None or self.model.sizes.get(output) is None:
            return False
        form = self._moved(node, source)
        if form is None:
            return False
        self.held[output] = Held(source.value, form)
        return True

    def match(self, node: Any) -> Any:
        """Return what a node means that reads values in a form; None for any other."""
        mean = self._flat_mean(node)
        if mean is not None:
            return mean
        reads = [*node.input]
        if node.op_type == "Div" and node.input[0] in self.model.makers:  # of a norm by parts
            reads += self.model.makers[node.input[0]].input
        found = self._each(node)
        if found is not None:
            reads = [*found.inputs]
        forms = {held.form for held in map(self._held, reads) if held is not None}
        forms.discard("")
        if len(forms) != 1 or len(node.output) < 1:
            return None
        (form,) = forms
        sizes = self.model.sizes.get(node.output[0])
        if sizes is None or len(sizes) != FORMS[form].rank or form in ("row", "thin"):
            return None
        if found is None:
            maker = getattr(self, f"_{node.op_type}", None)
            found = maker(node, form) if maker is not None else None
        if found is None or not self._fits(found, sizes, form):
            return None
        values = [held.value for held in map(self._held, found.inputs) if held is not None]
        self.made[node.output[0]] = form
        self.held[node.output[0]] = Held(node.output[0], form)
        return Match(found.op, tuple(values), found.within)

    def row(self, node: Any) -> Match | None:
        """Return what a node of signals means, of their maps; None for any other.

        Signals begin where a node says that they are some, as other arrays have three axes, too.
        """
        if node.op_type not in LIFTED or node.input[0] not in self._rows.model.sizes:
            return None
        found = self._rows.match(node)
        names = [self.model.aliases.get(one, one) for one in found.inputs] if found else []
        held = [self._held(name) for name in names]
        if found is None or any(one is not None and one.form != "row" for one in held):
            return None
        if node.op_type not in STARTS and not any(held):
            return None
        for name in [*names, *filter(None, node.output)]:
            if name not in self.held:
                self.made[name] = "row"
                self.held[name] = Held(name, "row")
        return found._replace(inputs=tuple(self.held[name].value for name in names))

    def resolved(self, match: Match | None) -> Match | None:
        """Return a match whose inputs are the values that hold its maps."""
        if match is None:
            return None
        held = [self._held(name) for name in match.inputs]
        if any(one is not None and one.form for one in held):
            return None
        names = (one.value if one else name for one, name in zip(held, match.inputs))
        return match._replace(inputs=tuple(names))

    # ---- values ----------------------------------------------------------------------------------

    def _held(self, name: str) -> Held | None:
        return self.held.get(self.model.aliases.get(name, name))

    def _is_held(self, name: str, form: str) -> bool:
        held = self._held(name)
        return held is not None and held.form == form

    def _source(self, name: str) -> Held | None:
        held, name = self._held(name), self.model.aliases.get(name, name)
        if held is not None:
            return held
        return Held(name, "") if self.patterns._is_map(name) else None

    def _moved(self, node: Any, source: Held) -> str | None:
        """The form in which a node has what it reads; None where it computes something."""
        kind, values = node.op_type, self.model.attributes(node)
        if kind == "Transpose":
            order = tuple(values.get("perm", ()))
            ways = {("", (0, 2, 3, 1)): "last", ("last", (0, 3, 1, 2)): ""}
            return ways.get((source.form, order))
        if kind not in ("Flatten", "Reshape", "Squeeze", "Unsqueeze") or source.form == "last":
            return None
        before, after = self.model.sizes[node.input[0]], self.model.sizes[node.output[0]]
        if source.form == "" and len(before) != 4:  # no form is one of volumes
            return None
        if source.form == "row" and after == (*before[:2], number(1), *before[2:]):
            return ""
        if source.form == "" and after == (*before[:2], *before[3:]) and before[2] == number(1):
            return "row"
        if source.form == "" and before[2:] != _PIXEL:
            return None
        if before[:2] != after[:2] or any(size != number(1) for size in after[2:]):
            return None
        return {2: "flat", 3: "thin", 4: ""}.get(len(after))

    def _channels(self, name: str, form: str) -> int:
        """How many channels a value has; 0 where nobody knows."""
        size = self.model.sizes[name][FORMS[form].channels]
        return size.number if size.known else 0

    def _vector(self, name: str, form: str, channels: int) -> np.ndarray | None:
        """A constant with a number per channel, or one for all."""
        array = self.patterns._array(name)
        rank = FORMS[form].rank
        if array is None or array.ndim > rank or array.size not in (1, channels):
            return None
        if array.size > 1 and array.shape[-1] != channels:
            return None
        return np.ascontiguousarray(np.broadcast_to(array.reshape(-1), (channels,)))

    # ---- nodes -----------------------------------------------------------------------------------

    def _flat_mean(self, node: Any) -> Any:
        """The mean of every channel without the axes of pixels."""
        if node.op_type != "ReduceMean" or self.model.attributes(node).get("keepdims", 1):
            return None
        source = self._source(node.input[0])
        if source is None or source.form or self.patterns._mean_axes(node) != {2, 3}:
            return None
        if len(self.model.sizes[node.input[0]]) != 4:
            return None
        self.made[node.output[0]] = "flat"
        self.held[node.output[0]] = Held(node.output[0], "flat")
        return Match(GlobalAverage(), (source.value,))

    def _each(self, node: Any) -> Match | None:
        """What does the same to every number, wherever axes are, of values in one form."""
        if node.op_type not in _EACH or len(self.model.sizes.get(node.output[0], ())) < 2:
            return None
        found = self.patterns.read(node)
        held = [self._held(name) for name in found.inputs] if found is not None else []
        if found is None or None in held or len({one.form for one in held if one}) != 1:
            return None
        alike = len({self.model.sizes.get(name) for name in found.inputs}) == 1
        simple = found.op.is_elementwise and not found.op.parameters
        return found if alike and simple else None

    def _fits(self, found: Match, sizes: Sizes, form: str) -> bool:
        """Whether an output of these sizes is what follows from those of the first input."""
        made = list(self.model.sizes[found.inputs[0]])
        if found.op.is_convolution:
            made[FORMS[form].channels] = number(found.op.channels_after())
        return len(made) == len(sizes) and all(
            one == other for one, other in zip(made, sizes) if one.known and other.known
        )

    def _linear(self, node: Any, form: str, weight: Any, bias: Any) -> Any:
        if weight is None or weight.ndim != 2 or not self._is_held(node.input[0], form):
            return None
        if weight.shape[1] != self._channels(node.input[0], form):
            return None
        filters = np.ascontiguousarray(weight)[:, :, None, None]
        return Match(Conv(filters, bias), (node.input[0],))

    def _MatMul(self, node: Any, form: str) -> Any:
        weight = self.patterns._array(node.input[1])
        return None if weight is None else self._linear(node, form, weight.T, None)

    def _Gemm(self, node: Any, form: str) -> Any:
        values = self.model.attributes(node)
        weight = self.patterns._array(node.input[1])
        scales = {values.get("alpha", 1.0), values.get("beta", 1.0)}
        if weight is None or scales != {1.0} or values.get("transA", 0) or weight.ndim != 2:
            return None
        weight, bias = (weight if values.get("transB", 0) else weight.T), None
        if name := input_of(node, 2):
            bias = self._vector(name, form, len(weight))
            if bias is None:
                return None
        return self._linear(node, form, weight, bias)

    def _Add(self, node: Any, form: str) -> Any:
        return self._affine(node, form, lambda v: (np.ones_like(v), v))

    def _Mul(self, node: Any, form: str) -> Any:
        return self._affine(node, form, lambda v: (v, np.zeros_like(v)))

    def _affine(self, node: Any, form: str, pair: Any) -> Any:
        """A sum or a product with a constant of the last axis."""
        for x, other in (node.input, reversed(node.input)):
            if self._is_held(x, form):
                values = self._vector(other, form, self._channels(x, form))
                if values is not None and self.model.sizes[x] == self.model.sizes[node.output[0]]:
                    scale, shift = pair(values)
                    return affine(scale, shift, x)
        return None

    def _Softmax(self, node: Any, form: str) -> Any:
        axis = self.model.attributes(node).get("axis", 1 if self.model.opset < 13 else -1)
        if axis % FORMS[form].rank != FORMS[form].channels:
            return None
        return Match(Softmax(), (node.input[0],))

    def _LayerNormalization(self, node: Any, form: str) -> Any:
        values, channels = self.model.attributes(node), self._channels(node.input[0], form)
        if values.get("axis", -1) % FORMS[form].rank != FORMS[form].channels:
            return None
        if any(node.output[1:]) or values.get("stash_type", 1) != 1:
            return None
        given: list[np.ndarray | None] = [None, None]
        for place, name in enumerate(node.input[1:]):
            given[place] = self._vector(name, form, channels)
            if given[place] is None:
                return None
        scale, shift = given
        epsilon = float(np.float32(values.get("epsilon", 1e-5)))
        return Match(LayerNorm(scale, shift, epsilon), (node.input[0],))

    def _Div(self, node: Any, form: str) -> Any:
        """A layer norm by parts: numbers less their mean, by the root of their mean square."""
        makers, scalar = self.model.makers, self.patterns._scalar
        apart = makers.get(node.input[0])
        root = self.patterns._alone(node.input[1], "Sqrt")
        total = self.patterns._alone(root.input[0], "Add") if root is not None else None
        if apart is None or apart.op_type != "Sub" or total is None:
            return None
        epsilon = scalar(total.input[1])
        square = self.patterns._alone(total.input[0], "ReduceMean")
        power = self.patterns._alone(square.input[0], "Pow") if square is not None else None
        mean = self.patterns._alone(apart.input[1], "ReduceMean")
        if epsilon is None or power is None or mean is None or scalar(power.input[1]) != 2:
            return None
        same = power.input[0] == node.input[0] and mean.input[0] == apart.input[0]
        if (
            not same
            or self.model.uses[node.input[0]] != 2
            or not self._is_held(apart.input[0], form)
        ):
            return None
        axis = {FORMS[form].channels}
        for one in (mean, square):
            if self.patterns._mean_axes(one) != axis or not self.model.attributes(one).get(
                "keepdims", 1
            ):
                return None
        within = (apart, root, total, square, power, mean)
        return Match(LayerNorm(None, None, epsilon), (apart.input[0],), within)
