"""MNN on the CPU, precision high, on what its converter makes of an ONNX file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from winogen.tuning.layers import BenchLayer
from winogen_lab.nets import Net
from winogen_lab.peers import Way, output_shape
from winogen_lab.peers.onnx_model import conv_model


def layer(
    layer: BenchLayer, x: np.ndarray, weight: np.ndarray, threads: int
) -> dict[str, Callable[[], Way]]:
    """A model of one convolution."""

    def build() -> Way:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "layer.onnx")
            source.write_bytes(conv_model(layer, weight))
            return _session(source, x, layer.output, threads)

    return {"CPU": build}


def net(net: Net, folder: Path, threads: int, **within: float) -> dict[str, Callable[[], Way]]:
    """The exported file; within a tolerance, in its usual precision."""
    source, precision = folder / "net.onnx", "normal" if within else "high"

    def build() -> Way:
        x = np.load(folder / "x.npy")
        return _session(source, x, output_shape(folder), threads, precision)

    return {"CPU": build}


def _session(
    source: Path, x: np.ndarray, shape: tuple[int, ...], threads: int, precision: str = "high"
) -> Way:
    """One session of a model from "x" to "y"; its input is copied in beforehand."""
    import MNN

    converted = source.with_suffix(".mnn")
    _convert(source, converted)
    interpreter = MNN.Interpreter(str(converted))
    session = interpreter.createSession(
        {"backend": "CPU", "numThread": threads, "precision": precision}
    )
    image = interpreter.getSessionInput(session, "x")
    interpreter.resizeTensor(image, x.shape)
    interpreter.resizeSession(session)
    kind, order = MNN.Halide_Type_Float, MNN.Tensor_DimensionType_Caffe
    image.copyFrom(MNN.Tensor(x.shape, kind, x, order))

    def output(_: object) -> np.ndarray:
        y = MNN.Tensor(shape, kind, np.zeros(shape, np.float32), order)
        interpreter.getSessionOutput(session, "y").copyToHostTensor(y)
        return np.array(y.getNumpyData()).reshape(shape)

    return Way(lambda: interpreter.runSession(session), output)


def _convert(source: Path, converted: Path) -> None:
    """Write an ONNX file as MNN's; raises RuntimeError if the converter made none."""
    # What `mnnconvert` calls. The console script itself would, on every start, try to install a
    # package with pip and send a report of the conversion.
    import _tools  # type: ignore[import-not-found]

    _tools.mnnconvert(
        ["mnnconvert", "-f", "ONNX", "--modelFile", str(source), "--MNNModel", str(converted)]
    )
    if not converted.exists():
        raise RuntimeError("mnnconvert made no model")
