"""ncnn's int8 convolution, which quantizes symmetrically: int8 in and out, without zero points.

Its scales are reciprocals: integer = scale * real. It rounds halves away from zero.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from winogen.lab.bench.quantized import steps
from winogen.lab.peers import Way
from winogen.lab.peers.ncnn_net import MAGIC, empty_net, load
from winogen.tuning.layers import BenchLayer

_INT8 = 0x000D4B38  # says that numbers of 8 bits follow
_REQUANTIZED = 102  # a scale for every filter, one for inputs, one for outputs
_AS_IT_IS = 1  # no conversion of what is extracted to float32


def ways(
    layer: BenchLayer, x: np.ndarray, weight: np.ndarray, threads: int
) -> dict[str, Callable[[], Way]]:
    """With the direct algorithm and with Winograd's, which needs 16 bits for its tiles."""
    return {
        name: partial(_net, layer, x, weight, threads, name == "Winograd")
        for name in ("direct", "Winograd")
    }


def _net(layer: BenchLayer, x: np.ndarray, weight: np.ndarray, threads: int, winograd: bool) -> Way:
    import ncnn

    if layer.input[0] != 1:
        raise ValueError("ncnn takes one image at a time")
    net = empty_net(threads)
    for name in ("use_int8_inference", "use_int8_packed", "use_int8_storage"):
        setattr(net.opt, name, True)
    net.opt.use_winograd_convolution = winograd
    kind = "Convolution" if layer.groups == 1 else "ConvolutionDepthWise"
    (kh, kw), (sh, sw) = layer.weight[2:], layer.stride
    (ph, pw), (dh, dw) = layer.padding, layer.dilation
    options = {
        0: layer.weight[0], 1: kw, 11: kh, 2: dw, 12: dh, 3: sw, 13: sh, 4: pw, 14: ph, 5: 0,
        6: weight.size, 8: _REQUANTIZED,
    }  # fmt: skip
    if layer.groups != 1:
        options[7] = layer.groups
        # A scale for every group, whose filters must be one.
        if layer.groups != layer.weight[0]:
            raise ValueError("ncnn has one scale for the filters of a group")
        options[8] = _REQUANTIZED - 1
    listed = " ".join(f"{key}={value}" for key, value in options.items())
    with tempfile.TemporaryDirectory() as folder:
        parameters, numbers = Path(folder, "net.param"), Path(folder, "net.bin")
        parameters.write_text(f"{MAGIC}\n2 2\nInput in 0 1 x\n{kind} conv 1 1 x y {listed}\n")
        numbers.write_bytes(_numbers(layer, weight))
        load(net, parameters, numbers)
    image = ncnn.Mat(x[0])

    def run() -> tuple[int, Any]:
        extractor = net.create_extractor()
        extractor.input("x", image)
        return extractor.extract("y", _AS_IT_IS)

    def output(answer: tuple[int, Any]) -> np.ndarray:
        status, y = answer
        if status:
            raise RuntimeError(f"ncnn could not compute the layer (status {status})")
        return np.array(ncnn.convert_packing(y, 1)).astype(np.float32)[None]

    return Way(run, output, alive=(x,))


def _numbers(layer: BenchLayer, weight: np.ndarray) -> bytes:
    """The file of numbers: weights, and the scales of filters, inputs and outputs."""
    scale = steps(layer)
    body = np.ascontiguousarray(weight).tobytes()
    parts = [np.uint32(_INT8).tobytes(), body, bytes(-len(body) % 4)]
    scales = [1 / scale.w, 1 / np.array([scale.x]), 1 / np.array([scale.y])]
    return b"".join([*parts, *(part.astype(np.float32).tobytes() for part in scales)])
