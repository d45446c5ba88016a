"""OpenVINO on the CPU with the hint f32, its input tensor shared beforehand."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from winogen.lab.peers import Way
from winogen.lab.peers.onnx_model import conv_model
from winogen.tuning.layers import BenchLayer


def ways(
    layer: BenchLayer, x: np.ndarray, weight: np.ndarray, threads: int
) -> dict[str, Callable[[], Way]]:
    """Data in NCHW, or in NHWC, which its convolutions take without a conversion."""
    return {
        layout: partial(_request, layer, x, weight, threads, layout) for layout in ("NCHW", "NHWC")
    }


def _request(
    layer: BenchLayer, x: np.ndarray, weight: np.ndarray, threads: int, layout: str
) -> Way:
    import openvino
    from openvino.preprocess import PrePostProcessor

    core = openvino.Core()
    model = core.read_model(conv_model(layer, weight))
    if layout == "NHWC":
        steps = PrePostProcessor(model)
        for end in (steps.input(), steps.output()):
            end.tensor().set_layout(openvino.Layout("NHWC"))
            end.model().set_layout(openvino.Layout("NCHW"))
        model = steps.build()
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    compiled = core.compile_model(
        model,
        "CPU",
        {
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": threads,
            "PERFORMANCE_HINT": "LATENCY",
            "NUM_STREAMS": 1,
        },
    )
    request = compiled.create_infer_request()
    request.set_input_tensor(openvino.Tensor(x, shared_memory=True))

    def output(_: object) -> np.ndarray:
        y = request.get_output_tensor(0).data
        return y.transpose(0, 3, 1, 2) if layout == "NHWC" else y

    return Way(request.infer, output, alive=(x,))
