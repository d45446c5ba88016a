"""`optimize`: a model whose convolutions are winogen's operators, with all that they take on."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, SupportsIndex

from winogen.conv import arguments
from winogen.errors import InvalidValue
from winogen.files import output_path, replace_file
from winogen.graph import Conv, simplify
from winogen.onnx.loading import naming_damage, original, require
from winogen.onnx.model import Model, copied
from winogen.onnx.proof import Verdict, compare
from winogen.onnx.reading import read
from winogen.onnx.soundness import MOST_BYTES
from winogen.onnx.writing import Writer
from winogen.typing import FilePath, Real

if TYPE_CHECKING:
    from onnx import ModelProto


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
    given_back: tuple[str, ...] = ()  # values that winogen computed otherwise, and how far off
    verdict: Verdict | None = None  # of the comparison; None where there is nothing to compare

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
        lines += [f"  {self.verdict}"] if self.verdict else []
        lines += [f"  given back to onnxruntime: {value}" for value in self.given_back]
        return "\n".join([*lines, *(f"  stays: {refusal}" for refusal in self.refusals)])


def optimize(
    model_or_path: ModelProto | FilePath,
    output: FilePath | None = None,
    *,
    tolerance: Real | None = None,
    threads: SupportsIndex | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
) -> ModelProto:
    """Return a model that computes the same with winogen's convolutions; write it if asked to.

    Quantized convolutions, as QLinearConv, ConvInteger or between DequantizeLinear and
    QuantizeLinear, become integer ones with the rounding of QLinearConv.
    Normalizations, activations, additions, paddings and concatenations become part of the
    convolutions beside them. onnxruntime runs the result with `get_library_path`.

    Before it is returned or written, it runs beside the original, on numbers made for that. A part
    whose values differ by more than ``tolerance`` and rounding explain stays with onnxruntime, with
    a warning. Otherwise the result depends on the model and the arguments only, not on the machine.
    Without onnxruntime or a compiler there is no comparison, with a warning, too.

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

    Returns
    -------
    A new model; the same, with a warning, if there is nothing to do.

    Raises
    ------
    InvalidType, InvalidValue
        For an argument that is not allowed, a damaged model, and one that was optimized before.
    MissingPackage
        Without the extra `onnx`.
    OSError
        When a file cannot be read or written.
    """
    if output is not None:
        output_path(output)  # refuses before any work
    result = rewrite(model_or_path, tolerance=tolerance, threads=threads, input_shapes=input_shapes)
    nothing = not result.segments and not result.quantized
    if nothing or result.given_back or not (result.verdict and result.verdict.sizes):
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
) -> Rewritten:
    """Return what `optimize` returns, with an account of it."""
    if tolerance is not None:
        tolerance = arguments.positive("tolerance", tolerance, "None or a number below 1, as 1e-6")
        if tolerance >= 1:
            raise InvalidValue(f"tolerance: got {tolerance}; allowed: None or a number below 1")
    if threads is not None:
        threads = arguments.threads(threads)
    model = Model(original(model_or_path), input_shapes)
    settings = {"tolerance": tolerance, "threads": threads}
    excluded: set[str] = set()
    given_back: list[str] = []
    while True:
        result, within = _rewritten(model, settings, excluded)
        if not result.segments and not result.quantized:
            return replace(result, given_back=tuple(given_back))
        verdict = compare(model, result.model)
        if not verdict.refuted:
            return replace(result, given_back=tuple(given_back), verdict=verdict)
        for name, why in verdict.refuted.items():
            excluded.update(within.get(name, (name,)))
            given_back.append(f"{name}: {why}")


def _rewritten(
    model: Model, settings: Mapping[str, Any], excluded: Set[str]
) -> tuple[Rewritten, Mapping[str, list[str]]]:
    """The model without a proof of it, and all that each segment computes, by its outputs.

    ``excluded``: values that onnxruntime goes on to compute.
    """
    before = len(model.graph.node)
    reading = read(model, excluded)
    writer = Writer(model, reading, settings, excluded)
    proto = writer.write(simplify(reading.graph))
    if not writer.segments and not writer.quantized:
        return Rewritten(model.proto, before, before, 0, 0, tuple(reading.refusals)), {}
    convolutions = [node.op for node in reading.graph.nodes if isinstance(node.op, Conv)]
    made = Rewritten(
        proto,
        before,
        len(proto.graph.node),
        writer.convolutions,
        writer.segments,
        tuple(reading.refusals),
        tiled=sum(map(_is_tiled, convolutions)),
        read=len(convolutions),
        quantized=writer.quantized,
    )
    return made, writer.within


def _is_tiled(op: Conv) -> bool:
    """Whether Winograd's algorithms compute a layer with fewer multiplications."""
    _, channels, *kernel = op.weight.shape
    dense = channels > 1 and max(kernel) > 1
    return dense and tuple(op.stride) == tuple(op.dilation) == (1, 1)


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
