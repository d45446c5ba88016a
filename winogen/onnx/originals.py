"""What a node of winogen's stands for, as a model that onnxruntime runs by itself.

A node whose sizes are open holds it, and has it run wherever there is no plan for inputs yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from winogen.onnx.forms import FORMS, turning
from winogen.onnx.model import Model
from winogen.onnx.operators import OWN_DOMAIN
from winogen.onnx.soundness import Part

_SMALL = 1024  # bytes of constants that the model has itself


@dataclass(frozen=True)
class Original:
    """The nodes of a part.

    ``shared``: by value, the names of constants that are inputs of winogen's node, too.
    """

    model: Model
    nodes: Sequence[Any]
    inputs: Sequence[str]
    outputs: Sequence[str]
    small: Mapping[str, np.ndarray]
    shared: Mapping[str, str]
    forms: Mapping[str, str]  # of values that are no maps; the model's inputs and outputs are

    @property
    def flat(self) -> list[str]:
        """The shared constants that are matrices; the node has them as filters."""
        arrays = {name: np.asarray(self.model.constant(name)) for name in self.shared}
        return [name for name, array in arrays.items() if array.ndim == 2]

    def attributes(self, reads: Sequence[str], node_inputs: Sequence[str]) -> dict[str, Any]:
        """Return the attributes by which a node holds this.

        ``reads``: the names that its ``node_inputs`` have for the inputs. These name values of the
        model after the inputs and outputs of the node, as csrc/runtime/original.h has it.
        """
        onnx, helper = self.model.onnx, self.model.onnx.helper
        number = {name: node_inputs.index(other) for name, other in zip(self.inputs, reads)}
        held = {name: node_inputs.index(other) for name, other in self.shared.items()}
        made_of = {name: f"o{place}" for place, name in enumerate(self.outputs)}
        names = {
            name: other
            for name, other in ({n: f"i{k}" for n, k in (number | held).items()} | made_of).items()
            if name not in self.forms and name not in self.flat
        }
        others = {name for node in self.nodes for name in (*node.input, *node.output)}
        names |= {name: f"v{k}" for k, name in enumerate(sorted(others - names.keys() - {""}))}
        proto = _begun(self.model)
        graph = proto.graph

        def turn(way: Any, source: str, target: str) -> None:
            def name_of(axes: np.ndarray) -> str:
                graph.initializer.append(onnx.numpy_helper.from_array(axes, f"axes of {target}"))
                return f"axes of {target}"

            graph.node.append(turning(self.model, way, source, target, name_of))

        for name, place in number.items():
            sizes = [s.number if s.known else None for s in self.model.sizes[name]]
            if name in self.forms:
                form = FORMS[self.forms[name]]
                sizes = list(form.map_sizes(sizes, 1))
                turn(form.into, f"i{place}", names[name])
            graph.input.append(
                helper.make_tensor_value_info(f"i{place}", self.model.kind(name), sizes)
            )
        for name in self.flat:
            turn(FORMS["flat"].into, f"i{held[name]}", names[name])
        for made in _added(graph, self.nodes, names):
            for field in ("name", "doc_string"):
                made.ClearField(field)
        for name, output in made_of.items():
            if name in self.forms:
                turn(FORMS[self.forms[name]].back, names[name], output)
            graph.output.append(helper.make_tensor_value_info(output, self.model.kind(name), None))
        graph.initializer.extend(
            onnx.numpy_helper.from_array(array, names[name]) for name, array in self.small.items()
        )
        for place, name in {place: name for name, place in held.items()}.items():
            dims = _lifted(np.asarray(self.model.constant(name))).shape
            tensor = graph.initializer.add(name=f"i{place}", dims=dims)
            tensor.data_type = onnx.TensorProto.FLOAT
            tensor.data_location = onnx.TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="inputs of the node")
        return {
            "original": proto.SerializeToString(deterministic=True),
            "original_reads": sorted({*number.values()}),
            **({"original_holds": sorted({*held.values()})} if held else {}),
        }


def held(
    model: Model,
    inputs: Sequence[str],
    outputs: Sequence[str],
    known: Mapping[str, tuple[int, Sequence[int]]],
) -> dict[str, Any]:
    """Return the attributes of a node that holds the nodes that it stands for, constants and all.

    ``known``: the types of inputs and outputs, and their sizes behind the batch.
    """
    onnx, helper = model.onnx, model.onnx.helper
    found = Part([], list(inputs), list(outputs)).originals(model)
    assert found is not None  # whatever it reads was read as constants
    nodes, constants = found
    names = {name: f"i{place}" for place, name in enumerate(inputs)}
    names |= {name: f"o{place}" for place, name in enumerate(outputs)}
    proto = _begun(model)
    graph = proto.graph
    for values, some in ((graph.input, inputs), (graph.output, outputs)):
        for name in some:
            kind, sizes = known[name]
            values.append(helper.make_tensor_value_info(names[name], kind, ["n", *sizes]))
    _added(graph, nodes, names)
    graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in constants.items()
    )
    content = proto.SerializeToString(deterministic=True)
    return {"original": content, "original_reads": list(range(len(inputs)))}


def _begun(model: Model) -> Any:
    """A model without nodes that knows the operators of another, but for winogen's."""
    proto = model.onnx.ModelProto(ir_version=model.proto.ir_version)
    proto.opset_import.extend(
        entry for entry in model.proto.opset_import if entry.domain != OWN_DOMAIN
    )
    proto.graph.name = "original"
    return proto


def _added(graph: Any, nodes: Sequence[Any], names: Mapping[str, str]) -> list[Any]:
    """Copies of nodes at the end of a graph, their values by other ``names``."""
    added = []
    for node in nodes:
        made = graph.node.add()
        made.CopyFrom(node)
        for values in (made.input, made.output):
            values[:] = [names.get(name, name) for name in values]
        added.append(made)
    return added


def original_of(
    model: Model,
    inputs: Sequence[str],
    outputs: Sequence[str],
    forms: Mapping[str, str],
    name_of: Callable[[np.ndarray, str, str], str],
) -> Original | None:
    """Return what makes values of others in a model.

    None where all sizes are known, so that one plan is for all calls, and where onnxruntime does
    not run these nodes. ``forms``: of values that are no maps. ``name_of``: gives the tensor
    of a constant a name.
    """
    if all(_known(model, name) for name in (*inputs, *outputs)):
        return None
    found = Part([], list(inputs), list(outputs)).originals(model)
    if found is None or any(model.kind(name) != model.onnx.TensorProto.FLOAT for name in inputs):
        return None
    nodes, constants = found
    if any(a.HasField("g") or a.graphs for node in nodes for a in node.attribute):
        return None
    made = {name for node in nodes for name in node.output}
    if not made.issuperset(outputs) or not all(model.kind(name) for name in outputs):
        return None  # one of them is a copy of another value
    large = {n: a for n, a in constants.items() if a.dtype == np.float32 and a.nbytes > _SMALL}
    shared = {name: name_of(_lifted(array), name, "original") for name, array in large.items()}
    small = {name: array for name, array in constants.items() if name not in large}
    return Original(model, nodes, inputs, outputs, small, shared, forms)


def _lifted(array: np.ndarray) -> np.ndarray:
    """A matrix as filters of one tap, as winogen's node has those of products."""
    return array[:, :, None, None] if array.ndim == 2 else array


def _known(model: Model, name: str) -> bool:
    sizes = model.sizes.get(name)
    return sizes is not None and all(size.known for size in sizes)
