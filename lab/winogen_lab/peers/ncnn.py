"""ncnn on the CPU: in full float32 with its Winograd convolutions, or quantized.

It quantizes symmetrically: int8 in and out, without zero points. Its scales are reciprocals,
integer = scale * real, and it rounds halves away from zero.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from winogen.tuning.layers import BenchLayer
from winogen_lab.bench.quantized import steps
from winogen_lab.nets import Net, NotInstalled
from winogen_lab.peers import Way, output_shape

MAGIC = 7767517
_INT8 = 0x000D4B38  # says that numbers of 8 bits follow
_FLOAT32 = 0
_REQUANTIZED = 102  # a scale for every filter, one for inputs, one for outputs
_AS_IT_IS = 1  # no conversion of what is extracted to float32


def layer(
    layer: BenchLayer, x: np.ndarray, weight: np.ndarray, threads: int
) -> dict[str, Callable[[], Way]]:
    """A net of one layer."""

    def build() -> Way:
        if layer.transposed:
            raise ValueError("transposed layers are not written for ncnn")
        ready = empty_net(threads)
        _fill(ready, layer, _numbers(_FLOAT32, weight), {})
        return _way(ready, x, layer.output)

    return {"Winograd": build}


def int8(
    layer: BenchLayer, x: np.ndarray, weight: np.ndarray, threads: int
) -> dict[str, Callable[[], Way]]:
    """With the direct algorithm and with Winograd's, which needs 16 bits for its tiles."""

    def build(winograd: bool) -> Way:
        import ncnn

        # With groups there is one scale for each, whose filters must be one.
        if layer.groups not in (1, layer.weight[0]):
            raise ValueError("ncnn has one scale for the filters of a group")
        ready = empty_net(threads)
        for name in ("use_int8_inference", "use_int8_packed", "use_int8_storage"):
            setattr(ready.opt, name, True)
        ready.opt.use_winograd_convolution = winograd
        scale = steps(layer)
        scales = (1 / scale.w, 1 / np.array([scale.x]), 1 / np.array([scale.y]))
        kind = _REQUANTIZED if layer.groups == 1 else _REQUANTIZED - 1
        _fill(ready, layer, _numbers(_INT8, weight, *scales), {8: kind})

        def unpacked(y: Any) -> np.ndarray:
            return np.array(ncnn.convert_packing(y, 1)).astype(np.float32)

        return _way(ready, x, layer.output, (_AS_IT_IS,), unpacked)

    return {name: partial(build, name == "Winograd") for name in ("direct", "Winograd")}


def net(net: Net, folder: Path, threads: int) -> dict[str, Callable[[], Way]]:
    """On its own files where the net came in them, else converted by pnnx."""

    def build() -> Way:
        files = _converted(net, folder)
        ready = empty_net(threads)
        load(ready, *files)
        return _way(ready, np.load(folder / "x.npy"), output_shape(folder))

    return {"float32": build}


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


def _fill(ready: Any, layer: BenchLayer, numbers: bytes, more: dict[int, int]) -> None:
    """Make a net of one convolution; ``more``: parameters by ncnn's numbers."""
    kind = "Convolution" if layer.groups == 1 else "ConvolutionDepthWise"
    (kh, kw), (sh, sw) = layer.weight[2:], layer.stride
    (ph, pw), (dh, dw) = layer.padding, layer.dilation
    options = {
        0: layer.weight[0], 1: kw, 11: kh, 2: dw, 12: dh, 3: sw, 13: sh, 4: pw, 14: ph, 5: 0,
        6: int(np.prod(layer.weight)), **({7: layer.groups} if layer.groups != 1 else {}), **more,
    }  # fmt: skip
    listed = " ".join(f"{key}={value}" for key, value in options.items())
    with tempfile.TemporaryDirectory() as folder:
        parameters, file = Path(folder, "net.param"), Path(folder, "net.bin")
        parameters.write_text(f"{MAGIC}\n2 2\nInput in 0 1 x\n{kind} conv 1 1 x y {listed}\n")
        file.write_bytes(numbers)
        load(ready, parameters, file)


def _numbers(tag: int, weight: np.ndarray, *scales: np.ndarray) -> bytes:
    """The file of numbers: what they are, weights, and float32 scales."""
    body = np.ascontiguousarray(weight).tobytes()
    parts = [np.uint32(tag).tobytes(), body, bytes(-len(body) % 4)]
    return b"".join([*parts, *(part.astype(np.float32).tobytes() for part in scales)])


def _way(
    ready: Any,
    x: np.ndarray,
    shape: tuple[int, ...],
    how: tuple[int, ...] = (),
    array: Callable[[Any], np.ndarray] = np.array,
) -> Way:
    """``how``: further arguments of `extract`; ``array``: makes numpy's of its result."""
    import ncnn

    if len(x) != 1:
        raise ValueError("ncnn takes one image at a time")
    (first,), (last,) = ready.input_names(), ready.output_names()
    image = ncnn.Mat(x[0])

    def run() -> tuple[int, Any]:
        extractor = ready.create_extractor()
        extractor.input(first, image)
        return extractor.extract(last, *how)

    def output(answer: tuple[int, Any]) -> np.ndarray:
        status, y = answer
        if status:
            raise RuntimeError(f"ncnn could not compute it (status {status})")
        return array(y).reshape(shape)

    return Way(run, output, alive=(x,))


def _converted(net: Net, folder: Path) -> tuple[Path, Path]:
    """The two files of a net."""
    if net.weights is not None and not net.is_onnx:
        return net.weights.file(".param"), net.weights.file(".bin")
    try:
        import pnnx
    except ImportError:
        raise NotInstalled(
            "pnnx, ncnn's converter, is not installed; allowed: pip install 'winogen-lab[nets]'"
        ) from None
    source = "net.onnx" if net.is_onnx else "net.pt"
    sizes = ",".join(map(str, net.input))
    done = subprocess.run(
        [pnnx.EXEC_PATH, source, f"inputshape=[{sizes}]", "fp16=0"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    files = folder / "net.ncnn.param", folder / "net.ncnn.bin"
    if not all(file.is_file() for file in files):
        said = (done.stdout + done.stderr).strip().splitlines()
        raise RuntimeError(f"pnnx made no net: {said[-1] if said else done.returncode}")
    return files
