"""`optimize`: a model whose convolutions are winogen's operators where these are faster."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, SupportsIndex

from winogen.conv import arguments
from winogen.errors import InvalidValue
from winogen.files import output_path, replace_file
from winogen.graph.promise import checked_promise
from winogen.onnx.drafting import Onnxruntime, Rewritten
from winogen.onnx.loading import as_it_is, naming_damage, original, require
from winogen.onnx.model import Model, copied
from winogen.onnx.soundness import MOST_BYTES
from winogen.onnx.validity import check_nodes
from winogen.tasks.limit import checked, limited
from winogen.testing import is_every_layer
from winogen.toolchain.machine import settle
from winogen.typing import FilePath, Real

if TYPE_CHECKING:
    from onnx import ModelProto


def optimize(
    model_or_path: ModelProto | FilePath,
    output: FilePath | None = None,
    *,
    tolerance: Real | None = None,
    threads: SupportsIndex | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    output_tolerance: Real | None = None,
    seconds: Real | None = 30,
) -> ModelProto:
    """Return a model that computes the same with winogen's convolutions where these are faster.

    Quantized convolutions, as QLinearConv, ConvInteger or between DequantizeLinear and
    QuantizeLinear, become integer ones with the rounding of QLinearConv.
    Normalizations, activations, additions, paddings and concatenations become part of the
    convolutions beside them. onnxruntime runs the result with `get_library_path`.

    Every convolution, and every node of several, is measured beside the nodes of onnxruntime that
    it stands for, and stays onnxruntime's where these are faster, unless the whole model is faster
    without such cuts. A model that does not become faster is returned as it was, with a warning.
    This takes sizes: where an input's are open, but for the batch, and ``input_shapes`` has none,
    nothing is measured and winogen computes all that it can, with a warning. Within
    `winogen.testing.every_layer` it does so without one.

    Before it is returned or written, it runs beside the original, on numbers made for that. A part
    whose values differ by more than ``tolerance`` and rounding explain stays with onnxruntime, with
    a warning. Without onnxruntime or a compiler nothing is compared or measured, with a warning,
    too.

    Parameters
    ----------
    model_or_path
        An onnx.ModelProto, which is left alone, or a path.
    output
        Where to write the result.
    tolerance
        As `winogen.conv2d` has it, for every layer; None for its default. Quantized layers that
        follow each other are exact with None, and else in Winograd's tiles where that is faster.
    threads
        How many threads a convolution may use; None for as many as onnxruntime lends.
    input_shapes
        Sizes by input, {"x": (1, 3, 224, 224)}: inputs of a rewritten model that had others, or
        open ones, then have these.
    output_tolerance
        The largest error of each output, |y - y64| / |y64| (L2) against the model in float64, on
        normal random inputs and such between 0 and 1; None for no such promise. Each layer gets a
        tolerance of its own, where an error buys most time by what it becomes at the output, as
        measured. A layer keeps to ``tolerance`` besides, if that is given. Where winogen's layers
        cannot keep it, the model is returned as it was, with a warning.
    seconds
        About how long kernels are compiled, layers measured and errors reduced; None for as long as
        that takes. The largest layers come first. Those not measured then run as predicted, those
        whose kernels are not compiled stay with onnxruntime, and the account says so. The whole is
        measured and compared in any case.

    Returns
    -------
    A new model; the same, with a warning, if there is nothing to gain.

    Raises
    ------
    InvalidType, InvalidValue
        For an argument that is not allowed, a damaged model, and one that was optimized before; for
        an ``output_tolerance`` that not even onnxruntime keeps, or where errors are not known: with
        inputs of open sizes, without onnxruntime or a compiler, or without float64.
    MissingPackage
        Without the extra `onnx`.
    OSError
        When a file cannot be read or written.
    """
    if output is not None:
        output_path(output)  # refuses before any work
    options: dict[str, Any] = {
        "tolerance": tolerance,
        "threads": threads,
        "output_tolerance": output_tolerance,
    }
    result = rewrite(model_or_path, input_shapes=input_shapes, seconds=seconds, **options)
    unmeasured = result.unmeasured and not is_every_layer()
    uncompared = not (result.verdict and result.verdict.sizes)
    if result.is_original or result.given_back or uncompared or unmeasured:
        warnings.warn(f"winogen.onnx.optimize: {result}", stacklevel=2)
    if output is not None:
        save(result.model, output)
    return result.model


@naming_damage
def rewrite(
    model_or_path: ModelProto | FilePath,
    *,
    tolerance: Real | None = None,
    threads: SupportsIndex | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    seconds: Real | None = None,
    output_tolerance: Real | None = None,
) -> Rewritten:
    """Return what `optimize` returns, with an account of it."""
    most = checked(seconds)
    if tolerance is not None:
        tolerance = arguments.positive("tolerance", tolerance, "None or a number below 1, as 1e-6")
        if tolerance >= 1:
            raise InvalidValue(f"tolerance: got {tolerance}; allowed: None or a number below 1")
    if output_tolerance is not None:
        output_tolerance = checked_promise(output_tolerance)
    if threads is not None:
        threads = arguments.threads(threads)
    given = as_it_is(model_or_path)
    model = Model(original(given), input_shapes)
    check_nodes(model)
    with limited(most):
        result = _rewritten(model, tolerance, threads, output_tolerance)
    # As it was, functions and all.
    return replace(result, model=given) if result.is_original else result


def _rewritten(
    model: Model,
    tolerance: float | None,
    threads: int | None,
    output_tolerance: float | None = None,
) -> Rewritten:
    """Do what `rewrite` does, with checked arguments."""
    settle()
    return Onnxruntime(model, tolerance, threads, output_tolerance).rewritten()


def save(model: Any, output: Any) -> Path:
    """Write a model, its weights into a file beside it where they are too large; return its path.

    What is there before is replaced as a whole, or not at all. Raises InvalidType, InvalidValue for
    a path of no regular file, and OSError.
    """
    path = output_path(output)
    if model.ByteSize() <= MOST_BYTES:
        return replace_file(path, model.SerializeToString(deterministic=True))
    with TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        draft, data = Path(folder, path.name), f"{path.name}.data"
        require("onnx").save(
            copied(model), draft, save_as_external_data=True, location=data, size_threshold=0
        )
        os.replace(Path(folder, data), path.with_name(data))
        os.replace(draft, path)
    return path
