"""The convolutions of an ONNX model that may become two, and parts of the model that are run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from winogen.conv.problem import Layer
from winogen.errors import InvalidValue, VerificationError
from winogen.lowrank.exporting import conv_node
from winogen.lowrank.form import Form
from winogen.onnx.folding import folded
from winogen.onnx.loading import new_session, require, without
from winogen.onnx.model import Model, copied, fresh
from winogen.onnx.padding import same
from winogen.onnx.samples import Sample, run
from winogen.onnx.sizes import STANDARD, input_of
from winogen.onnx.soundness import new_complaint

OPSET = 13


@dataclass(frozen=True)
class Site:
    """A convolution of constant weights."""

    place: int  # of its node in the model
    name: str
    layer: Layer  # NCHW, without its bias and what follows
    weight: np.ndarray
    bias: np.ndarray | None
    input: str
    output: str
    shape: tuple[int, ...]  # of its input, for the first sample
    obstacle: str  # why it stays as it is, in words; "" if it may become two

    @property
    def splits(self) -> bool:
        """Whether it may become two."""
        return not self.obstacle


class Net:
    """A model with its normalizations folded, and its convolutions of two axes and float32.

    ``samples``: the first says of which sizes maps are.
    """

    def __init__(self, proto: Any, samples: Sequence[Sample]):
        self.proto = folded(proto, OPSET)
        model = Model(self.proto)
        self.nodes = list(self.proto.graph.node)
        self.outputs = [value.name for value in self.proto.graph.output]
        if not self.outputs:
            raise InvalidValue("model: got one without outputs; allowed: one at least")
        self._arrays = {tensor.name: tensor for tensor in self.proto.graph.initializer}
        self._reads = [model.reads(node) for node in self.nodes]
        places = [
            place
            for place, node in enumerate(self.nodes)
            if node.op_type == "Conv" and node.domain in STANDARD and _is_constant(model, node)
        ]
        shapes = self._shapes(places, samples[0])
        self.sites = [self._site(model, place, shapes) for place in places]

    def _shapes(self, places: Sequence[int], sample: Sample) -> dict[str, tuple[int, ...]]:
        values = {name: np.shape(array) for name, array in sample.items()}
        names = {self.nodes[place].input[0] for place in places} - set(values)
        arrays = self.part(self.nodes, set(sample), sorted(names)).run(sample)
        return {**values, **{name: array.shape for name, array in arrays.items()}}

    def _site(self, model: Model, place: int, shapes: Mapping[str, tuple[int, ...]]) -> Site:
        node = self.nodes[place]
        values, weight = model.attributes(node), model.constant(node.input[1])
        assert weight is not None
        bias = model.constant(input_of(node, 2))
        kernel, shape = weight.shape[2:], shapes[node.input[0]]
        stride = tuple(values.get("strides", (1, 1)))
        dilation = tuple(values.get("dilations", (1, 1)))
        auto, pads = values.get("auto_pad", "NOTSET"), values.get("pads", (0, 0, 0, 0))
        is_same = auto in ("SAME_UPPER", "SAME_LOWER")
        if is_same:
            ends = [
                same(auto, size, s, d * (k - 1))
                for size, s, d, k in zip(shape[2:], stride, dilation, kernel)
            ]
        else:
            ends = [(0, 0)] * 2 if auto == "VALID" else [*zip(pads[:2], pads[2:])]
        layer = Layer.of(
            weight.shape, "float32", stride=stride, padding=tuple(ends), dilation=dilation,
            groups=values.get("group", 1),
        )  # fmt: skip
        name = node.name or node.output[0]
        obstacle = "padding varies" if is_same and max(stride) > 1 else ""
        if not np.isfinite(weight).all():
            obstacle = "its weights are not finite"
        elif min(layer.kernel) == 1:  # a low rank gains nothing
            obstacle = "taps along one axis"
        return Site(
            place, name, layer, weight, bias, node.input[0], node.output[0], shape, obstacle
        )

    def exclude(self, obstacles: Mapping[int, str]) -> None:
        """Leave convolutions at some places as they are, for reasons in words."""
        self.sites = [
            replace(site, obstacle=site.obstacle or obstacles.get(site.place, ""))
            for site in self.sites
        ]

    def part(
        self,
        nodes: Sequence[Any],
        known: set[str],
        wanted: Sequence[str],
        more: Mapping[str, Any] | None = None,
    ) -> Part:
        """Return nodes as a part of the model that makes values of those that are known.

        ``more``: constants that the model does not have.
        """
        return Part(self.proto, nodes, known, wanted, {**self._arrays, **(more or {})})

    def read_later(self, place: int) -> set[str]:
        """Return the names that nodes from a place on read, and the outputs."""
        return {name for reads in self._reads[place:] for name in reads} | set(self.outputs)

    def with_stages(self, stages: Mapping[int, StagedWeights]) -> Any:
        """Return a copy of the model in which the nodes at some places are two each."""
        proto = copied(self.proto)
        model = Model(proto)
        taken = model.names() | {node.name for node in proto.graph.node}
        del proto.graph.node[:]
        for place, node in enumerate(self.nodes):
            if place not in stages:
                proto.graph.node.append(node)
                continue
            made = two_nodes(node, stages[place], taken)
            proto.graph.node.extend(made.nodes)
            proto.graph.initializer.extend(made.tensors)
        read = {name for node in proto.graph.node for name in Model.reads(node)}
        kept = [tensor for tensor in proto.graph.initializer if tensor.name in read]
        del proto.graph.initializer[:]
        proto.graph.initializer.extend(kept)
        fault = new_complaint(proto, self.proto)
        if fault is not None:
            raise VerificationError(f"compress: made no model ({fault})")
        return proto


@dataclass(frozen=True)
class StagedWeights:
    """What a convolution becomes: weights of both stages as float32, and the bias."""

    layer: Layer
    form: Form
    first: np.ndarray
    second: np.ndarray
    bias: np.ndarray | None

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what `of` makes it of again."""
        bias = {} if self.bias is None else {"bias": self.bias}
        return {"first": self.first, "second": self.second, **bias}

    @classmethod
    def of(cls, layer: Layer, form: Form, arrays: Mapping[str, np.ndarray]) -> StagedWeights:
        """Return it as it was kept."""
        return cls(layer, form, arrays["first"], arrays["second"], arrays.get("bias"))


