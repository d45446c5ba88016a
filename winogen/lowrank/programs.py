"""Models of torch: what `torch.export` makes of them, and the same as a model of ONNX.

Ranks are chosen and layers fitted in the model of ONNX. Its convolutions are those of the program
whose weights they have, with a normalization behind them folded in.
"""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import fx, nn
from torch.utils import _pytree as pytree

from winogen.errors import InvalidValue, Unsupported, VerificationError
from winogen.extras import require
from winogen.files import output_path, replace_file
from winogen.lowrank.exporting import as_torch
from winogen.lowrank.form import axes_of
from winogen.lowrank.making import Made
from winogen.lowrank.sites import Net, Site, StagedWeights
from winogen.lowrank.subject import Subject
from winogen.onnx.loading import session_of

_OPSET = 17
_CONV = torch.ops.aten.conv2d.default
_NORM = torch.ops.aten.batch_norm.default
_DEFAULTS = (None, None, None, [1, 1], [0, 0], [1, 1], 1)
# How far weights in both models may be apart, relative to the largest: normalizations are folded
# by torch in float32. And how far outputs.
_NEAR, _NEARLY = 1e-5, 1e-3


@dataclass(frozen=True)
class _Conv:
    """A convolution of a program, and the normalization behind it."""

    node: fx.Node
    norm: fx.Node | None
    weight: np.ndarray  # with the normalization

    @property
    def last(self) -> fx.Node:
        """What makes the outputs."""
        return self.node if self.norm is None else self.norm

    def fits(self, site: Site) -> bool:
        """Whether it is the convolution of a site."""
        if site.weight.shape != self.weight.shape:
            return False
        _, _, _, stride, padding, dilation, groups = _arguments(self.node)
        axes = site.layer.axes
        asked = [*padding, *padding, *stride, *dilation, groups]
        had = [getattr(a, n) for n in ("before", "after", "stride", "dilation") for a in axes]
        apart = float(np.abs(site.weight - self.weight).max(initial=0))
        near = apart <= _NEAR * float(np.abs(self.weight).max(initial=0))
        return near and asked == [*had, site.layer.groups]


class Program(Subject):
    """A program of `torch.export`."""

    def __init__(self, program: torch.export.ExportedProgram):
        self._program = program
        self._example = _example(program)
        self._graph = _plain(program)
        super().__init__(onnx_of(self._graph, self._example, _names(program), _open(program)))
        self._convs = _convolutions(self._graph)

    def obstacles(self, net: Net) -> dict[int, str]:
        """Return which convolutions are none of the program's, and why, by their places."""
        found = self._matched(net)
        what = "no conv2d of constant weights in the program"
        return {site.place: what for site in net.sites if site.place not in found}

    def _matched(self, net: Net) -> dict[int, _Conv]:
        """The convolutions of the program by their places in the model of ONNX."""
        left, found = list(self._convs), {}
        for site in net.sites:
            one = next((one for one in left if one.fits(site)), None)
            if one is not None:
                found[site.place] = one
                left.remove(one)
        return found

    def result(self, net: Net, made: Made) -> Any:
        """Return the program in which some convolutions are two."""
        graph = copy.deepcopy(self._graph.graph)
        module = fx.GraphModule(self._graph, graph)
        nodes = {node.name: node for node in graph.nodes}
        matched = self._matched(net)
        for place, one in made.fitted.items():
            conv = matched[place]
            _split(module, nodes[conv.node.name], nodes[conv.last.name], one.stages)
        graph.eliminate_dead_code()
        module = fx.GraphModule(module, graph)  # with the weights that it reads
        args, kwargs = self._example
        sizes = _open(self._program)
        shapes = {
            name: dict.fromkeys(sizes.get(name, ()), torch.export.Dim.AUTO)
            for name in _names(self._program)
        }
        program = torch.export.export(module.eval(), args, kwargs, dynamic_shapes=shapes)
        _verify(program.module(), self._example, made.proto)
        return program

    def check_output(self, output: Path) -> None:
        """Raise InvalidValue for a file that cannot hold the result by its name."""
        if output.suffix != ".pt2":
            raise InvalidValue(f"output: got {output} for a program; allowed: a name.pt2")

    def save(self, result: Any, output: Path) -> None:
        """Write a program into a file."""
        file = io.BytesIO()
        torch.export.save(result, file)
        replace_file(output_path(output), file.getvalue())


