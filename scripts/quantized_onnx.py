"""Quantized ONNX nets by winogen, onnxruntime and OpenVINO, in turns: tables of docs/int8.md.

    python scripts/quantized_onnx.py
    python scripts/quantized_onnx.py resnet18 --formats QDQ --threads 2 --calls 40
    python scripts/quantized_onnx.py vgg16 dncnn unet --formats QDQ --tolerances 0 3e-3 2e-2 5e-2
    python scripts/quantized_onnx.py resnet18 vgg16 --formats QDQ --openvino

Random weights, quantized on noise by onnxruntime's static quantizer, in pairs (QDQ) and as its own
operators (QOperator). Times are the least of all calls in ms, of one thread its processor's.
"nodes": how many the model has, and how many are left; "off": how far outputs are from
onnxruntime's, of the largest; "error": of winogen's and onnxruntime's, |y - y32| / |y32| (L2) of
the net in float32. `--tolerances`: those of `winogen.onnx.optimize`, 0 for none. `--openvino`: a
column of it, too, by its own defaults but for the threads; gains are over the faster one then.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process
from quantized_torch import drawn, least

import winogen.onnx
from winogen.onnx.rewrite import rewrite
from winogen.tasks.turns import clock_of
from winogen_lab.nets import NETS


class Noise(quantization.CalibrationDataReader):
    """Inputs to calibrate on."""

    def __init__(self, shape: tuple[int, ...]):
        random = np.random.default_rng(0)
        drawn = (random.standard_normal(shape).astype(np.float32) for _ in range(4))
        self._left: Iterator[np.ndarray] = iter(list(drawn))

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Return the next input, None behind the last."""
        x = next(self._left, None)
        return None if x is None else {"x": x}


def exported(name: str, folder: Path) -> Path:
    """Write a net as onnxruntime's quantizer wants it."""
    torch.manual_seed(0)
    net, example = drawn(NETS[name].module()), torch.randn(NETS[name].input)
    path, ready = folder / "net.onnx", folder / "ready.onnx"
    names = {"input_names": ["x"], "output_names": ["y"]}
    torch.onnx.export(net, (example,), str(path), dynamo=False, opset_version=17, **names)
    quant_pre_process(str(path), str(ready), skip_symbolic_shape=True)
    return ready


def quantized(path: Path, form: str, shape: tuple[int, ...]) -> Any:
    """Return a quantized model: a scale for each filter, activations of uint8."""
    made, kinds = path.with_name(f"{form}.onnx"), quantization.QuantType
    quantization.quantize_static(
        str(path), str(made), Noise(shape), per_channel=True, activation_type=kinds.QUInt8,
        weight_type=kinds.QInt8, quant_format=getattr(quantization.QuantFormat, form),
    )  # fmt: skip
    return onnx.load(str(made))


def session_of(model: Any, threads: int) -> Any:
    """Return a session of a model."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    options.register_custom_ops_library(winogen.onnx.get_library_path())
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def openvino_of(model: Any, threads: int, feed: dict[str, np.ndarray]) -> Callable[[], Any]:
    """Return a call of OpenVINO, whose outputs are copied as onnxruntime's are."""
    import openvino

    options = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
    core = openvino.Core()
    net = core.compile_model(core.read_model(model.SerializeToString()), "CPU", options)
    request = net.create_infer_request()
    return lambda: [np.array(y) for y in request.infer(feed).values()]


def report(name: str, form: str, path: Path, asked: Any) -> None:
    """Print the rows of a net in a format: one for each tolerance, all of them in turns."""
    shape, threads = tuple(NETS[name].input), asked.threads
    model, plain = quantized(path, form, shape), onnx.load(str(path))
    made = {one: rewrite(model, threads=threads, tolerance=one or None) for one in asked.tolerances}
    feed = {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
    models = {one: result.model for one, result in made.items()} | {"onnxruntime": model}
    sessions = {key: session_of(one, threads) for key, one in models.items()}
    calls: dict[Any, Callable[[], Any]] = {
        key: partial(one.run, None, feed) for key, one in sessions.items()
    }
    if asked.openvino:
        calls["openvino"] = openvino_of(model, threads, feed)
    # OpenVINO may compute in another thread than that which calls it.
    clock = process_time if asked.openvino and threads == 1 else clock_of(threads)
    ms = least(calls, asked.calls, clock)
    outputs = {key: call()[0] for key, call in calls.items()}
    theirs, (real,) = outputs.pop("onnxruntime"), session_of(plain, threads).run(None, feed)
    errors = {key: np.linalg.norm(y - real) / np.linalg.norm(real) for key, y in outputs.items()}
    usual = np.linalg.norm(theirs - real) / np.linalg.norm(real)
    outputs.pop("openvino", None)
    rivals = ["onnxruntime", "openvino"] if asked.openvino else ["onnxruntime"]
    beside = f"| {ms['openvino']:.2f} " if asked.openvino else ""
    for one, y in outputs.items():
        off = np.abs(y - theirs).max() / np.abs(theirs).max()
        gain = min(ms[rival] for rival in rivals) / ms[one]
        times = f"{ms[one]:.2f} | {ms['onnxruntime']:.2f} | {gain:.2f}"
        nodes = f"{made[one].nodes_before}, {made[one].nodes}"
        accuracy = f"{off:.1e} | {errors[one]:.2%}, {usual:.2%}"
        print(f"| {name} | {form} | {one:g} | {nodes} {beside}| {times} | {accuracy} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("nets", nargs="*", default=["resnet18", "mobilenet-v2", "unet"])
    parser.add_argument("--formats", nargs="*", default=["QDQ", "QOperator"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--calls", type=int, default=40)
    parser.add_argument("--openvino", action="store_true")
    parser.add_argument("--tolerances", nargs="*", type=float, default=[0.0])
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    beside = "| openvino " if asked.openvino else ""
    print(
        f"| net | format | tolerance | nodes {beside}| winogen | onnxruntime | gain | off | error |"
    )
    print("|---" * (10 if asked.openvino else 9) + "|")
    for name in asked.nets:
        with TemporaryDirectory() as folder:
            path = exported(name, Path(folder))
            for form in asked.formats:
                report(name, form, path, asked)


if __name__ == "__main__":
    main()
