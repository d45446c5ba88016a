"""`optimize`: a model whose convolutions are winogen's operators, with all that they take on."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from winogen.conv import arguments
from winogen.errors import InvalidValue
from winogen.graph import Conv, simplify
from winogen.onnx.model import Model, load, require
from winogen.onnx.quantized import narrowed
from winogen.onnx.reading import read
from winogen.onnx.writing import Writer

# Files of protobuf end at 2 GiB; larger models keep their weights beside them.
_MOST_BYTES = 2**31 - 2**20


@dataclass(frozen=True)
class Rewritten:
    """A rewritten model, and what was done to it."""

    model: Any  # ModelProto
    nodes_before: int
    nodes: int
    convolutions: int  # that winogen computes, besides those of 8 bits
    segments: int  # ... in so many nodes
    refusals: tuple[str, ...]  # convolutions that stay, and why
    tiled: int = 0  # of all convolutions that were read, those that tiles make cheaper
    read: int = 0
    quantized: int = 0  # convolutions of 8 bits that winogen computes, each a node

    def __str__(self) -> str:
        made = []
        if self.segments:
            made.append(f"{self.convolutions} convolutions in {self.segments} of them")
        if self.quantized:
            made.append(f"{self.quantized} quantized convolutions")
        lines = [
            f"{self.nodes_before} nodes became {self.nodes}; winogen computes {' and '.join(made)}"
        ]
        if not made:
            lines = ["nothing for winogen to do: the model is as it was"]
        elif 2 * self.tiled < self.read:
            lines.append(
                f"  only {self.tiled} of {self.read} convolutions take fewer multiplications that "
                "way: measure both models before you replace one"
            )
        return "\n".join([*lines, *(f"  stays: {refusal}" for refusal in self.refusals)])


def optimize(
    model_or_path: Any,
    output: Any = None,
    *,
    tolerance: float | None = None,
    threads: int | None = None,
    input_shapes: Mapping[str, Any] | None = None,
) -> Any:
    """Return a model that computes the same with winogen's convolutions; write it if asked to.

    Quantized convolutions, as QLinearConv, ConvInteger or between DequantizeLinear and
    QuantizeLinear, become integer ones with the rounding of QLinearConv.
    Normalizations, activations, additions, paddings and concatenations become part of the
    convolutions beside them. onnxruntime runs the result with `get_library_path`. It depends on the
    model and the arguments only, not on the machine.

    Parameters
    ----------
    model_or_path
        An onnx.ModelProto, which is left alone, or a path.
    output
        Where to write the result.
    tolerance
        As `winogen.conv2d` has it, for every layer; None for its default.
    threads
        How many threads a convolution may use; None for as many as onnxruntime lends.
    input_shapes
        Sizes by input, {"x": (1, 3, 224, 224)}: inputs that had others, or open ones, then have
        these.

    Warns if there is nothing to do: the model is then the same. Raises InvalidType, InvalidValue,
    MissingPackage without the extra `onnx`, and OSError.
    """
    result = rewrite(model_or_path, tolerance=tolerance, threads=threads, input_shapes=input_shapes)
    if not result.segments and not result.quantized:
        warnings.warn(f"winogen.onnx.optimize: {result}", stacklevel=2)
    if output is not None:
        save(result.model, output)
    return result.model


def rewrite(
    model_or_path: Any,
    *,
    tolerance: float | None = None,
    threads: int | None = None,
    input_shapes: Mapping[str, Any] | None = None,
) -> Rewritten:
    """Return what `optimize` returns, with an account of it."""
    if tolerance is not None:
        tolerance = arguments.positive("tolerance", tolerance, "None or a number below 1, as 1e-6")
        if tolerance >= 1:
            raise InvalidValue(f"tolerance: got {tolerance}; allowed: None or a number below 1")
    if threads is not None:
        threads = arguments.threads(threads)
    model = Model(load(model_or_path), input_shapes)
    before = len(model.graph.node)
    narrow = narrowed(model, threads)
    if narrow.made:
        model = Model(narrow.model, input_shapes)
    reading = read(model, narrow)
    unchanged = Rewritten(
        model.proto, before, len(model.graph.node), 0, 0, tuple(reading.refusals),
        quantized=len(narrow.made),
    )  # fmt: skip
    if not reading.kind:
        return unchanged
    convolutions = [node.op for node in reading.graph.nodes if isinstance(node.op, Conv)]
    writer = Writer(model, reading, {"tolerance": tolerance, "threads": threads})
    proto = writer.write(simplify(reading.graph))
    if not writer.segments:
        return unchanged
    return Rewritten(
        proto,
        before,
        len(proto.graph.node),
        writer.convolutions,
        writer.segments,
        tuple(reading.refusals),
        tiled=sum(map(_is_tiled, convolutions)),
        read=len(convolutions),
        quantized=len(narrow.made),
    )


def _is_tiled(op: Conv) -> bool:
    """Whether Winograd's algorithms compute a layer with fewer multiplications."""
    _, channels, *kernel = op.weight.shape
    dense = channels > 1 and max(kernel) > 1
    return dense and tuple(op.stride) == tuple(op.dilation) == (1, 1)


def save(model: Any, output: Any) -> Path:
    """Write a model, its weights into a file beside it where they are too large; return its path.

    Raises InvalidValue for what is no path, and OSError.
    """
    if not isinstance(output, (str, os.PathLike)):
        raise InvalidValue(f"output: got {type(output).__name__}; allowed: None or a path")
    path = Path(output)
    if model.ByteSize() > _MOST_BYTES:
        onnx = require("onnx")
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        onnx.save(copy, path, save_as_external_data=True, location=f"{path.name}.data")
    else:
        path.write_bytes(model.SerializeToString(deterministic=True))
    return path