class TorchModule(Program):
    """A module of torch: layers in a copy of it are replaced, not nodes of its program."""

    def __init__(self, model: nn.Module, program: torch.export.ExportedProgram):
        self._model = model
        super().__init__(program)
        self._convs = [one for one in self._convs if self._owners(one) is not None]

    def _owners(self, conv: _Conv) -> list[str] | None:
        """The names of the layers that a convolution and its normalization are; None: others."""
        targets = [_get(conv.node.args[1])]
        if conv.norm is not None:
            targets.append(_get(conv.norm.args[3]))
        names = [str(target).rpartition(".")[0] for target in targets]
        layers = [self._model.get_submodule(name) for name in names]
        kinds = (nn.Conv2d, nn.BatchNorm2d)
        plain = all(type(layer) is kind for layer, kind in zip(layers, kinds)) and all(names)
        return names if plain and getattr(layers[0], "padding_mode", "") == "zeros" else None

    def result(self, net: Net, made: Made) -> Any:
        """Return a copy of the module in which some convolutions are two, in an nn.Sequential."""
        found, matched = copy.deepcopy(self._model), self._matched(net)
        for place, one in made.fitted.items():
            names = self._owners(matched[place])
            assert names is not None
            stages = one.stages
            weights = stages.first, stages.second
            pair = as_torch(stages.layer, stages.form, weights, stages.bias, (None, ()))
            for name, layer in zip(names, (pair, nn.Identity())):
                layer.train(found.get_submodule(name).training)
                parent, _, last = name.rpartition(".")
                setattr(found.get_submodule(parent), last, layer)
        modes = {name: module.training for name, module in found.named_modules()}
        _verify(found.eval(), self._example, made.proto)
        for name, module in found.named_modules():
            module.training = modes[name]
        return found


def module_subject(model: nn.Module, sample: Any) -> TorchModule:
    """Return a module as what is compressed; ``sample``: an array, or arrays by argument."""
    arrays = sample if isinstance(sample, Mapping) else {"": sample}
    tensors = {name: torch.as_tensor(np.array(array)) for name, array in arrays.items()}
    args = (tensors.pop(""),) if "" in tensors else ()
    try:
        with torch.no_grad():
            program = torch.export.export(copy.deepcopy(model).eval(), args, tensors)
    except Exception as problem:  # of many kinds
        reason = str(problem).strip().partition("\n")[0]
        raise InvalidValue(
            f"model: got {type(model).__name__}, which torch.export refuses ({reason})"
        ) from problem
    return TorchModule(model, program)


def onnx_of(
    module: nn.Module,
    example: tuple[tuple[Any, ...], dict[str, Any]],
    names: Sequence[str],
    sizes: Mapping[str, Sequence[int]],
) -> Any:
    """Return a module as a ModelProto; ``sizes``: which of an input are open."""
    args, kwargs = example
    with torch.no_grad():
        leaves = pytree.tree_leaves(module(*args, **kwargs))
    outputs = [f"output_{number}" for number in range(len(leaves))]
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of deprecation: the older exporter needs no onnxscript
        try:
            torch.onnx.export(
                module, args, file, kwargs=kwargs, dynamo=False, opset_version=_OPSET,
                input_names=list(names), output_names=outputs,
                dynamic_axes={n: {axis: f"{n}_{axis}" for axis in sizes[n]} for n in sizes},
            )  # fmt: skip
        except Exception as problem:  # of many kinds
            reason = str(problem).strip().partition("\n")[0]
            raise InvalidValue(
                f"model: got a program that torch cannot write as ONNX ({reason})"
            ) from problem
    return require("onnx", "onnx").load_from_string(file.getvalue())


def _names(program: torch.export.ExportedProgram) -> list[str]:
    """The names of inputs; raises Unsupported if they are anything but tensors."""
    names = [str(name) for name in program.graph_signature.user_inputs]
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    args, kwargs = pytree.tree_unflatten(names, program.call_spec.in_spec)
    flat = all(isinstance(name, str) for name in (*args, *kwargs.values()))
    if not flat or not all(isinstance(values.get(name), torch.Tensor) for name in names):
        raise Unsupported("model: got a program of nested inputs or numbers; allowed: of tensors")
    return names


def _open(program: torch.export.ExportedProgram) -> dict[str, list[int]]:
    """Which sizes of inputs are open."""
    values = {node.name: node.meta["val"] for node in program.graph.nodes if "val" in node.meta}
    return {
        name: [axis for axis, size in enumerate(values[name].shape) if not isinstance(size, int)]
        for name in _names(program)
    }


