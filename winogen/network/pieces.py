"""Signals in pieces: a network of causal layers that keeps what its next outputs will see.

Padding before a signal becomes a history: the last samples of the pieces before, zeros at first,
which a step puts before those of this piece. So each layer computes the outputs that a piece
completes, and no other. Its kernel is that of a long signal, as in `winogen.conv.streaming`: the
outputs have the same bits, however long the pieces are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, lcm, prod
from typing import Any, NamedTuple

import numpy as np

from winogen.errors import InvalidValue
from winogen.graph import Graph, Node
from winogen.graph.ops import History, Repeat
from winogen.graph.ops.base import Misfit, Shape
from winogen.graph.shapes import shapes
from winogen.network.loops import Each, Move, all_of
from winogen.onnx.loading import require
from winogen.onnx.model import Model, copied, fresh
from winogen.onnx.probes import required
from winogen.onnx.sizes import STANDARD

_FEWEST, _MOST = 4, 64  # pieces of the signals that a network is tested with
_NUMBERS = 100_000  # of such signals, as far as the fewest pieces allow
_ROOM = 4  # bytes of a state that keeps nothing: no array of C is empty
# Nodes that make fewer samples of some, or more, by their attribute strides.
_FEWER = frozenset("AveragePool Conv LpPool MaxPool".split())


@dataclass(frozen=True)
class Cutting:
    """A model whose signals come in pieces of so many samples."""

    proto: Any  # with signals of any length
    samples: int  # of a piece
    shapes: Mapping[str, tuple[int, ...]]  # of inputs, but for their samples

    @classmethod
    def of(cls, proto: Any, samples: int, given: Mapping[str, Sequence[int]] | None) -> Cutting:
        """Return that of a ModelProto; ``given``: sizes of inputs. Raises InvalidValue."""
        model = Model(opened := _opened(proto))
        found = {}
        for value in required(model):
            sizes = tuple((given or {}).get(value.name, ())) or _declared(value)
            if len(sizes) != 3:
                raise InvalidValue(
                    f"pieces: got {samples} with the input {value.name} of {len(sizes)} axes; "
                    "allowed: models of signals, whose inputs are (batch, channels, samples)"
                )
            found[value.name] = sizes[:2]
        whole = _multiple(model)
        if samples % whole:
            raise InvalidValue(
                f"pieces: got {samples}; allowed: multiples of {whole}, which the strides of the "
                "model make one sample"
            )
        return cls(opened, samples, found)

    def sizes(self, pieces: int = 1) -> dict[str, tuple[int, ...]]:
        """Return the sizes of all inputs, of signals of so many pieces."""
        samples = pieces * self.samples
        return {name: (*some, samples) for name, some in self.shapes.items()}


class Pieces(NamedTuple):
    """What a network in pieces keeps, and the signals that it is tested with."""

    cut: Cutting
    times: int  # pieces of these signals
    places: Mapping[str, int]  # where what a history keeps begins in the state, in numbers
    numbers: int  # of the state

    @property
    def state_bytes(self) -> int:
        """The memory that a caller keeps for a signal."""
        return max(4 * self.numbers, _ROOM)

    def split(self, array: np.ndarray) -> np.ndarray:
        """Return a signal (..., samples) as its pieces, one behind the other: (pieces, ...)."""
        return np.stack(np.split(array, self.times, -1))


def _opened(proto: Any) -> Any:
    """The model without sizes that follow from how long its signals are."""
    made = copied(proto)
    del made.graph.value_info[:]
    for value in made.graph.output:
        value.type.tensor_type.ClearField("shape")
    for value in made.graph.input:
        if value.type.tensor_type.shape.dim:
            value.type.tensor_type.shape.dim[-1].Clear()
    return made


def _declared(value: Any) -> tuple[int, ...]:
    """The sizes of an input; 1 for a batch that is open."""
    dims = value.type.tensor_type.shape.dim
    return tuple(max(dim.dim_value, int(not place)) for place, dim in enumerate(dims))


def _multiple(model: Model) -> int:
    """How many samples the strides take together, at most: each piece has some times as many."""
    rates = {value.name: Fraction(1) for value in required(model)}  # samples for each of the input
    for node in model.graph.node:
        known = [rates[name] for name in model.reads(node) if name in rates]
        if not known:
            continue
        rate, step = known[0], (model.attributes(node).get("strides") or [1])[-1]
        if node.op_type in _FEWER:
            rate /= step
        elif node.op_type == "ConvTranspose":
            rate *= step
        elif node.op_type in ("Resize", "Upsample"):
            scales = model.constant(node.input[-1 if node.op_type == "Upsample" else 2])
            if scales is not None and scales.size:
                rate *= Fraction(float(scales.ravel()[-1])).limit_denominator(1 << 16)
        rates |= dict.fromkeys(node.output, rate)
    return lcm(*(rate.denominator for rate in rates.values()))


# ---- padding behind a signal that is cut off again -----------------------------------------------


def without_ends(model: Model) -> Any:
    """Return the ModelProto in which layers do not compute what a Slice cuts off at their end.

    So exporters write causal layers: padded on both sides, and then less the last outputs.
    """
    proto = copied(model.proto)
    makers = {name: node for node in proto.graph.node for name in node.output}
    for node in proto.graph.node:
        if node.op_type != "Slice" or node.domain not in STANDARD:
            continue
        layer, count = makers.get(node.input[0]), _cut_off(model, node)
        if layer is None or not count or model.uses[node.input[0]] > 1:
            continue
        values = model.attributes(layer)
        pads, steps = [*values.get("pads", (0, 0))], values.get("strides", (1,))
        if "auto_pad" in values or "output_shape" in values or len(pads) != 2:
            continue
        if layer.op_type == "Conv" and tuple(steps) == (1,) and count <= pads[1]:
            pads[1] -= count
        elif layer.op_type == "ConvTranspose":
            pads[1] += count
        else:
            continue
        kept = [one for one in layer.attribute if one.name != "pads"]
        made = require("onnx").helper.make_attribute("pads", pads)
        del layer.attribute[:]
        layer.attribute.extend([*kept, made])
        del node.input[1:], node.attribute[:]
        node.op_type = "Identity"
    return proto


def _cut_off(model: Model, node: Any) -> int:
    """How many of the last samples a Slice leaves out, if it does nothing else; 0 if it does."""
    values = model.attributes(node)
    if len(node.input) > 1:
        names = [*node.input[1:], "", ""][:4]
        given = [model.constant(name) if name else None for name in names]
        if any(name and array is None for name, array in zip(names, given)):
            return 0
        starts, ends, axes, steps = (None if one is None else [*map(int, one)] for one in given)
    else:
        starts, ends = values["starts"], values["ends"]
        axes, steps = values.get("axes"), None
    sizes = model.sizes.get(model.aliases.get(node.input[0], node.input[0]), ())
    if len(sizes) != 3 or not sizes[-1].known or [*(axes or [])] not in ([2], [-1]):
        return 0
    if [*(starts or [])] != [0] or [*(steps or [1])] != [1] or ends is None:
        return 0
    length = sizes[-1].number
    end = ends[0] + length if ends[0] < 0 else min(ends[0], length)
    return length - end if 0 < end < length else 0


# ---- histories -----------------------------------------------------------------------------------


def in_pieces(graph: Graph, maps: Sequence[Shape], cut: Cutting) -> tuple[Graph, Pieces]:
    """Return the graph with histories before layers that see samples of pieces before.

    ``maps``: of its inputs. Raises InvalidValue that names each node that sees samples to come.
    """
    sizes = shapes(graph, dict(zip(graph.inputs, maps)))
    taken = {*sizes}
    refused, nodes = list[str](), list[Node]()
    histories: dict[tuple[str, int], str] = {}
    places, numbers, seen = dict[str, int](), 0, 0
    for node in graph.nodes:
        try:
            kept, op = _checked(node, sizes)
        except Misfit as misfit:
            refused.append(f"{node.label or node.op}: {misfit}")
            continue
        if not kept:
            nodes.append(replace(node, op=op))
            continue
        source, *added = node.inputs
        name = histories.get((source, kept))
        if name is None:
            name = histories[source, kept] = fresh(f"{source}.history", taken)
            label = node.label or str(node.op)
            nodes.append(Node(History(kept), (source,), (name,), label))
            places[name] = numbers
            numbers += kept * prod(sizes[source][:2])
            seen += ceil(kept * cut.samples / sizes[source][-1])
        nodes.append(replace(node, op=op, inputs=(name, *added)))
    if refused:
        raise InvalidValue(
            f"pieces: got a model of layers that see samples to come: {'; '.join(refused)}. "
            "Causal layers are padded before the signal alone, see docs/network.md"
        )
    count = min(max(_FEWEST, ceil(seen / cut.samples) + 2), _MOST)
    each = sum(prod(sizes[name]) for name in (*graph.inputs, *graph.outputs))
    count = max(min(count, _NUMBERS // each), _FEWEST)
    return graph.with_nodes(nodes), Pieces(cut, count, places, numbers)


def _checked(node: Node, sizes: Mapping[str, Shape]) -> tuple[int, Any]:
    """What an operator keeps, and what it is in pieces; raises Misfit."""
    op, loops, first = node.op, node.op.loops, sizes[node.inputs[0]]
    if loops is None:
        if any(sizes[name][-1] != first[-1] for name in node.reads[1:]) and not op.is_convolution:
            raise Misfit("signals of several lengths", "one")
        return op.in_pieces()
    # Loops over arrays: functions of single numbers, whose constants are the same for all samples.
    length, times = first[-1], _repeated(loops)
    if times:
        return 0, Repeat((1, times))
    if isinstance(loops, Each) and len(loops.shape) == 3 and loops.shape[-1] == length:
        ends = [(one.constant is None, (1, *one.shape)[-1]) for one in loops.operands]
        if all(size == (length if varies else 1) for varies, size in ends):
            return 0, op
    raise Misfit(f"{op}, which moves or joins samples", "functions of single numbers")


def _repeated(loops: Any) -> int:
    """How many times each sample is written, if loops do nothing else; 0 if they do."""
    if not isinstance(loops, Move) or loops.fill is not None or len(loops.pieces) != 1:
        return 0
    (piece,) = loops.pieces
    *others, last = piece.origin
    shape = piece.operand.shape
    wanted = all_of(loops.shape)
    if len(shape) != 3 or [*piece.target] != wanted or others != wanted[:-1]:
        return 0
    times = last.turns // shape[-1]
    repeated = tuple(np.repeat(np.arange(shape[-1]), times).tolist())
    return times if last.axis == 2 and last.table == repeated else 0


def check_outputs(
    shaped: Mapping[str, tuple[int, ...]], cut: Cutting, maps: Sequence[Shape]
) -> None:
    """Raise InvalidValue for outputs that are no signals; ``maps``: these in the graph."""
    for (name, shape), size in zip(shaped.items(), maps):
        if shape[-1:] != size[-1:]:
            raise InvalidValue(
                f"pieces: got {cut.samples} with the output {name} of shape {shape}; allowed: "
                "outputs whose last axis has the samples"
            )
