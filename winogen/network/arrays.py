"""Nodes of ONNX as loops over arrays: what no layer and no operator of maps is.

Each node becomes a `Plain` of the graph for each of its outputs. What is no node of floats, or
reads indices that change, is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from winogen.graph import Graph, Node, Opaque
from winogen.graph.ir import Plain
from winogen.network.functions import EACH, REDUCTIONS
from winogen.network.loops import (
    MOST_AXES,
    Along,
    Each,
    Loops,
    Move,
    Normalise,
    Operand,
    Piece,
    Product,
    Reduce,
    Shape,
    all_of,
    values_of,
)
from winogen.network.resizing import resized
from winogen.onnx.model import Model, fresh
from winogen.onnx.quantized import Refused, clip_bounds
from winogen.onnx.sizes import STANDARD

_PADDING = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}  # as numpy calls them
_SEVERAL = {"Max": "Max", "Min": "Min", "Sum": "Add", "Mean": "Add"}  # of any number of operands
_SAME = ("Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
_LIKE_INPUT = (*_SAME, "GroupNormalization", "Concat", "Mish", "HardSwish")
_ONE_AXIS = {"Softmax": "softmax", "LogSoftmax": "log_softmax"}


def map_of(shape: Shape) -> Shape:
    """Return as which map an array lies in memory: its numbers in NCHW have its own order.

    >>> map_of(()), map_of((7,)), map_of((2, 3)), map_of((2, 3, 5)), map_of((2, 3, 4, 5, 6, 7))
    ((1, 1, 1, 1), (1, 7, 1, 1), (2, 3, 1, 1), (2, 3, 1, 5), (2, 3, 4, 210))
    """
    rank = len(shape)
    if rank in (4, 5):
        return shape
    if rank > 5:
        return (*shape[:3], prod(shape[3:]))
    if rank < 2:
        return (1, *shape, *[1] * (3 - rank))
    return (*shape[:2], 1, *shape[2:]) if rank == 3 else (*shape, 1, 1)


def with_loops(
    model: Model, graph: Graph, forms: Mapping[str, str]
) -> tuple[Graph, dict[str, str]]:
    """Return the graph whose Opaque nodes are loops where they can be, and why others cannot.

    ``forms``: of values that are no maps in the model.
    """
    reader, reasons, nodes = _Reader(model, forms, graph), dict[str, str](), list[Node]()
    for node in graph.nodes:
        if not isinstance(node.op, Opaque):
            nodes.append(node)
            continue
        try:
            nodes += reader.nodes(node)
        except Refused as reason:
            reasons[node.outputs[0]] = str(reason)
            nodes.append(node)
    return Graph(graph.inputs, nodes, graph.outputs), reasons


def as_array(name: str, given: str, shape: Shape, form: str) -> Node:
    """Return the node that brings a value out of its form."""
    operand = Operand(shape, given, form)
    loops = Move((Piece(operand, tuple(all_of(shape)), tuple(all_of(shape))),), shape)
    return Node(Plain("copy", map_of(shape), loops), (given,), (name,), f"{given} as it is")


class _Reader:
    """What is known of a model while its nodes are read."""

    def __init__(self, model: Model, forms: Mapping[str, str], graph: Graph):
        self.model, self.forms = model, forms
        self.taken = {*graph.inputs, *(name for node in graph.nodes for name in node.outputs)}

    def nodes(self, node: Node) -> list[Node]:
        """The nodes of the graph that compute one of the model; raises Refused."""
        proto = node.op.payload  # type: ignore[union-attr]
        if proto is None or proto.domain not in STANDARD:
            raise Refused("it is no operator of ONNX's own")
        kind = proto.op_type
        read: Callable[[Any], Any] | None = getattr(self, f"_{kind}", None)
        if kind in _SEVERAL:
            read = self._of_several
        elif kind in EACH and read is None:
            read = self._of_numbers
        elif kind in REDUCTIONS:
            read = self._reduced
        elif kind in _SAME:
            read = self._same
        elif kind in _ONE_AXIS:
            read = self._softmax
        if read is None:
            raise Refused("")
        self._check(proto)
        made = read(proto)
        if isinstance(made, list):
            steps = made
        else:
            outputs = [name for name in proto.output if name]
            whole = made if isinstance(made, tuple) else (made,)
            if len(whole) < sum(self.model.uses[name] > 0 for name in outputs):
                raise Refused("it has further outputs that are read")
            steps = list(zip(outputs, whole))
        return [self._node(name, loops, proto, node.label) for name, loops in steps]

    def _node(self, name: str, loops: Loops, proto: Any, label: str) -> Node:
        nests: list[Sequence[int]] = [loops.shape]
        if isinstance(loops, Move):
            nests = [[o.turns for o in some] for one in loops.pieces for some in one[1:]]
        elif isinstance(loops, Normalise):
            nests = [[one.turns for one in loops.view]]
        if any(sum(count > 1 for count in nest) > MOST_AXES for nest in nests):
            raise Refused(f"it takes more than {MOST_AXES} loops")
        op = Plain(proto.op_type, map_of(loops.shape), loops)
        return Node(op, values_of(loops), (name,), label)

    def _check(self, proto: Any) -> None:
        """Raise Refused for outputs that are no floats, or whose sizes are not known."""
        tensor = self.model.onnx.TensorProto
        for name in filter(None, proto.output):
            kind = self.kind(name)
            if self.model.uses[name] and kind not in (tensor.FLOAT, tensor.BOOL):
                found = tensor.DataType.Name(kind).lower() if kind else "an unknown type"
                raise Refused(f"it makes numbers of {found}")

    def kind(self, name: str) -> int:
        """The type of a value; of an operator's that onnx infers nothing of, that of its input."""
        known = self.model.kind(name)
        maker = self.model.makers.get(name)
        if known or maker is None or maker.op_type not in _LIKE_INPUT:
            return known
        return self.kind(maker.input[0])

    # ---- operands --------------------------------------------------------------------------------

    def shape(self, name: str) -> Shape:
        """The shape of a value in the model."""
        sizes = self.model.sizes.get(name)
        constant = self.model.constant(name)
        if constant is not None:
            return tuple(constant.shape)
        if sizes is None or not all(size.known for size in sizes):
            raise Refused(f"the sizes of {name} are not known")
        shape = tuple(size.number for size in sizes)
        if 0 in shape:
            raise Refused(f"{name} is empty")
        return shape

    def operand(self, name: str) -> Operand:
        """A value, or a constant of floats."""
        constant = self.model.constant(name)
        if constant is not None:
            if constant.dtype.kind not in "fb":
                raise Refused(f"{name} has numbers of {constant.dtype}")
            return Operand.of(constant)
        tensor, kind = self.model.onnx.TensorProto, self.kind(name)
        if kind not in (tensor.FLOAT, tensor.BOOL):
            raise Refused(f"{name} has numbers of {tensor.DataType.Name(kind).lower()}")
        value = self.model.aliases.get(name, name)
        return Operand(self.shape(name), value, self.forms.get(value, ""))

    def number(self, value: float) -> Operand:
        """A constant that is one number."""
        return Operand.of(value)

    def whole(self, node: Any, place: int, what: str, old: str = "") -> list[int] | None:
        """Integers of an input, or of an attribute in older opsets; None if they are not given."""
        if old and old in self.model.attributes(node):
            values = self.model.attributes(node)[old]
            return [values] if isinstance(values, int) else [*values]
        if place >= len(node.input) or not node.input[place]:
            return None
        array = self.model.constant(node.input[place])
        if array is None:
            raise Refused(f"its {what} may change from call to call")
        return [int(one) for one in array.reshape(-1)]

    def scalar(self, node: Any, place: int, default: float) -> float:
        """A number that is an input."""
        if place >= len(node.input) or not node.input[place]:
            return default
        array = self.model.constant(node.input[place])
        if array is None or array.size != 1:
            raise Refused(f"its input {place + 1} may change from call to call")
        return float(array.reshape(-1)[0])

    def broadcast(self, operands: Sequence[Operand]) -> Shape:
        """The shape that operands are broadcast to."""
        return tuple(np.broadcast_shapes(*(one.shape for one in operands)))

    def each(self, function: str, *operands: Operand) -> Each:
        """A function of each number."""
        return Each(function, operands, self.broadcast(operands))

    def then(self, steps: list[tuple[str, Loops]], loops: Loops, near: str) -> Operand:
        """Another step, before the last one; its result as an operand."""
        name = fresh(f"{near}.part", self.taken)
        steps.append((name, loops))
        return Operand(loops.shape, name)

    # ---- number by number ------------------------------------------------------------------------

    def _of_numbers(self, node: Any) -> Each:
        function = EACH[node.op_type]
        values = self.model.attributes(node)
        operands = [self.operand(name) for name in node.input]
        operands += [
            self.number(values.get(name, default)) for name, default in function.parameters
        ]
        if len(operands) != len(function.operands):
            raise Refused(f"it has {len(operands)} operands")
        return self.each(node.op_type, *operands)

    def _of_several(self, node: Any) -> list[tuple[str, Loops]]:
        first, *others = map(self.operand, node.input)
        steps: list[tuple[str, Loops]] = []
        last = node.output[0]
        if not others:
            return [(last, self._copied(first, first.shape))]
        loops: Loops | None = None
        for other in others:
            if loops is not None:
                first = self.then(steps, loops, last)
            loops = self.each(_SEVERAL[node.op_type], first, other)
        assert loops is not None
        if node.op_type == "Mean":
            whole = self.then(steps, loops, last)
            loops = self.each("Div", whole, self.number(len(node.input)))
        return [*steps, (last, loops)]

    def _Cast(self, node: Any) -> Each | Move:
        tensor = self.model.onnx.TensorProto
        x = self.operand(node.input[0])
        if self.model.attributes(node)["to"] == tensor.BOOL:
            return self.each("yes", x)
        return self._copied(x, x.shape)

    def _Clip(self, node: Any) -> Each:
        bounds = clip_bounds(self.model, node)
        low, high = (self.number(float(one)) for one in bounds)
        return self.each("Clip", self.operand(node.input[0]), low, high)

    def _Pow(self, node: Any) -> Each:
        base, power = node.input
        given = self.model.constant(power)
        known = {2.0: "square", 0.5: "Sqrt", -1.0: "Reciprocal"}
        x = self.operand(base)
        if given is not None and given.size == 1 and given.ndim <= len(x.shape):
            function = known.get(float(given.reshape(-1)[0]))
            if function:
                return self.each(function, x)
            return self.each("Pow", x, self.number(float(given.reshape(-1)[0])))
        return self.each("Pow", x, self.operand(power))

    def _Gelu(self, node: Any) -> Each:
        tanh = self.model.attributes(node).get("approximate", "none") == "tanh"
        return self.each("gelu_tanh" if tanh else "Gelu", self.operand(node.input[0]))

    def _BatchNormalization(self, node: Any) -> Each:
        values = self.model.attributes(node)
        if any(node.output[1:]) or values.get("training_mode", 0):
            raise Refused("it is in training mode")
        x = self.operand(node.input[0])
        given = [self.operand(name).constant for name in node.input[1:]]
        if any(one is None for one in given):
            raise Refused("its statistics may change from call to call")
        scale, shift, mean, var = (np.asarray(one, np.float64) for one in given)
        factor = scale / np.sqrt(var + np.float32(values.get("epsilon", 1e-5)))
        shape = (-1, *[1] * (len(x.shape) - 2))
        both = (factor.reshape(shape), (shift - mean * factor).reshape(shape))
        return self.each("scaled", x, *map(Operand.of, both))

    # ---- numbers moved ---------------------------------------------------------------------------

    def _copied(self, x: Operand, shape: Shape) -> Move:
        return Move((Piece(x, tuple(all_of(x.shape)), tuple(all_of(shape))),), shape)

    def _same(self, node: Any) -> Move:
        if node.op_type == "Dropout" and len(node.input) > 2 and node.input[2]:
            training = self.model.constant(node.input[2])
            if training is None or training.any():
                raise Refused("it may be in training mode")
        return self._copied(self.operand(node.input[0]), self.shape(node.output[0]))

    def _Transpose(self, node: Any) -> Move:
        x = self.operand(node.input[0])
        order = self.model.attributes(node).get("perm", range(len(x.shape))[::-1])
        return self._viewed(x, [Along(x.shape[axis], axis) for axis in order])

    def _viewed(self, x: Operand, loops: Sequence[Along], shape: Shape | None = None) -> Move:
        """What loops go through, in a new array with an axis for each, or of another shape."""
        made = tuple(one.turns for one in loops)
        target = all_of(made if shape is None else shape)
        return Move((Piece(x, tuple(loops), tuple(target)),), made if shape is None else shape)

    def _Slice(self, node: Any) -> Move:
        x = self.operand(node.input[0])
        rank = len(x.shape)
        starts, ends = self.whole(node, 1, "starts", "starts"), self.whole(node, 2, "ends", "ends")
        assert starts is not None and ends is not None
        axes = self.whole(node, 3, "axes", "axes") or list(range(len(starts)))
        steps = self.whole(node, 4, "steps") or [1] * len(starts)
        loops = all_of(x.shape)
        for axis, start, end, step in zip(axes, starts, ends, steps):
            size = x.shape[axis % rank]
            # An end far before the first number is none, in Python as well.
            stop = None if step < 0 and end < -size else end
            places = range(*slice(start, stop, step).indices(size))
            if not places:
                raise Refused("its output is empty")
            loops[axis % rank] = Along(len(places), axis % rank, step, places[0])
        return self._viewed(x, loops)

    def _Split(self, node: Any) -> tuple[Move, ...]:
        x = self.operand(node.input[0])
        axis = self.model.attributes(node).get("axis", 0) % len(x.shape)
        begin, made = 0, []
        for name in node.output:
            count = self.shape(name)[axis]
            loops = all_of(x.shape)
            loops[axis] = Along(count, axis, 1, begin)
            made.append(self._viewed(x, loops))
            begin += count
        return tuple(made)

    def _Gather(self, node: Any) -> Move:
        x = self.operand(node.input[0])
        axis = self.model.attributes(node).get("axis", 0) % len(x.shape)
        indices = self.whole(node, 1, "indices")
        assert indices is not None
        size = x.shape[axis]
        if not all(-size <= one < size for one in indices):
            raise Refused(f"its indices are beyond {size}")
        table = tuple(one % size for one in indices)
        loops = all_of(x.shape)
        loops[axis] = Along(len(table), axis, 1, 0, table)
        return self._viewed(x, loops, self.shape(node.output[0]))

    def _Tile(self, node: Any) -> Move:
        x, repeats = self.operand(node.input[0]), self.whole(node, 1, "repeats")
        assert repeats is not None
        if 0 in repeats:
            raise Refused("its output is empty")
        origin, target = [], []
        for axis, (count, times) in enumerate(zip(x.shape, repeats)):
            origin += [Along(times, axis, 0), Along(count, axis)]
            target += [Along(times, axis, count), Along(count, axis)]
        shape = tuple(count * times for count, times in zip(x.shape, repeats))
        return Move((Piece(x, tuple(origin), tuple(target)),), shape)

    def _Expand(self, node: Any) -> Move:
        x, shape = self.operand(node.input[0]), self.shape(node.output[0])
        more = len(shape) - len(x.shape)
        loops = [Along(count, 0, 0) for count in shape[:more]]
        for axis, count in enumerate(x.shape):
            loops.append(Along(shape[more + axis], axis, int(count > 1)))
        return self._viewed(x, loops)

    def _Concat(self, node: Any) -> Move:
        parts = [self.operand(name) for name in node.input if 0 not in self._sizes(name)]
        axis = self.model.attributes(node)["axis"] % len(parts[0].shape)
        begin, pieces = 0, []
        for part in parts:
            there = all_of(part.shape)
            there[axis] = Along(part.shape[axis], axis, 1, begin)
            pieces.append(Piece(part, tuple(all_of(part.shape)), tuple(there)))
            begin += part.shape[axis]
        shape = list(parts[0].shape)
        shape[axis] = begin
        return Move(tuple(pieces), tuple(shape))

    def _sizes(self, name: str) -> Shape:
        constant = self.model.constant(name)
        if constant is not None:
            return tuple(constant.shape)
        return tuple(size.number for size in self.model.sizes.get(name, ()) if size.known)

    def _Pad(self, node: Any) -> Move:
        x, rank = self.operand(node.input[0]), len(self.shape(node.input[0]))
        values = self.model.attributes(node)
        pads = self.whole(node, 1, "pads", "pads")
        assert pads is not None
        axes = self.whole(node, 3, "axes") or list(range(rank))
        sides = [(0, 0)] * rank
        for number, axis in enumerate(axes):
            sides[axis % rank] = pads[number], pads[number + len(axes)]
        mode, shape = values.get("mode", "constant"), self.shape(node.output[0])
        loops, there = [], []
        for axis, ((before, behind), count) in enumerate(zip(sides, x.shape)):
            if count + min(before, 0) + min(behind, 0) < 1:
                raise Refused("it leaves nothing of an axis")
            kept = np.arange(count)[max(-before, 0) : count - max(-behind, 0)]
            if mode == "constant":
                loops.append(Along(len(kept), axis, 1, int(kept[0])))
                there.append(Along(len(kept), axis, 1, max(before, 0)))
                continue
            ends = max(before, 0), max(behind, 0)
            table = np.pad(kept, ends, mode=_PADDING[mode])  # type: ignore[call-overload]
            loops.append(Along(len(table), axis, 1, 0, tuple(map(int, table))))
            there.append(Along(len(table), axis))
        old = float(values.get("value", 0.0))
        fill = old if "pads" in values else self.scalar(node, 2, 0.0)
        padded = any(max(one) > 0 for one in sides)
        piece = Piece(x, tuple(loops), tuple(there))
        return Move((piece,), shape, fill if mode == "constant" and padded else None)

    def _DepthToSpace(self, node: Any) -> Move:
        x, values = self.operand(node.input[0]), self.model.attributes(node)
        size = values["blocksize"]
        batch, channels, height, width = x.shape
        rest = channels // size**2
        planes = (size * size, size, 1) if values.get("mode", "DCR") == "CRD" else None
        steps = planes or (1, rest * size, rest)  # of channel, row and column of a block
        loops = [
            Along(batch, 0), Along(rest, 1, steps[0]), Along(height, 2), Along(size, 1, steps[1]),
            Along(width, 3), Along(size, 1, steps[2]),
        ]  # fmt: skip
        return self._viewed(x, loops, self.shape(node.output[0]))

    def _SpaceToDepth(self, node: Any) -> Move:
        x, size = self.operand(node.input[0]), self.model.attributes(node)["blocksize"]
        batch, channels, height, width = x.shape
        loops = [
            Along(batch, 0), Along(size, 2), Along(size, 3), Along(channels, 1),
            Along(height // size, 2, size), Along(width // size, 3, size),
        ]  # fmt: skip
        return self._viewed(x, loops, self.shape(node.output[0]))

    def _Resize(self, node: Any) -> list[tuple[str, Loops]]:
        x, shape = self.operand(node.input[0]), self.shape(node.output[0])
        steps: list[tuple[str, Loops]] = []
        loops = resized(self.model, node, x, shape)
        for number, make in enumerate(loops):
            made = make(x)
            if number < len(loops) - 1:
                x = self.then(steps, made, node.output[0])
            else:
                steps.append((node.output[0], made))
        return steps

    _Upsample = _Resize

    # ---- sums ------------------------------------------------------------------------------------

    def _reduced(self, node: Any) -> Reduce | Move:
        x, values = self.operand(node.input[0]), self.model.attributes(node)
        axes = self.whole(node, 1, "axes", "axes")
        if not axes and values.get("noop_with_empty_axes", 0):
            return self._copied(x, x.shape)
        rank = len(x.shape)
        chosen = tuple(sorted({axis % rank for axis in axes or range(rank)}))
        return Reduce(node.op_type, x, chosen, self.shape(node.output[0]))

    def _pooled(self, node: Any) -> Reduce:
        x = self.operand(node.input[0])
        kind = "ReduceMax" if node.op_type == "GlobalMaxPool" else "ReduceMean"
        axes = tuple(range(2, len(x.shape)))
        return Reduce(kind, x, axes, self.shape(node.output[0]))

    _GlobalAveragePool = _pooled
    _GlobalMaxPool = _pooled

    def _softmax(self, node: Any) -> Normalise:
        x, old = self.operand(node.input[0]), self.model.opset < 13
        rank = len(x.shape)
        axis = self.model.attributes(node).get("axis", 1 if old else -1) % rank
        axes = tuple(range(axis, rank)) if old else (axis,)
        return Normalise(_ONE_AXIS[node.op_type], x, tuple(all_of(x.shape)), axes, x.shape)

    def _LayerNormalization(self, node: Any) -> Normalise:
        x, values = self.operand(node.input[0]), self.model.attributes(node)
        rank = len(x.shape)
        first = values.get("axis", -1) % rank
        if values.get("stash_type", 1) != 1:
            raise Refused("it computes with other numbers than float32")
        given = [self.operand(name) for name in node.input[1:] if name]
        if any(one.shape != x.shape[first:] for one in given):
            raise Refused("its scale or shift has another shape")
        along = (*[None] * first, *(Along(n, axis) for axis, n in enumerate(x.shape[first:])))
        return self._moments(node, x, all_of(x.shape), range(first, rank), given, along)

    def _InstanceNormalization(self, node: Any) -> Normalise:
        x = self.operand(node.input[0])
        given = [self.operand(name) for name in node.input[1:]]
        along = (None, Along(x.shape[1], 0), *[None] * (len(x.shape) - 2))
        return self._moments(node, x, all_of(x.shape), range(2, len(x.shape)), given, along)

    def _MeanVarianceNormalization(self, node: Any) -> Normalise:
        x = self.operand(node.input[0])
        rank = len(x.shape)
        axes = [axis % rank for axis in self.model.attributes(node).get("axes", (0, 2, 3))]
        return self._moments(node, x, all_of(x.shape), axes, [], (), 1e-9)

    def _GroupNormalization(self, node: Any) -> Normalise:
        x, values = self.operand(node.input[0]), self.model.attributes(node)
        groups, channels = values["num_groups"], x.shape[1]
        each = channels // groups
        view = [Along(x.shape[0], 0), Along(groups, 1, each), Along(each, 1)]
        view += [Along(n, axis) for axis, n in enumerate(x.shape[2:], 2)]
        given = [self.operand(name) for name in node.input[1:]]
        by_group = self.model.opset < 21
        along = (
            None,
            Along(groups, 0, 1 if by_group else each),
            None if by_group else Along(each, 0),
            *[None] * (len(x.shape) - 2),
        )
        return self._moments(node, x, view, range(2, len(view)), given, along)

    def _moments(
        self, node: Any, x: Operand, view: Sequence[Along], axes: Sequence[int],
        given: Sequence[Operand], along: Sequence[Along | None], epsilon: float | None = None,
    ) -> Normalise:  # fmt: skip
        scale, shift = (*given, None, None)[:2]
        if epsilon is None:
            epsilon = float(np.float32(self.model.attributes(node).get("epsilon", 1e-5)))
        return Normalise(
            "moments", x, tuple(view), tuple(axes), x.shape, scale, shift, tuple(along), epsilon
        )

    def _MatMul(self, node: Any) -> Product:
        a, b = map(self.operand, node.input)
        if len(a.shape) < 2 or len(b.shape) < 2:
            raise Refused("it multiplies by a vector")
        return Product((a, b), self.shape(node.output[0]))

    def _Gemm(self, node: Any) -> list[tuple[str, Loops]]:
        values, last = self.model.attributes(node), node.output[0]
        across = bool(values.get("transA", 0)), bool(values.get("transB", 0))
        a, b = map(self.operand, node.input[:2])
        steps: list[tuple[str, Loops]] = []
        loops: Loops = Product((a, b), self.shape(last), across)
        if values.get("alpha", 1.0) != 1:
            whole = self.then(steps, loops, last)
            loops = self.each("Mul", whole, self.number(values["alpha"]))
        if len(node.input) > 2 and node.input[2]:
            more = self.operand(node.input[2])
            if values.get("beta", 1.0) != 1:
                scaled = self.each("Mul", more, self.number(values["beta"]))
                if more.constant is None:
                    more = self.then(steps, scaled, last)
                else:
                    more = Operand.of(more.constant * np.float32(values["beta"]))
            whole = self.then(steps, loops, last)
            loops = self.each("Add", whole, more)
        return [*steps, (last, loops)]
