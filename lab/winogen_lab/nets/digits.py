"""A small trained classifier with 5x5 filters, and the handwritten digits that it is for.

1797 pictures of 8x8 pixels, "Optical Recognition of Handwritten Digits" by E. Alpaydin and C.
Kaynak (UCI Machine Learning Repository, CC BY 4.0) as scikit-learn ships them; 600 of them were
held out when `scripts/digits_net.py` trained the net.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from winogen.extras import require

if TYPE_CHECKING:
    from onnx import ModelProto
    from torch import nn

FILE = Path(__file__).parent / "tiny" / "digits.npz"
# Parameters in the order of the layers; all but the last pair are of convolutions.
NAMES = tuple(f"{layer}.{kind}" for layer in ("0", "3", "7") for kind in ("weight", "bias"))
PADDING = 2
_OPSET, _IR_VERSION = 17, 8


@dataclass(frozen=True)
class Samples:
    """Pictures (N, 1, 8, 8), float32 from -1 to 1, and the digits (N,) that they show."""

    pictures: np.ndarray
    labels: np.ndarray

    def accuracy(self, scores: np.ndarray) -> float:
        """Return the share of pictures whose largest score (N, 10) is that of their digit."""
        return float((np.asarray(scores).argmax(axis=1) == self.labels).mean())


@dataclass(frozen=True)
class Digits:
    """The net's weights by the names of torch, float32, and the samples of both kinds."""

    weights: dict[str, np.ndarray]
    training: Samples  # 1197
    held_out: Samples  # 600

    def to_torch(self) -> nn.Sequential:
        """Return the net in eval mode, (N, 1, 8, 8) to scores (N, 10); raises MissingPackage."""
        torch = require("torch", "torch")
        net = architecture()
        net.load_state_dict({k: torch.from_numpy(w.copy()) for k, w in self.weights.items()})
        return net.eval()

    def to_onnx(self) -> ModelProto:
        """Return the net as a model from ``x`` (N, 1, 8, 8) to ``y`` (N, 10), N open.

        Raises MissingPackage.
        """
        helper = require("onnx.helper", "onnx")
        tensors = [
            helper.make_tensor(name, 1, w.shape, np.ascontiguousarray(w).tobytes(), raw=True)
            for name, w in self.weights.items()
        ]
        nodes, value = [], "x"
        for name in ("0", "3"):
            parameters = [value, f"{name}.weight", f"{name}.bias"]
            a, b, value = (f"{kind}{name}" for kind in ("sums", "maps", "halved"))
            nodes += [
                helper.make_node("Conv", parameters, [a], f"conv{name}", pads=[PADDING] * 4),
                helper.make_node("Relu", [a], [b]),
                helper.make_node("MaxPool", [b], [value], kernel_shape=[2, 2], strides=[2, 2]),
            ]
        nodes += [
            helper.make_node("Flatten", [value], ["features"]),
            helper.make_node("Gemm", ["features", "7.weight", "7.bias"], ["y"], transB=1),
        ]
        ends = [
            helper.make_tensor_value_info(name, 1, ["N", *sizes])
            for name, sizes in (("x", (1, 8, 8)), ("y", (10,)))
        ]
        graph = helper.make_graph(nodes, "digits", ends[:1], ends[1:], tensors)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION
        )


def architecture() -> nn.Sequential:
    """Return the net with torch's random weights: 1 → 32 → 64 maps by 5x5 filters, 10 scores."""
    nn = require("torch.nn", "torch")
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=PADDING), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=PADDING), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip


def digits() -> Digits:
    """Return the trained net and all samples, from the file that winogen keeps."""
    with np.load(FILE) as file:
        held_out = np.zeros(len(file["labels"]), bool)
        held_out[file["held_out"]] = True
        pictures = file["pictures"].astype(np.float32)[:, None] / 8 - 1
        labels = file["labels"].astype(np.int64)
        weights = {name: file[name].astype(np.float32) for name in NAMES}
    return Digits(weights, *(Samples(pictures[at], labels[at]) for at in (~held_out, held_out)))


def write(
    weights: dict[str, np.ndarray], pictures: np.ndarray, labels: np.ndarray, held_out: np.ndarray
) -> None:
    """Keep weights, rounded to float16, pictures (N, 8, 8) from 0 to 16, and who is held out."""
    kept: dict[str, Any] = {name: weights[name].astype(np.float16) for name in NAMES}
    np.savez_compressed(
        FILE,
        **kept,
        pictures=pictures.astype(np.uint8),
        labels=labels.astype(np.uint8),
        held_out=np.sort(held_out).astype(np.uint16),
    )
