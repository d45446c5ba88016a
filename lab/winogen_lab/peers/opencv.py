"""OpenCV: its filter of pictures, and its dnn module by each of the engines that are its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from winogen.tuning.layers import BenchLayer
from winogen_lab.nets import Net
from winogen_lab.peers import Way


def layer(
    layer: BenchLayer, x: np.ndarray, weight: np.ndarray, threads: int
) -> dict[str, Callable[[], Way]]:
    """`filter2D` of each channel; a signal is a picture of one row."""
    import cv2

    def build() -> Way:
        cv2.setNumThreads(threads)
        pairs = [(np.atleast_2d(p), np.atleast_2d(k)) for p, k in zip(x[0], weight[:, 0])]

        def run() -> Any:
            zeros = cv2.BORDER_CONSTANT
            return [cv2.filter2D(plane, -1, kernel, borderType=zeros) for plane, kernel in pairs]

        return Way(run, lambda planes: np.reshape(planes, x.shape))

    return {"filter2D": build}


def net(net: Net, folder: Path, threads: int) -> dict[str, Callable[[], Way]]:
    """The exported file by each engine but ENGINE_ORT, which is onnxruntime."""
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
