"""`quantize`: a float model as one of 8 bits, by onnxruntime's static quantizer.

What is written is standard ONNX: QuantizeLinear and DequantizeLinear around convolutions, which
onnxruntime, OpenVINO and `winogen.onnx.optimize` make integer convolutions of.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from winogen.conv import arguments
from winogen.errors import InvalidType, InvalidValue
from winogen.onnx.folding import folded
from winogen.onnx.loading import load, naming_damage, require, session_of
from winogen.onnx.model import Model, copied, fresh
from winogen.onnx.rewrite import save
from winogen.onnx.samples import Sample, read_samples, run
from winogen.onnx.sizes import STANDARD
from winogen.typing import FilePath

if TYPE_CHECKING:
    from onnx import ModelProto

OPSET = 13  # the first whose DequantizeLinear has a scale for each filter
METHODS = ("maximum", "percentile")
PERCENTILE = 99.99
ACTIVATIONS = ("uint8", "int8")
# Sums of so many products of 8 bits, 255 * 128 each at most, stay within int32.
MOST_PRODUCTS = 65793

# What follows convolutions and becomes part of them, and what only moves numbers, or takes the
# largest: its output has the codes of its input.
_AFTER = ("Clip", "Relu")
_MOVES = (
    "DepthToSpace", "MaxPool", "Reshape", "SpaceToDepth", "Squeeze", "Transpose", "Unsqueeze"
)  # fmt: skip


@dataclass
class Quantized:
    """A quantized model, and what was done to it."""

    model: Any  # ModelProto
    convolutions: int = 0  # in 8 bits
    refusals: list[str] = field(default_factory=list)  # convolutions that stay float, and why

    def __str__(self) -> str:
        count = self.convolutions + len(self.refusals)
        lines = [f"{self.convolutions} of {count} convolutions are in 8 bits"]
        return "\n".join([*lines, *(f"  stays float: {refusal}" for refusal in self.refusals)])


def quantize(
    model_or_path: ModelProto | FilePath,
    samples: Any,
    output: FilePath | None = None,
    *,
    method: Literal["maximum", "percentile"] = "maximum",
    percentile: float | None = None,
    activations: Literal["uint8", "int8"] = "uint8",
    per_channel: bool = True,
    exclude: Collection[str] = (),
) -> ModelProto:
    """Return a model that computes convolutions in 8 bits; write it if asked to.

    Weights are int8, symmetric, with a scale for each filter; biases int32; activations have a
    scale and a zero point. Ranges are measured on the values that onnxruntime computes for samples.
    Normalizations behind convolutions are folded into them first. All else stays float.

    Parameters
    ----------
    model_or_path
        A float32 onnx.ModelProto, left as it is, or a path.
    samples
        Inputs as the model will get them; tens of them do. An iterable of mappings from input to
        array, or of arrays for a model of one input; or the path of a .npy, whose first axis counts
        samples, of a .npz with such an array for each input, or of a folder with a .npy for each.
    output
        Where to write the result.
    method
        "maximum": from the least value to the largest. "percentile": without outliers, so that
        the rest has finer steps.
    percentile
        With "percentile": at each end, values beyond it are cut off; None for 99.99.
    activations
        "uint8" or "int8".
    per_channel
        False for one scale for all filters of a convolution: less accurate.
    exclude
        Names of convolutions, or of their outputs, that stay float.

    Raises InvalidType, InvalidValue, MissingPackage without the extra `onnx`, and OSError.
    """
    result = quantized(
        model_or_path,
        samples,
        method=method,
        percentile=percentile,
        activations=activations,
        per_channel=per_channel,
        exclude=exclude,
    )
    if output is not None:
        save(result.model, output)
    return result.model


@naming_damage
def quantized(
    model_or_path: Any,
    samples: Any,
    *,
    method: str = "maximum",
    percentile: float | None = None,
    activations: str = "uint8",
    per_channel: bool = True,
    exclude: Collection[str] = (),
) -> Quantized:
    """Return what `quantize` returns, with an account of it."""
    if method not in METHODS:
        raise InvalidValue(f"method: got {method!r}; allowed: {', '.join(METHODS)}")
    if percentile is not None and method != "percentile":
        raise InvalidValue(f"percentile: got {percentile}; allowed: with method percentile only")
    percentile = PERCENTILE if percentile is None else percentile
    percentile = arguments.positive("percentile", percentile, "a number above 50, up to 100")
    if not 50 < percentile <= 100:
        raise InvalidValue(f"percentile: got {percentile:g}; allowed: a number above 50, up to 100")
    if activations not in ACTIVATIONS:
        raise InvalidValue(f"activations: got {activations!r}; allowed: {', '.join(ACTIVATIONS)}")
    if not isinstance(per_channel, bool):
        raise InvalidType(f"per_channel: got {per_channel!r}; allowed: True or False")
    if isinstance(exclude, str) or not isinstance(exclude, Collection):
        raise InvalidType(f"exclude: got {exclude!r}; allowed: a list of names")
    proto = load(model_or_path)
    feeds = read_samples(proto, samples)
    known = {name for node in proto.graph.node for name in (node.name, *node.output)}
    for name in exclude:
        if name not in known:
            raise InvalidValue(
                f"exclude: got {name!r}; allowed: names of nodes, or of what they make"
            )
    result, names = _convolutions(folded(proto, OPSET), frozenset(exclude))
    if names:
        options = {"per_channel": per_channel, "nodes_to_quantize": [*names, *_others(result)]}
        fitting = _fitting(result.model, feeds)
        result.model = _by_onnxruntime(
            result.model, fitting, activations, method, percentile, options
        )
        session_of(result.model)  # raises, should names of onnxruntime's have been taken
    return result


def _convolutions(proto: Any, exclude: frozenset[str]) -> tuple[Quantized, list[str]]:
    """The model, whose nodes all have a name, and the convolutions that get 8 bits, by name."""
    result, names, taken = Quantized(proto), [], {node.name for node in proto.graph.node}
    for node in proto.graph.node:
        node.name = node.name or fresh(f"{node.op_type} {node.output[0]}", taken)
    model = Model(proto)
    values = model.names()
    for node in proto.graph.node:
        if node.op_type in ("Conv", "ConvTranspose") and node.domain in STANDARD:
            why = "excluded" if exclude & {node.name, *node.output} else _refusal(model, node)
            if why is None:
                names.append(node.name)
                _give_its_own(model, node, values)
            else:
                result.refusals.append(f"{node.name}: {why}")
    result.convolutions = len(names)
    return result, names


def _give_its_own(model: Model, node: Any, taken: set[str]) -> None:
    """Give a convolution weights and a bias that nobody else reads: others may stay float."""
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    for place, name in enumerate(node.input):
        if place and name in tensors and model.uses[name] > 1:
            own = fresh(f"{name} of {node.name}", taken)
            copy = copied(tensors[name])
            copy.name = node.input[place] = own
            model.graph.initializer.append(copy)


def _refusal(model: Model, node: Any) -> str | None:
    """Why a convolution stays float; None if it does not."""
    if node.op_type == "ConvTranspose":
        return "transposed"
    names = [name for name in node.input[1:] if name]
    arrays = [array for array in map(model.constant, names) if array is not None]
    if len(arrays) < len(names):
        return "its weights may change from call to call"
    weight = arrays[0]
    if weight.dtype != np.float32:
        return f"numbers are {weight.dtype}"
    if not weight.size:
        return "its weights have no numbers"
    if not all(np.isfinite(array).all() for array in arrays):
        return "its weights are not finite"
    products = int(np.prod(weight.shape[1:]))
    return f"sums of {products} products do not fit int32" if products >= MOST_PRODUCTS else None


def _others(result: Quantized) -> list[str]:
    return [node.name for node in result.model.graph.node if node.op_type in (*_AFTER, *_MOVES)]


def _fitting(proto: Any, feeds: Iterable[Sample]) -> list[Sample]:
    """The samples, all of which have been tried: onnxruntime's quantizer names none."""
    session, fitting = session_of(proto), []
    for number, feed in enumerate(feeds):
        for value in run(session, None, feed, number):
            if not np.isfinite(value).all():
                raise InvalidValue(
                    f"samples: got number {number}, whose outputs are not finite; allowed: "
                    "samples that the float model computes without overflow"
                )
        fitting.append(feed)
    if not fitting:
        raise InvalidValue("samples: got none; allowed: at least one")
    return fitting


