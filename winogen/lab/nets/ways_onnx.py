"""Those who read a net from a file: ONNX, or what a converter makes of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from winogen.lab.nets import Net, NotInstalled
from winogen.lab.peers import Way


def ort(net: Net, folder: Path, threads: int) -> dict[str, Callable[[], Way]]:
    """ONNX Runtime, CPU provider, all graph optimizations."""
    return {"CPU": lambda: _session(folder / "net.onnx", folder, threads)}


def optimized(net: Net, folder: Path, threads: int) -> dict[str, Callable[[], Way]]:
    """ONNX Runtime with winogen's operators, on the file that `winogen.onnx.optimize` wrote."""

    def build() -> Way:
        import winogen.onnx

        faster = folder / f"faster-{os.getpid()}.onnx"  # another winogen may write its own
        winogen.onnx.optimize(str(folder / "net.onnx"), str(faster), threads=threads)
        return _session(faster, folder, threads, winogen.onnx.get_library_path())

    return {"optimize": build}


def _session(model: Path, folder: Path, threads: int, library: str | None = None) -> Way:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    if library:
        options.register_custom_ops_library(library)
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    value = onnxruntime.OrtValue.ortvalue_from_numpy
    y = value(np.empty(_output(folder), np.float32))
    binding.bind_ortvalue_input("x", value(np.load(folder / "x.npy")))
    binding.bind_ortvalue_output("y", y)
    return Way(lambda: session.run_with_iobinding(binding), lambda _: y.numpy())


def openvino(net: Net, folder: Path, threads: int) -> dict[str, Callable[[], Way]]:
    """OpenVINO on the CPU with the hint f32: bfloat16 is its default where the CPU has it."""

    def build() -> Way:
        import openvino as ov

        core = ov.Core()
        compiled = core.compile_model(
            core.read_model(str(folder / "net.onnx")),
            "CPU",
            {
                "INFERENCE_PRECISION_HINT": "f32",
                "INFERENCE_NUM_THREADS": threads,
                "PERFORMANCE_HINT": "LATENCY",
                "NUM_STREAMS": 1,
            },
        )
        request, x = compiled.create_infer_request(), np.load(folder / "x.npy")
        request.set_input_tensor(ov.Tensor(x, shared_memory=True))
        return Way(request.infer, lambda _: request.get_output_tensor(0).data, alive=(x,))

    return {"CPU": build}


def opencv(net: Net, folder: Path, threads: int) -> dict[str, Callable[[], Way]]:
    """OpenCV's dnn module by each of the engines that are its own; ENGINE_ORT is onnxruntime."""
    import cv2

    def build(engine: int) -> Way:
        cv2.setNumThreads(threads)
        reader = cv2.dnn.readNetFromONNX(str(folder / "net.onnx"), engine=engine)
        x = np.load(folder / "x.npy")

        def run() -> Any:
            reader.setInput(x)
            return reader.forward()

        return Way(run, np.array, alive=(x,))

    names = {"new engine": "ENGINE_NEW", "classic engine": "ENGINE_CLASSIC"}
    engines = {name: getattr(cv2.dnn, engine, None) for name, engine in names.items()}
    return {name: partial(build, engine) for name, engine in engines.items() if engine is not None}


def mnn(net: Net, folder: Path, threads: int) -> dict[str, Callable[[], Way]]:
    """MNN on what its converter makes of the ONNX file, precision high."""

    def build() -> Way:
        import MNN

        from winogen.lab.peers.mnn_net import convert

        converted, x = folder / "net.mnn", np.load(folder / "x.npy")
        convert(folder / "net.onnx", converted)
        interpreter = MNN.Interpreter(str(converted))
        session = interpreter.createSession(
            {"backend": "CPU", "numThread": threads, "precision": "high"}
        )
        image = interpreter.getSessionInput(session, "x")
        interpreter.resizeTensor(image, x.shape)
        interpreter.resizeSession(session)
        kind, order = MNN.Halide_Type_Float, MNN.Tensor_DimensionType_Caffe
        image.copyFrom(MNN.Tensor(x.shape, kind, x, order))
        shape = _output(folder)

        def output(_: object) -> np.ndarray:
            y = MNN.Tensor(shape, kind, np.zeros(shape, np.float32), order)
            interpreter.getSessionOutput(session, "y").copyToHostTensor(y)
            return np.array(y.getNumpyData()).reshape(shape)

        return Way(lambda: interpreter.runSession(session), output)

    return {"CPU": build}


def ncnn(net: Net, folder: Path, threads: int) -> dict[str, Callable[[], Way]]:
    """ncnn in float32: on its own files where the net came in them, else converted by pnnx."""

    def build() -> Way:
        import ncnn as library

        from winogen.lab.peers.ncnn_net import empty_net, load

        files = _ncnn_files(net, folder)
        ready = empty_net(threads)
        load(ready, *files)
        (first,), (last,) = ready.input_names(), ready.output_names()
        image, shape = np.load(folder / "x.npy")[0], _output(folder)
        mat = library.Mat(image)

        def run() -> tuple[int, Any]:
            extractor = ready.create_extractor()
            extractor.input(first, mat)
            return extractor.extract(last)

        def output(answer: tuple[int, Any]) -> np.ndarray:
            status, y = answer
            if status:
                raise RuntimeError(f"ncnn could not compute the net (status {status})")
            return np.array(y).reshape(shape)

        return Way(run, output, alive=(image,))

    return {"float32": build}


def _ncnn_files(net: Net, folder: Path) -> tuple[Path, Path]:
    if net.weights is not None and not net.is_onnx:
        return net.weights.file(".param"), net.weights.file(".bin")
    try:
        import pnnx
    except ImportError:
        raise NotInstalled(
            "pnnx, ncnn's converter, is not installed; allowed: pip install 'winogen[nets]'"
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


def _output(folder: Path) -> tuple[int, ...]:
    return np.load(folder / "y64.npy", mmap_mode="r").shape
