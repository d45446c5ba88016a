"""OpenVINO on the CPU, on a convolution between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from winogen.lab.peers import Way
from winogen.lab.peers.onnx_model import pairs_model
from winogen.tuning.layers import BenchLayer

_ZEROS = {"uint8": 128, "int8": 0}


def ways(
    layer: BenchLayer, x: np.ndarray, weight: np.ndarray, threads: int
) -> dict[str, Callable[[], Way]]:
    """Both types of inputs and outputs. In NHWC it converts, and takes several times as long."""
    return {
        dtype: partial(_request, layer, x, weight, threads, dtype) for dtype in ("int8", "uint8")
    }


def _request(layer: BenchLayer, x: np.ndarray, weight: np.ndarray, threads: int, dtype: str) -> Way:
    import openvino

    zero = _ZEROS[dtype]
    core = openvino.Core()
    compiled = core.compile_model(
        core.read_model(pairs_model(layer, weight, dtype, zero)),
        "CPU",
        {
            "INFERENCE_PRECISION_HINT": "f32",  # of what is not quantized
            "INFERENCE_NUM_THREADS": threads,
            "PERFORMANCE_HINT": "LATENCY",
            "NUM_STREAMS": 1,
        },
    )
    request = compiled.create_infer_request()
    codes = (x.astype(np.int16) + zero).astype(dtype)
    request.set_input_tensor(openvino.Tensor(codes, shared_memory=True))

    def output(_: object) -> np.ndarray:
        return np.asarray(request.get_output_tensor(0).data, np.float32) - zero

    return Way(request.infer, output, alive=(codes,))