@dataclass
class Nodes:
    """Two nodes and their constants."""

    nodes: list[Any] = field(default_factory=list)
    tensors: list[Any] = field(default_factory=list)


def two_nodes(node: Any, stages: StagedWeights, taken: set[str]) -> Nodes:
    """Return what replaces a node; names are new and taken from then on."""
    tensor = require("onnx.numpy_helper").from_array
    base = node.name or node.output[0]
    arrays = [stages.first, stages.second] + ([] if stages.bias is None else [stages.bias])
    both = ("columns", "rows") if stages.form.first == "columns" else ("rows", "columns")
    names = [fresh(f"{base}_{what}", taken) for what in (*both, "bias")]
    maps = fresh(f"{base}_maps", taken)
    ends = [node.input[0], maps, node.output[0]]
    made = Nodes(tensors=[tensor(array, name) for array, name in zip(arrays, names)])
    for stage in (0, 1):
        reads = [ends[stage], names[stage], *(names[2 : len(arrays)] if stage else ())]
        name = fresh(f"{base}_stage_{stage + 1}", taken)
        made.nodes.append(conv_node(stages.layer, stages.form, stage, reads, ends[stage + 1], name))
    return made


class Part:
    """Nodes of a model as a session of their own."""

    def __init__(
        self,
        proto: Any,
        nodes: Sequence[Any],
        known: set[str],
        wanted: Sequence[str],
        arrays: Mapping[str, Any],
    ):
        self._wanted = list(wanted)
        self._reads: list[str] = []
        self._session: Any = None
        if not self._wanted:
            return
        helper = require("onnx.helper")
        model = without(proto, "graph")
        graph, types = model.graph, {value.name: value for value in proto.graph.input}
        graph.name = proto.graph.name
        graph.node.extend(nodes)
        read = {name for node in nodes for name in Model.reads(node)}
        self._reads = sorted(read & known - set(arrays))
        floats = require("onnx").TensorProto.FLOAT
        for name in self._reads:
            value = helper.make_tensor_value_info(name, floats, None)
            graph.input.append(types.get(name, value))
        graph.output.extend(helper.make_empty_tensor_value_info(name) for name in self._wanted)
        graph.initializer.extend(arrays[name] for name in sorted(read) if name in arrays)
        self._session = new_session(model)

    def run(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the values that are wanted."""
        if self._session is None:
            return {}
        sample = {name: values[name] for name in self._reads}
        return dict(zip(self._wanted, run(self._session, self._wanted, sample, 0)))


def _is_constant(model: Model, node: Any) -> bool:
    """Whether weights and bias are constants of float32, of filters with two axes."""
    arrays = [model.constant(name) for name in node.input[1:] if name]
    known = [a for a in arrays if a is not None and a.dtype == np.float32 and np.isfinite(a).all()]
    return bool(known) and len(known) == len(arrays) and known[0].ndim == 4
