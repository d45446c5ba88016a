"""MNN on the CPU, precision high, on the model that its converter makes of a one-node ONNX."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from winogen.lab.peers import Way
from winogen.lab.peers.onnx_model import conv_model
from winogen.tuning.layers import BenchLayer


def ways(
    layer: BenchLayer, x: np.ndarray, weight: np.ndarray, threads: int
) -> dict[str, Callable[[], Way]]:
    """One session; its input is copied in beforehand."""
    return {"CPU": lambda: _session(layer, x, weight, threads)}


def _session(layer: BenchLayer, x: np.ndarray, weight: np.ndarray, threads: int) -> Way:
    import MNN

    with tempfile.TemporaryDirectory() as folder:
        source, converted = Path(folder, "layer.onnx"), Path(folder, "layer.mnn")
        source.write_bytes(conv_model(layer, weight))
        convert(source, converted)
        interpreter = MNN.Interpreter(str(converted))
    session = interpreter.createSession(
        {"backend": "CPU", "numThread": threads, "precision": "high"}
    )
    data = MNN.Tensor(x.shape, MNN.Halide_Type_Float, x, MNN.Tensor_DimensionType_Caffe)
    interpreter.getSessionInput(session).copyFrom(data)

    def output(_: object) -> np.ndarray:
        shape = layer.output
        y = MNN.Tensor(
            shape, MNN.Halide_Type_Float, np.zeros(shape, np.float32),
            MNN.Tensor_DimensionType_Caffe,
        )  # fmt: skip
        interpreter.getSessionOutput(session).copyToHostTensor(y)
        return np.array(y.getNumpyData()).reshape(shape)

    return Way(lambda: interpreter.runSession(session), output)


def convert(source: Path, converted: Path) -> None:
    """Write an ONNX file as MNN's; raises RuntimeError if the converter made none."""
    # What `mnnconvert` calls. The console script itself would, on every start, try to install a
    # package with pip and send a report of the conversion.
    import _tools  # type: ignore[import-not-found]

    _tools.mnnconvert(
        ["mnnconvert", "-f", "ONNX", "--modelFile", str(source), "--MNNModel", str(converted)]
    )
    if not converted.exists():
        raise RuntimeError("mnnconvert made no model")
