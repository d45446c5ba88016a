"""What is compressed: a model of ONNX, or one of torch that is also known as one."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from winogen.errors import InvalidValue
from winogen.extras import require
from winogen.lowrank.making import Made
from winogen.lowrank.sites import Net
from winogen.onnx.loading import original

_PROGRAM = ".pt2"
_PICKLES = (".pt", ".pth", ".pkl", ".pickle", ".bin", ".ckpt")


class Subject:
    """A model of ONNX. ``proto``: what ranks are chosen for, and what layers are fitted in."""

    def __init__(self, proto: Any):
        self.proto = proto

    def obstacles(self, net: Net) -> dict[int, str]:
        """Return which convolutions of ``proto`` stay as they are, and why, by their places."""
        return {}

    def result(self, net: Net, made: Made) -> Any:
        """Return the compressed model, of the kind that the model is of."""
        return made.proto

    def check_output(self, output: Path) -> None:
        """Raise InvalidValue for a file that cannot hold the result by its name."""
        if output.suffix == _PROGRAM:
            raise InvalidValue(f"output: got {output} for a model of ONNX; allowed: a name.onnx")

    def save(self, result: Any, output: Path) -> None:
        """Write a result into a file."""
        from winogen.onnx.rewrite import save

        save(result, output)


def subject_of(model: Any, example: Any = None) -> Subject:
    """Return what a model is compressed as; ``example``: an input of it, for a module of torch.

    Raises InvalidType, InvalidValue, MissingPackage and OSError.
    """
    if isinstance(model, (str, os.PathLike)):
        suffix = Path(model).suffix.lower()
        if suffix in _PICKLES:
            raise InvalidValue(
                f"model: got {model}, by its name a pickle, which may run anything when it is read;"
                " allowed: a model of ONNX, or a .pt2 of torch.export.save"
            )
        if suffix == _PROGRAM:
            require("torch", "torch")
            from winogen.lowrank.programs import Program
            from winogen.torch.bundling import load_program

            return Program(load_program(Path(model)))
    elif is_module(model):
        from winogen.lowrank.programs import module_subject

        return module_subject(model, example)
    elif "torch" in sys.modules and isinstance(model, sys.modules["torch"].export.ExportedProgram):
        from winogen.lowrank.programs import Program

        return Program(model)
    return Subject(original(model))


def is_module(model: Any) -> bool:
    """Whether a model is an nn.Module of torch."""
    return "torch" in sys.modules and isinstance(model, sys.modules["torch"].nn.Module)
