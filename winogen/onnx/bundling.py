"""An ONNX model with its kernels in a folder, for machines that have no compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from winogen.errors import InvalidValue
from winogen.onnx.library import planner
from winogen.onnx.loading import load, naming_damage, session_of
from winogen.onnx.model import Model
from winogen.onnx.operators import OWN_DOMAIN
from winogen.onnx.probes import feed_of, usual_sizes
from winogen.onnx.rewrite import rewrite, save
from winogen.toolchain import bundling
from winogen.typing import FilePath

if TYPE_CHECKING:
    from onnx import ModelProto

MODEL = "model.onnx"


@naming_damage
def bundle(
    model_or_path: ModelProto | FilePath,
    output: FilePath,
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    tolerance: float | None = None,
    output_tolerance: float | None = None,
    threads: int | None = None,
) -> Path:
    """Write a folder with a model and its kernels, which runs without a compiler; return its path.

    The model is optimized as `optimize` does it, unless it was before: then it keeps what was
    promised of it, and has no other ``output_tolerance``. Its kernels are those that
    this machine takes for the sizes of ``input_shapes``, on ``threads`` threads (None for
    onnxruntime's default). Where the environment variable WINOGEN_PREBUILT names the folder,
    sessions of its ``model.onnx`` find them, on CPUs with the same instruction set; other sizes run
    by whatever kernels are at hand.

    ``output``: a folder that does not exist or is empty; it is written as a whole or not at all.
    Raises InvalidValue, InvalidType, MissingPackage, BuildError, OSError, and VerificationError if
    the model computes anything else without a compiler.
    """
    folder = bundling.new_folder(output)
    proto = load(model_or_path)
    shapes = {name: tuple(shape) for name, shape in (input_shapes or {}).items()}
    usual_sizes(Model(proto, shapes))  # refuses before any work
    is_optimized = any(node.domain == OWN_DOMAIN for node in proto.graph.node)
    if is_optimized and output_tolerance is not None:
        raise InvalidValue(
            f"output_tolerance: got {output_tolerance!r}; allowed: None for a model that was "
            "optimized before"
        )
    if not is_optimized:
        options: dict[str, Any] = {"tolerance": tolerance, "output_tolerance": output_tolerance}
        rewritten = rewrite(proto, threads=threads, input_shapes=shapes, **options)
        if rewritten.is_original:
            raise InvalidValue(f"model: {rewritten}; allowed: one that winogen makes faster")
        proto = rewritten.model
    told = {"threads": threads or 0, "input_shapes": shapes}
    bundling.write(folder, lambda draft: save(proto, draft / MODEL), f"{__name__}:outputs", told)
    return folder


def outputs(folder: Path, told: Mapping[str, Any]) -> list[np.ndarray]:
    """Return what the model in a folder computes of random inputs."""
    proto = load(folder / MODEL)
    model = Model(proto, told["input_shapes"])
    feed = feed_of(model, usual_sizes(model), 0)
    asked = planner()
    found = session_of(proto, threads=told["threads"], library=asked.path).run(None, feed)
    if asked.failure is not None:
        raise asked.failure
    return list(found)