def _example(program: torch.export.ExportedProgram) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if program.example_inputs is None:
        raise InvalidValue("model: got a program without an example; allowed: as export returns it")
    args, kwargs = program.example_inputs
    return tuple(args), dict(kwargs)


def _plain(program: torch.export.ExportedProgram) -> fx.GraphModule:
    """A program as a module without checks of sizes."""
    module = program.module()
    assert isinstance(module, fx.GraphModule)
    graph = module.graph
    for node in list(graph.nodes):
        if node.target == "_guards_fn":
            graph.erase_node(node)
    return fx.GraphModule(module, graph).eval()


def _arguments(node: fx.Node) -> list[Any]:
    return [*node.args, *_DEFAULTS[len(node.args) :]]


def _get(node: Any) -> str | None:
    """The name of the tensor that a node gets; None for other nodes."""
    return node.target if isinstance(node, fx.Node) and node.op == "get_attr" else None


def _convolutions(module: fx.GraphModule) -> list[_Conv]:
    """The convolutions whose weights are tensors of the module, which nothing else reads."""
    found = []
    for node in module.graph.nodes:
        if node.target is not _CONV or node.kwargs:
            continue
        weight, bias = node.args[1], _arguments(node)[2]
        known = _get(weight) and (bias is None or _get(bias)) and len(weight.users) == 1
        if not known:
            continue
        users = list(node.users)
        norm = users[0] if len(users) == 1 and _is_norm(users[0], node) else None
        values = _values(module, weight)
        if norm is not None:
            scale, _, _, variance = (
                None if one is None else _values(module, one) for one in norm.args[1:5]
            )
            factor = (1.0 if scale is None else scale) / np.sqrt(variance + norm.args[7])
            values = values * factor[:, None, None, None]
        found.append(_Conv(node, norm, values))
    return found


def _is_norm(node: fx.Node, conv: fx.Node) -> bool:
    """Whether a node normalizes what a convolution makes, by constants."""
    if node.target is not _NORM or node.kwargs or len(node.args) < 8:
        return False
    read = node.args[1:5]
    constant = all(one is None or _get(one) for one in read) and None not in read[2:]
    return node.args[0] is conv and constant and node.args[5] is False


def _values(module: fx.GraphModule, node: Any) -> np.ndarray:
    """The numbers of a tensor of the module, float64."""
    return attrgetter(str(_get(node)))(module).detach().double().numpy()


def _split(module: fx.GraphModule, conv: fx.Node, last: fx.Node, stages: StagedWeights) -> None:
    """Put two nodes in the place of a convolution and the normalization behind it."""
    graph, value = module.graph, conv.args[0]
    arrays = {"1": stages.first, "2": stages.second, "bias": stages.bias}
    with graph.inserting_before(conv):
        read = {}
        for what, array in arrays.items():
            if array is not None:
                name = f"{conv.name}_stage_{what}".replace("stage_bias", "bias")
                module.register_parameter(name, nn.Parameter(torch.from_numpy(array.copy())))
                read[what] = graph.get_attr(name)
        for stage in (0, 1):
            axes = axes_of(stages.layer, stages.form, stage)
            bias = read.get("bias") if stage else None
            value = graph.call_function(
                _CONV,
                (
                    value, read[str(stage + 1)], bias, [a.stride for a in axes],
                    [a.before for a in axes], [a.dilation for a in axes], stages.form.groups,
                ),
            )  # fmt: skip
    last.replace_all_uses_with(value)
    for node in dict.fromkeys((last, conv)):
        graph.erase_node(node)


def _verify(module: Any, example: tuple[tuple[Any, ...], dict[str, Any]], proto: Any) -> None:
    """Raise VerificationError unless a module makes of an example what a model of ONNX makes."""
    args, kwargs = example
    with torch.no_grad():
        outputs = [one.numpy() for one in pytree.tree_leaves(module(*args, **kwargs))]
    names = [value.name for value in proto.graph.input]
    arrays = [one.numpy() for one in (*args, *kwargs.values())]
    wanted = session_of(proto).run(None, dict(zip(names, arrays)))
    for found, right in zip(outputs, wanted, strict=True):
        apart = float(np.abs(found - right).max(initial=0))
        if not apart <= _NEARLY * float(np.abs(right).max(initial=0)) + 1e-6:
            raise VerificationError(
                f"compress: the model of torch is {apart:.2g} apart from that of ONNX"
            )
