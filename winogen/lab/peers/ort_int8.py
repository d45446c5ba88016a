"""ONNX Runtime, CPU provider, on one QLinearConv, or one node of its own in NHWC."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from winogen.lab.peers import Way
from winogen.lab.peers.onnx_model import linear_model
from winogen.tuning.layers import BenchLayer


def ways(
    layer: BenchLayer, x: np.ndarray, weight: np.ndarray, threads: int
) -> dict[str, Callable[[], Way]]:
    """QLinearConv in both orders of axes; inputs are uint8, with int8 it is many times slower."""
    return {
        layout: partial(_session, layer, x, weight, threads, layout) for layout in ("NCHW", "NHWC")
    }


def _session(
    layer: BenchLayer, x: np.ndarray, weight: np.ndarray, threads: int, layout: str
) -> Way:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        linear_model(layer, weight, layout), options, providers=["CPUExecutionProvider"]
    )
    codes = (x.astype(np.int16) + 128).astype(np.uint8)
    nhwc = layout == "NHWC"
    batch, *sizes = layer.output
    shape = (batch, *sizes[1:], sizes[0]) if nhwc else layer.output
    binding = session.io_binding()
    value = onnxruntime.OrtValue.ortvalue_from_numpy
    y = value(np.empty(shape, np.uint8))
    if nhwc:
        codes = np.ascontiguousarray(codes.transpose(0, 2, 3, 1))
    binding.bind_ortvalue_input("x", value(codes))
    binding.bind_ortvalue_output("y", y)

    def output(_: object) -> np.ndarray:
        found = y.numpy().astype(np.float32) - 128
        return found.transpose(0, 3, 1, 2) if nhwc else found

    return Way(lambda: session.run_with_iobinding(binding), output)
