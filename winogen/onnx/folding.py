"""A model of others with its normalizations folded into weights, still in ONNX's own operators."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from winogen.errors import InvalidValue
from winogen.onnx.loading import require
from winogen.onnx.model import Model
from winogen.onnx.sizes import STANDARD


def folded(proto: Any, opset: int) -> Any:
    """Return a model of at least this opset that computes the same; ``proto`` is left alone.

    onnxruntime's basic optimizations do it: they replace constants by what follows from them, fold
    BatchNormalization, factors and summands into convolutions, and use standard operators only.
    Raises InvalidValue where onnx cannot convert a model, or onnxruntime refuses it.
    """
    model = Model(proto)
    if model.opset < opset:
        try:
            proto = require("onnx.version_converter").convert_version(proto, opset)
        except Exception as problem:  # errors of its own
            raise InvalidValue(
                f"model: got opset {model.opset}, which onnx cannot convert ({problem}); "
                f"allowed: opset {opset} or newer"
            ) from problem
    ort = require("onnxruntime")
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "folded.onnx"
        options.optimized_model_filepath = str(path)
        try:
            ort.InferenceSession(
                proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as problem:  # onnxruntime's own kinds of errors
            raise InvalidValue(f"model: onnxruntime does not run it ({problem})") from problem
        result = require("onnx").load(path)
    used = {node.domain for node in result.graph.node}
    entries = [entry for entry in result.opset_import if entry.domain in (*STANDARD, *used)]
    # Both names of the standard's may be there, of which onnxruntime's tools take one.
    versions = {"" if one.domain in STANDARD else one.domain: one.version for one in entries}
    del result.opset_import[:]
    for domain, version in versions.items():
        result.opset_import.add(domain=domain, version=version)
    return result
