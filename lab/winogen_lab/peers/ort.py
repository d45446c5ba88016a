"""ONNX Runtime, CPU provider, all graph optimizations, input and output bound beforehand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from winogen.tuning.layers import BenchLayer
from winogen_lab.nets import Net
from winogen_lab.peers import Way, output_shape
from winogen_lab.peers.onnx_model import conv_model, linear_model


def layer(
    layer: BenchLayer, x: np.ndarray, weight: np.ndarray, threads: int
) -> dict[str, Callable[[], Way]]:
    """A model of one convolution."""
    return {"CPU": lambda: session(conv_model(layer, weight), threads, x, layer.output)}


def int8(
    layer: BenchLayer, x: np.ndarray, weight: np.ndarray, threads: int
) -> dict[str, Callable[[], Way]]:
    """QLinearConv, or its own node in NHWC; inputs are uint8, with int8 it is many times slower."""
    return {
        layout: partial(_linear, layer, x, weight, threads, layout) for layout in ("NCHW", "NHWC")
    }


def net(net: Net, folder: Path, threads: int) -> dict[str, Callable[[], Way]]:
    """The exported file."""
    return {"CPU": lambda: of_net(folder / "net.onnx", folder, threads)}


def of_net(model: Path, folder: Path, threads: int, library: str | None = None) -> Way:
    """A model with the ends of a net; ``library``: of custom operators."""
    x = np.load(folder / "x.npy")
    return session(str(model), threads, x, output_shape(folder), library=library)


def session(
    model: str | bytes,
    threads: int,
    x: np.ndarray,
    shape: tuple[int, ...],
    dtype: type = np.float32,
    library: str | None = None,
) -> Way:
    """A session with one input "x" and one output "y" of this shape and type."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    if library:
        options.register_custom_ops_library(library)
    ready = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = ready.io_binding()
    value = onnxruntime.OrtValue.ortvalue_from_numpy
    y = value(np.empty(shape, dtype))
    binding.bind_ortvalue_input("x", value(x))
    binding.bind_ortvalue_output("y", y)
    return Way(lambda: ready.run_with_iobinding(binding), lambda _: y.numpy())


def _linear(layer: BenchLayer, x: np.ndarray, weight: np.ndarray, threads: int, layout: str) -> Way:
    codes, shape = (x.astype(np.int16) + 128).astype(np.uint8), layer.output
    nhwc = layout == "NHWC"
    if nhwc:
        codes = np.ascontiguousarray(codes.transpose(0, 2, 3, 1))
        shape = (shape[0], *shape[2:], shape[1])
    way = session(linear_model(layer, weight, layout), threads, codes, shape, np.uint8)

    def output(answer: object) -> np.ndarray:
        y = way.output(answer).astype(np.float32) - 128
        return y.transpose(0, 3, 1, 2) if nhwc else y

    return replace(way, output=output)
