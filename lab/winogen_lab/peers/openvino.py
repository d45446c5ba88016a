"""OpenVINO on the CPU, one stream, its input tensor shared beforehand.

The hint f32 is given: bfloat16 is the default where the CPU has it. Nets within a tolerance get no
hint.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from winogen.tuning.layers import BenchLayer
from winogen_lab.nets import Net
from winogen_lab.peers import Way
from winogen_lab.peers.onnx_model import conv_model, pairs_model

_ZEROS = {"uint8": 128, "int8": 0}


def layer(
    layer: BenchLayer, x: np.ndarray, weight: np.ndarray, threads: int
) -> dict[str, Callable[[], Way]]:
    """Data in NCHW, or in NHWC, which its convolutions take without a conversion."""
    model = conv_model(layer, weight)
    return {layout: partial(_layer, model, x, threads, layout) for layout in ("NCHW", "NHWC")}


def int8(
    layer: BenchLayer, x: np.ndarray, weight: np.ndarray, threads: int
) -> dict[str, Callable[[], Way]]:
    """A convolution between DequantizeLinear and QuantizeLinear, of both types of 8 bits.

    In NHWC it converts, and takes several times as long.
    """

    def build(dtype: str) -> Way:
        zero = _ZEROS[dtype]
        codes = (x.astype(np.int16) + zero).astype(dtype)
        model = _core().read_model(pairs_model(layer, weight, dtype, zero))
        return _request(model, codes, threads, lambda y: np.asarray(y, np.float32) - zero)

    return {dtype: partial(build, dtype) for dtype in ("int8", "uint8")}


def net(net: Net, folder: Path, threads: int, **within: float) -> dict[str, Callable[[], Way]]:
    """The exported file; within a tolerance, in the type that it takes by itself."""

    def build() -> Way:
        model = _core().read_model(str(folder / "net.onnx"))
        return _request(model, np.load(folder / "x.npy"), threads, exact=not within)

    return {"CPU": build}


def _layer(source: bytes, x: np.ndarray, threads: int, layout: str) -> Way:
    import openvino
    from openvino.preprocess import PrePostProcessor

    model = _core().read_model(source)
    if layout == "NCHW":
        return _request(model, x, threads)
    steps = PrePostProcessor(model)
    for end in (steps.input(), steps.output()):
        end.tensor().set_layout(openvino.Layout("N" + "DHW"[5 - x.ndim :] + "C"))
        end.model().set_layout(openvino.Layout("NC" + "DHW"[5 - x.ndim :]))
    data = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    return _request(steps.build(), data, threads, lambda y: np.moveaxis(y, -1, 1))


def _core() -> Any:
    import openvino

    return openvino.Core()


def _request(
    model: Any,
    x: np.ndarray,
    threads: int,
    output: Callable[[Any], np.ndarray] = lambda y: y,
    exact: bool = True,
) -> Way:
    """``output``: makes (N, M, OH, OW) of what the model gives. ``exact``: float32 throughout."""
    import openvino

    options = {
        **({"INFERENCE_PRECISION_HINT": "f32"} if exact else {}),
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
    }
    request = _core().compile_model(model, "CPU", options).create_infer_request()
    request.set_input_tensor(openvino.Tensor(x, shared_memory=True))
    return Way(request.infer, lambda _: output(request.get_output_tensor(0).data), alive=(x,))
