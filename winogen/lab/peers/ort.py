"""ONNX Runtime, CPU provider, on a one-node model with its input and output bound beforehand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from winogen.lab.peers import Way
from winogen.lab.peers.onnx_model import conv_model
from winogen.tuning.layers import BenchLayer


def ways(
    layer: BenchLayer, x: np.ndarray, weight: np.ndarray, threads: int
) -> dict[str, Callable[[], Way]]:
    """One session with all graph optimizations."""
    return {"CPU": lambda: _session(layer, x, weight, threads)}


def _session(layer: BenchLayer, x: np.ndarray, weight: np.ndarray, threads: int) -> Way:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(
        conv_model(layer, weight), options, providers=["CPUExecutionProvider"]
    )
    binding = session.io_binding()
    value = onnxruntime.OrtValue.ortvalue_from_numpy
    y = value(np.empty(layer.output, np.float32))
    binding.bind_ortvalue_input("x", value(x))
    binding.bind_ortvalue_output("y", y)
    return Way(lambda: session.run_with_iobinding(binding), lambda _: y.numpy())
