"""A model that `torch.export` wrote, and its kernels, for machines without compilers."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from winogen.conv.arguments import named_shapes
from winogen.errors import InvalidType, InvalidValue
from winogen.files import check_input
from winogen.toolchain import bundling
from winogen.torch.calling import SIGNATURE, Calls, CallStructure
from winogen.torch.cases import described
from winogen.torch.optimize import optimize
from winogen.torch.optimized import Optimized
from winogen.torch.tracing import by_fx, silence
from winogen.typing import FilePath

MODEL = "model.pt"


def bundle(
    program_or_path: torch.export.ExportedProgram | FilePath,
    output: FilePath,
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    tolerance: float | None = None,
    output_tolerance: float | None = None,
    threads: int | None = None,
) -> Path:
    """Write a folder with a model and its kernels, which runs without a compiler; return its path.

    The program, or what `torch.export.save` wrote of one, is optimized as `optimize` does it, at
    the sizes of its example or those of ``input_shapes``, by the names of its inputs. Its kernels
    are those that this machine takes, on ``threads`` threads (None for torch's default). Where the
    environment variable WINOGEN_PREBUILT names the folder, ``torch.load("model.pt",
    weights_only=False)`` there gives the model, which finds them on CPUs with the same instruction
    set. Calls that the program refuses it refuses, too.

    ``output``: a folder that does not exist or is empty; it is written as a whole or not at all.
    Raises InvalidValue, InvalidType, BuildError, OSError, and VerificationError if the model
    computes anything else without a compiler.
    """
    folder = bundling.new_folder(output)
    program = _loaded(program_or_path)
    model = _model(program, _example(program, dict(input_shapes or {})))
    tensors = model.calls.tensors
    args, _ = model.calls.arguments(tensors)
    options: dict[str, Any] = {"tolerance": tolerance, "output_tolerance": output_tolerance}
    made = optimize(model, args, threads=threads, **options)
    if not made.winogen_report.segments:
        raise InvalidValue(f"model: got one that winogen leaves to torch\n{made.winogen_report}")

    with TemporaryDirectory() as aside:
        example = str(Path(aside, "example.npz"))
        np.savez(example, *(tensor.numpy() for tensor in tensors))
        save, told = partial(_save, made), {"threads": threads, "example": example}
        bundling.write(folder, save, f"{__name__}:outputs", told)
    return folder


def outputs(folder: Path, told: Mapping[str, Any]) -> list[np.ndarray]:
    """Return what the model in a folder computes of its example, all of it by winogen."""
    if told["threads"]:
        torch.set_num_threads(told["threads"])
    made: Optimized = torch.load(folder / MODEL, weights_only=False)
    with np.load(told["example"]) as arrays:
        tensors = [torch.from_numpy(arrays[name]) for name in arrays.files]
    args, kwargs = made.winogen_fast.calls.arguments(tensors)
    with torch.inference_mode(), made.winogen_tested():
        leaves, _ = CallStructure.of(made(*args, **kwargs))
    return [leaf.double().numpy() for leaf in leaves if isinstance(leaf, Tensor)]


def _save(made: Optimized, folder: Path) -> None:
    torch.save(made, folder / MODEL)


class Program(nn.Module):
    """An exported program as a module that files can hold: its operators, weights, and checks.

    It is called as the program is, and refuses what that refuses.
    """

    def __init__(self, program: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]):
        super().__init__()
        setattr(self, SIGNATURE, inspect.signature(program.forward))
        self.calls, calls = Calls(self, args, kwargs), Calls(program, args, kwargs)
        self.sizes: list[tuple[int, ...]] | None = None  # the only ones, if they are set
        with silence():
            try:
                trace = by_fx(program, calls)
            except Exception:  # older versions of torch check by a hook that wants tensors
                self.sizes = [tuple(tensor.shape) for tensor in calls.tensors]
                trace = by_fx(_unchecked(program), calls)
        places = dict(zip(map(id, self.calls.tensors), self.calls.places))
        self.places = [places[id(tensor)] for tensor in calls.tensors]  # of what the body takes
        graph = fx.Graph()  # files cannot hold a graph with our tracer
        graph.output(graph.graph_copy(trace.module.graph, {}))
        self.body, self.structure = fx.GraphModule(trace.module, graph), trace.structure

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the program returns."""
        leaves = self.calls.leaves_of(args, kwargs)
        if leaves is None:
            raise InvalidValue(
                f"arguments: got {described((args, kwargs))}; allowed: those of the program"
            )
        tensors = [leaves[place] for place in self.places]
        if self.sizes is not None and self.sizes != [tuple(tensor.shape) for tensor in tensors]:
            raise InvalidValue(f"sizes: got {described(tensors)}; allowed: {self.sizes}")
        return self.structure.filled(self.body(*tensors))


def _unchecked(program: nn.Module) -> nn.Module:
    """Return a program that takes any sizes."""
    program._forward_pre_hooks.clear()
    if isinstance(program, fx.GraphModule):
        for node in list(program.graph.nodes):
            if node.target == "_guards_fn":
                program.graph.erase_node(node)
        program.recompile()
    return program


def _loaded(program_or_path: Any) -> torch.export.ExportedProgram:
    if isinstance(program_or_path, torch.export.ExportedProgram):
        return program_or_path
    if not isinstance(program_or_path, (str, os.PathLike)):
        raise InvalidType(
            f"model: got {type(program_or_path).__name__}; allowed: a path, or what "
            "torch.export.export returns"
        )
    return load_program(Path(program_or_path))


def load_program(path: Path) -> torch.export.ExportedProgram:
    """Return what `torch.export.save` wrote; raises InvalidValue and OSError."""
    check_input("model", path, "what torch.export.save wrote")
    try:
        with silence():
            return torch.export.load(path)
    except Exception as problem:  # of many kinds
        reason = str(problem).strip().partition("\n")[0]
        raise InvalidValue(f"model: got {path}, which holds no program ({reason})") from problem


def _example(
    program: torch.export.ExportedProgram, shapes: dict[str, Sequence[int]]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments for a program, of the sizes given by name; the others are its example's."""
    if program.example_inputs is None:
        raise InvalidValue("model: got a program without an example; allowed: as export returns it")
    leaves, structure = CallStructure.of(program.example_inputs)
    names = [str(name) for name in program.graph_signature.user_inputs]
    known = {name: at for at, name in enumerate(names) if isinstance(leaves[at], Tensor)}
    random = torch.Generator().manual_seed(0)
    for at in known.values():
        leaves[at] = leaves[at].detach().clone()  # a tensor that is given twice is two
    for name, shape in named_shapes(shapes, [*known]).items():
        like = leaves[known[name]]
        new = torch.zeros(tuple(shape), dtype=like.dtype)
        leaves[known[name]] = new.normal_(generator=random) if like.is_floating_point() else new
    args, kwargs = structure.filled(leaves)
    return args, kwargs


def _model(
    program: torch.export.ExportedProgram, example: tuple[tuple[Any, ...], dict[str, Any]]
) -> Program:
    """Return a program as a module; raises InvalidValue if it does not take the example."""
    module = program.module()
    try:
        with torch.no_grad():
            module(*example[0], **example[1])
    except Exception as problem:  # the program decides what is an error
        reason = str(problem).strip().partition("\n")[0]
        raise InvalidValue(
            f"input_shapes: got {described(example)}, refused: {reason}"
        ) from problem
    return Program(module, *example)
