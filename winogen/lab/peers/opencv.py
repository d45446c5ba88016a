"""OpenCV's dnn module by each of the engines that are its own; ENGINE_ORT is onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from winogen.lab.nets import Net
from winogen.lab.peers import Way


def net(net: Net, folder: Path, threads: int) -> dict[str, Callable[[], Way]]:
    """The exported file."""
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
