"""A simplified graph as a model: segments as nodes of winogen's own, all else as it was."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from winogen.conv.quantization import QuantizedFilters
from winogen.graph import Graph, cut
from winogen.graph.ir import Node
from winogen.graph.lower import Step, lower
from winogen.graph.ops import Joined, QConv, Scaled
from winogen.graph.places import Buffer, Place
from winogen.onnx.between import written
from winogen.onnx.code_answers import put_tiles
from winogen.onnx.code_reading import CodeRun
from winogen.onnx.constants import Constants
from winogen.onnx.forms import FORMS, turning
from winogen.onnx.layers import activation_of, depth_of, numbers_of, pads_of
from winogen.onnx.loading import without
from winogen.onnx.model import Model, fresh, named_apart
from winogen.onnx.operators import OWN_DOMAIN
from winogen.onnx.originals import Original, held, original_of
from winogen.onnx.reading import Reading
from winogen.onnx.sizes import STANDARD
from winogen.onnx.soundness import Part

VERSION = 1  # of the operators: raised when a node would mean something else


class Writer:
    """Writes one model.

    ``settings``: attributes of every node of winogen's. ``excluded``: values that the framework
    goes on to compute. ``tolerances``: those of single layers, by what they make.
    """

    def __init__(
        self,
        model: Model,
        reading: Reading,
        settings: Mapping[str, Any],
        excluded: Collection[str] = (),
        tolerances: Mapping[str, float] | None = None,
    ):
        self.model = model
        self.reading = reading
        self.excluded = excluded
        self.layers: list[tuple[Any, list[str]]] = []  # nodes, and what each of their layers makes
        self.within: dict[str, list[str]] = {}  # output of a segment -> all that it computes
        self.codes: dict[str, list[str]] = {}  # the same of runs of codes
        self.tolerances = tolerances or {}
        self.settings = {name: value for name, value in settings.items() if value is not None}
        self.helper = model.onnx.helper
        kind = reading.kind or model.onnx.TensorProto.FLOAT
        self.dtype = model.onnx.helper.tensor_dtype_to_np_dtype(kind)
        self.nodes: list[Any] = []
        self.made = {value.name for value in model.graph.input}  # values that are there
        self.taken = model.names()
        self.constants = Constants(model, self.taken)
        self.ranks: dict[str, int] = {}  # of maps
        self.convolutions = 0
        self.segments = 0
        self.quantized = 0
        self.runs = 0  # of codes, with most of them
        self.turned: dict[str, str] = {}  # maps that nodes made of values in other forms
        self.keeps = True  # whether nodes of open sizes hold their originals

    def write(self, graph: Graph) -> Any:
        """Return the ModelProto of ``graph``, a simplified form of the one that was read."""
        channels = self._channels(graph)
        for piece in cut(graph, self.excluded):
            if piece.ours:
                self._segment(piece.graph, channels)
            else:
                self._theirs(piece.graph)
        return self._assembled()

    def apart(self, graph: Graph) -> Iterator[Part]:
        """Yield each convolution as a node of its own; ``constants`` are those of them all.

        A writer that was asked for this writes no model any more.
        """
        channels, self.keeps = self._channels(graph), False
        for node in graph.nodes:
            if node.op.is_convolution and node.output not in self.excluded:
                inputs, first = list(dict.fromkeys(node.reads)), len(self.nodes)
                self.turned.clear()
                self._segment(Graph(inputs, [node], node.outputs), channels)
                yield Part(self.nodes[first:], inputs, list(node.outputs))

    # ---- nodes -----------------------------------------------------------------------------------

    def _theirs(self, graph: Graph) -> None:
        """What the framework goes on to run: all nodes that were folded or fused into it, too.

        Nodes of bytes are ours, one by one.
        """
        (node,) = graph.nodes
        if node.op.quantized:
            self._bytes(node, node.op.quantized)
            return
        if isinstance(node.op.payload, CodeRun):
            self._codes(node, node.op.payload)
            return
        between = written(self.model, node, self.constants.name, self._chosen("threads"))
        if between:
            self.nodes += between
            self.made.update(name for made in between for name in made.output)
            return
        for original in self.model.cone(graph.outputs, self.made):
            self.nodes.append(self.model.renamed(original))
            self.made.update(original.output)

    def _segment(self, graph: Graph, channels: Mapping[str, int]) -> None:
        """A segment as one node: `Conv` if it is one convolution of whole arrays, mostly."""
        shapes = {name: (0, count, *[0] * self.ranks[name]) for name, count in channels.items()}
        steps, buffers = lower(graph, shapes, np.dtype(self.dtype))
        self.convolutions += len(graph.convolutions)
        self.segments += 1
        values = [node.output for node in graph.nodes]
        self.within.update(dict.fromkeys(graph.outputs, values))
        counts = {buffer: shape[1] for buffer, shape in buffers.items()}
        alone = len(steps) == 1 and steps[0].op.is_convolution
        maps = [self._as_map(name) for name in graph.inputs]
        results = [
            fresh(f"{name}.map", self.taken) if name in self.reading.forms else name
            for name in graph.outputs
        ]
        original = self._original(graph)
        alone = alone and _whole(steps[0], counts) and not self._taken_for_onnx(graph)
        if not (alone and self._conv(steps[0], maps, results, original)):
            self._layers(steps, counts, maps, results, original)
        for name, result in zip(graph.outputs, results):
            if name != result:
                self._turn(FORMS[self.reading.forms[name]].into, result, name)

    def _original(self, graph: Graph) -> Original | None:
        """What onnxruntime may run in the place of a segment, where that is known."""
        if not self.keeps:
            return None
        forms = self.reading.forms
        return original_of(self.model, graph.inputs, graph.outputs, forms, self.constants.name)

    def _as_map(self, name: str) -> str:
        """The name of a value as a map, which a node makes of it if it has another form."""
        if name not in self.reading.forms:
            return name
        if name not in self.turned:
            self.turned[name] = fresh(f"{name}.map", self.taken)
            self._turn(FORMS[self.reading.forms[name]].back, name, self.turned[name])
        return self.turned[name]

    def _turn(self, way: tuple[str, tuple[int, ...]], source: str, target: str) -> None:
        """Write the node that brings a value into another form."""
        name_of = partial(self.constants.name, key="pixel", what="axes")
        self.nodes.append(turning(self.model, way, source, target, name_of))
        self.made.add(target)

    def _layers(
        self,
        steps: Sequence[Step],
        counts: Mapping[Buffer, int],
        maps_read: Sequence[str],
        results: Sequence[str],
        original: Original | None,
    ) -> None:
        """A node of many layers that reads and makes these maps."""
        inputs = dict.fromkeys(maps_read)  # in their order
        layers: list[dict[str, Any]] = []
        for step in steps:
            op = step.op
            numbers: dict[str, Any] = dict(zip(("weight", "bias"), op.weights or ()))
            spec = getattr(op, "activation", None)
            name, parameters, numbers["slopes"] = activation_of(spec)
            if "epsilon" in op.fields:
                parameters = (op.fields["epsilon"], 0.0)
            arrays = {
                what: self._weights(array, step.key, what)
                for what, array in numbers.items()
                if array is not None
            }
            inputs |= dict.fromkeys(arrays.values())
            layers.append({"step": step, "activation": name, "parameters": parameters, **arrays})
        if original is not None:
            inputs |= dict.fromkeys(original.shared.values())
        between = sorted(buffer for buffer in counts if buffer[0] == "arena")
        made = [("output", i) for i in range(len(results))] + between
        number: dict[Buffer, int] = {("input", i): i for i in range(len(maps_read))}
        number |= {buffer: len(inputs) + i for i, buffer in enumerate(made)}
        constants = {name: i for i, name in enumerate(inputs)}
        some: dict[str, Any] = {}  # what only some nodes have
        if any(len(step.shape) == 5 for step in steps):
            some["deep"] = [n for step in steps for n in depth_of(step)]
        own = [self.tolerances.get(step.key, 0.0) for step in steps]
        if any(own):
            some["tolerances"] = own
        self._add(
            "Segment",
            list(inputs),
            results,
            results[0],
            [step.key for step in steps],
            layers=[n for layer in layers for n in numbers_of(layer, constants, number)],
            channels=[counts[buffer] for buffer in made],
            activations=" ".join(layer["activation"] for layer in layers),
            parameters=[p for layer in layers for p in layer["parameters"]],
            **some,
            **(original.attributes(maps_read, list(inputs)) if original else {}),
        )

    def _taken_for_onnx(self, graph: Graph) -> bool:
        """Whether onnxruntime would take a node `Conv` for one of ONNX's, and quantize its weight.

        It asks for the type of a node only, not for the domain, behind DequantizeLinear.
        """
        makers = [self.model.makers.get(name) for name in graph.inputs]
        return any(node is not None and node.op_type == "DequantizeLinear" for node in makers)

    def _conv(
        self,
        step: Step,
        maps: Sequence[str],
        results: Sequence[str],
        original: Original | None,
    ) -> bool:
        """A node of one layer; whether it has all inputs that its original needs."""
        op, values = step.op.conv, {("input", i): name for i, name in enumerate(maps)}
        name, parameters, slopes = activation_of(op.activation)
        inputs = [values[step.input.buffer], self._weights(op.weight, step.key, "weight")]
        inputs.append("" if op.bias is None else self._weights(op.bias, step.key, "bias"))
        inputs += ["" if place is None else values[place.buffer] for place in _seams(step)]
        inputs.append("" if slopes is None else self._weights(slopes, step.key, "slopes"))
        while not inputs[-1]:
            del inputs[-1]
        if original is not None and not {*inputs}.issuperset(original.shared.values()):
            return False
        attributes: dict[str, Any] = {
            "kernel_shape": op.weight.shape[2:],
            "strides": op.stride,
            "dilations": op.dilation,
            "pads": pads_of(op.padding),
            "group": op.groups,
            **(original.attributes(maps, inputs) if original else {}),
        }
        if op.padding_mode != "zeros":
            attributes["padding_mode"] = op.padding_mode
        if name != "none":
            attributes["activation"] = name
        if any(parameters):
            attributes["activation_parameters"] = parameters
        if step.key in self.tolerances:
            attributes["tolerance"] = self.tolerances[step.key]
        self._add("Conv", inputs, results, step.label, [step.key], **attributes)
        return True

    def _chosen(self, *names: str) -> dict[str, Any]:
        """The settings that nodes of bytes have, too."""
        return {name: value for name, value in self.settings.items() if name in names}

    def _codes(self, node: Node, run: CodeRun) -> None:
        """A run of codes, by the nodes that it stands for; who plans reads these again."""
        layers = [one.output for one in run.graph.nodes if one.op.quantized]
        self.quantized += len(layers)
        self.runs += 1
        values = [one.output for one in run.graph.nodes]
        self.codes.update(dict.fromkeys(node.outputs, values))
        ends = zip((*node.inputs, *node.outputs), run.sizes)
        known = {name: (run.kind, [size.number for size in one[1:]]) for name, one in ends}
        sizes = [n for _, shape in known.values() for n in (1 + len(shape), *shape)]
        attributes = {"sizes": sizes, **held(self.model, node.inputs, node.outputs, known)}
        if tolerance := self.settings.get("tolerance"):
            images = [(1, *known[name][1]) for name in node.inputs]
            content = put_tiles(self.model, attributes["original"], images, tolerance)
            attributes["original"] = content
        if any(not one[0].known for one in run.sizes):
            attributes["open"] = 1
        settings = {**self._chosen("threads", "tolerance"), **attributes}
        made = self.helper.make_node(
            "Codes", node.inputs, node.outputs, name=node.label, domain=OWN_DOMAIN, **settings
        )
        self.nodes.append(made)
        self.layers.append((made, layers))
        self.made.update(node.outputs)

    def _bytes(self, node: Node, op: QConv) -> None:
        """A quantized convolution, with signed weights."""
        self.quantized += 1
        filters = QuantizedFilters.of(op.weight, op.w_zero, None)
        zero = np.zeros((), np.int8) if filters.zero is None else filters.zero.astype(np.int8)
        x_zero = np.array(op.x_zero, op.x_dtype)
        attributes: dict[str, Any] = {
            "kernel_shape": op.weight.shape[2:],
            "strides": op.stride,
            "dilations": op.dilation,
            "group": op.groups,
        }
        if isinstance(op.padding, str):
            attributes["auto_pad"] = op.padding
        else:
            attributes["pads"] = pads_of(op.padding)
        if op.activation:
            attributes["activation"] = op.activation
        kind = "ConvInteger"
        arrays: dict[str, Any] = {"weight": filters.weight, "x_zero": x_zero, "w_zero": zero}
        if op.y_scale is not None:
            kind = "QLinearConv"
            arrays = {
                "x_scale": op.x_scale,
                "x_zero": x_zero,
                "weight": filters.weight,
                "w_scale": op.w_scale,
                "w_zero": zero,
                "y_scale": op.y_scale,
                "y_zero": np.array(op.y_zero, op.y_dtype),
            }
            if op.bias is not None:
                arrays["bias"] = op.bias
        names = [self.constants.name(array, node.label, what) for what, array in arrays.items()]
        self.nodes.append(
            self.helper.make_node(
                kind, [node.inputs[0], *names], node.outputs, name=node.label, domain=OWN_DOMAIN,
                **attributes, **self._chosen("threads"),
            )
        )  # fmt: skip
        self.layers.append((self.nodes[-1], list(node.outputs)))
        self.made.update(node.outputs)

    def _add(
        self,
        kind: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        label: str,
        keys: list[str],
        **values: Any,
    ) -> None:
        node = self.helper.make_node(
            kind, inputs, outputs, name=label, domain=OWN_DOMAIN, **{**self.settings, **values}
        )
        self.nodes.append(node)
        self.layers.append((node, keys))
        self.made.update(outputs)

    def _weights(self, array: np.ndarray | Scaled | Joined, key: str, what: str) -> str:
        """Return the name of a constant of the model's type of numbers."""
        return self.constants.name(np.ascontiguousarray(array, self.dtype), key, what)

    # ---- the whole -------------------------------------------------------------------------------

    def _channels(self, graph: Graph) -> dict[str, int]:
        """The channels of every map; ``ranks`` are how many axes it has besides."""
        counts = {name: count for name in graph.inputs if (count := self._count(name))}
        self.ranks = {name: self._rank(name) for name in counts}
        for node in graph.nodes:
            if node.op.in_segments:
                self.ranks[node.output] = self.ranks[node.inputs[0]]
                after = node.op.channels_after(*(counts[name] for name in node.reads))
                counts[node.output] = after
            else:
                made = {name: count for name in node.outputs if (count := self._count(name))}
                counts |= made
                self.ranks |= {name: self._rank(name) for name in made}
        return counts

    def _rank(self, name: str) -> int:
        """How many axes a map has besides those of images and channels."""
        return 2 if name in self.reading.forms else len(self.model.sizes[name]) - 2

    def _count(self, name: str) -> int:
        """The channels of a value that is a map, or holds one; 0 for any other."""
        form, sizes = self.reading.forms.get(name), self.model.sizes.get(name, ())
        if form is None and len(sizes) not in (4, 5):
            return 0
        return sizes[FORMS[form].channels if form else 1].number

    def _assembled(self) -> Any:
        """The model with its new nodes; what is no longer read is left out."""
        proto = without(self.model.proto, "graph")
        graph = proto.graph
        graph.CopyFrom(without(self.model.graph, "node", "input", "initializer", "value_info"))
        read = {value.name for value in graph.output} | self.model.captured
        for node in self.nodes:
            read.update(node.input)
        constants: list[Any] = []
        for name, node in reversed(self.model.constant_nodes.items()):
            if name in read:
                constants.append(node)
                read.update(node.input)
        ours = [node for node in self.nodes if node.domain == OWN_DOMAIN]
        theirs = [node for node in self.nodes if node.domain != OWN_DOMAIN]
        named_apart(ours, [*constants, *theirs])
        graph.node.extend([*constants[::-1], *self.nodes])
        inputs, kept = self.model.interface(read)
        kept = [tensor for tensor in kept if tensor.name not in self.constants.tensors]
        graph.input.extend(inputs)
        graph.initializer.extend([*kept, *self.constants.tensors.values()])
        self.model.write_fixed(graph)
        self._write_sizes(graph)
        proto.ir_version = max(proto.ir_version, 4)  # initializers need not be inputs
        there = {entry.domain for entry in proto.opset_import if entry.domain != OWN_DOMAIN}
        for entry in [one for one in proto.opset_import if one.domain == OWN_DOMAIN]:
            proto.opset_import.remove(entry)
        for domain in sorted({node.domain for node in self.nodes} - {*STANDARD, *there}):
            entry = proto.opset_import.add()
            entry.domain, entry.version = domain, VERSION
        return proto

    def _write_sizes(self, graph: Any) -> None:
        """Say what is known of the remaining values, as onnxruntime cannot infer it."""
        named = {value.name for value in (*graph.input, *graph.output)}
        values = []
        for node in graph.node:
            for name in node.output:
                value, sizes = self.model.inferred.get(name), self.model.sizes.get(name)
                if value is None or name in named or not value.type.HasField("tensor_type"):
                    continue
                kind = value.type.tensor_type.elem_type
                if sizes is not None and kind:
                    shape = [size.number if size.known else None for size in sizes]
                    values.append(self.helper.make_tensor_value_info(name, kind, shape))
        graph.value_info.extend(values)


def _whole(step: Step, counts: Mapping[Buffer, int]) -> bool:
    """Whether all arrays of a step are read and written from the first channel to the last."""
    places = [p for p in (step.output, *step.reads) if p is not None]
    if step.output.buffer[0] != "output" or any(p.buffer[0] == "arena" for p in places):
        return False
    return all(p.channel == 0 and p.channels == counts[p.buffer] for p in places)


def _seams(step: Step) -> tuple[Place | None, Place | None]:
    return step.add, step.add_after