def _by_onnxruntime(
    proto: Any,
    feeds: Sequence[Sample],
    activations: str,
    method: str,
    percentile: float,
    options: dict[str, Any],
) -> Any:
    tool = require("onnxruntime.quantization")

    class Reader(tool.CalibrationDataReader):  # type: ignore[name-defined]
        """Samples one at a time: no more of their values are kept, and sizes may differ."""

        left = iter(feeds)

        def get_next(self) -> Any:
            return next(self.left, None)

        def set_range(self, start_index: int, end_index: int) -> None:
            self.left = iter(feeds[start_index:end_index])

        def __len__(self) -> int:
            return len(feeds)

    kinds = {"uint8": tool.QuantType.QUInt8, "int8": tool.QuantType.QInt8}
    methods = {"maximum": "MinMax", "percentile": "Percentile"}
    extra = {
        "CalibStridedMinMax": 1,
        "CalibTensorRangeSymmetric": False,
        # onnxruntime's percentile is of both ends together.
        "CalibPercentile": 100 - 2 * (100 - percentile),
    }
    if method == "maximum":
        del extra["CalibPercentile"]
    with TemporaryDirectory() as folder, _quiet():
        made = Path(folder, "quantized.onnx")
        tool.quantize_static(
            proto,
            made,
            Reader(),
            quant_format=tool.QuantFormat.QDQ,
            op_types_to_quantize=["Conv", *_AFTER, *_MOVES],
            activation_type=kinds[activations],
            weight_type=tool.QuantType.QInt8,
            calibrate_method=getattr(tool.CalibrationMethod, methods[method]),
            extra_options=extra,
            **options,
        )
        return require("onnx").load(made)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what onnxruntime prints, and its advice to do before what `folded` has done."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with redirect_stdout(StringIO()):
            yield
    finally:
        logging.disable(before)
