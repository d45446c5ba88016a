"""ncnn with its Winograd convolutions, in full float32."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from winogen.lab.peers import Way
from winogen.tuning.layers import BenchLayer

MAGIC = 7767517


def ways(
    layer: BenchLayer, x: np.ndarray, weight: np.ndarray, threads: int
) -> dict[str, Callable[[], Way]]:
    """A net of one layer."""
    return {"Winograd": lambda: _net(layer, x, weight, threads)}


def _net(layer: BenchLayer, x: np.ndarray, weight: np.ndarray, threads: int) -> Way:
    import ncnn

    if layer.input[0] != 1:
        raise ValueError("ncnn takes one image at a time")
    net = empty_net(threads)
    kind = "Convolution" if layer.groups == 1 else "ConvolutionDepthWise"
    (kh, kw), (sh, sw) = layer.weight[2:], layer.stride
    (ph, pw), (dh, dw) = layer.padding, layer.dilation
    options = {
        0: layer.weight[0], 1: kw, 11: kh, 2: dw, 12: dh, 3: sw, 13: sh, 4: pw, 14: ph, 5: 0,
        6: weight.size,
    }  # fmt: skip
    if layer.groups != 1:
        options[7] = layer.groups
    listed = " ".join(f"{key}={value}" for key, value in options.items())
    with tempfile.TemporaryDirectory() as folder:
        parameters, numbers = Path(folder, "net.param"), Path(folder, "net.bin")
        parameters.write_text(f"{MAGIC}\n2 2\nInput in 0 1 x\n{kind} conv 1 1 x y {listed}\n")
        # Four zero bytes say that float32 numbers follow.
        numbers.write_bytes(bytes(4) + np.ascontiguousarray(weight).tobytes())
        load(net, parameters, numbers)
    image = ncnn.Mat(x[0])

    def run() -> tuple[int, Any]:
        extractor = net.create_extractor()
        extractor.input("x", image)
        return extractor.extract("y")

    def output(answer: tuple[int, Any]) -> np.ndarray:
        status, y = answer
        if status:
            raise RuntimeError(f"ncnn could not compute the layer (status {status})")
        return np.array(y)[None]

    return Way(run, output, alive=(x,))


def empty_net(threads: int) -> Any:
    """Return a net without layers that will compute in float32, on the CPU."""
    import ncnn

    net = ncnn.Net()
    net.opt.num_threads = threads
    net.opt.use_vulkan_compute = False
    for name in dir(net.opt):
        if name.startswith(("use_fp16", "use_bf16", "use_int8")):
            setattr(net.opt, name, False)
    return net


def load(net: Any, param: Path, bin: Path) -> None:
    """Fill a net from its two files; raises RuntimeError where ncnn refuses them."""
    for status in (net.load_param(str(param)), net.load_model(str(bin))):
        if status:
            raise RuntimeError(f"ncnn refused the net (status {status})")
