"""The doors through which a layer can be had, and what each says to every type of numbers.

`doors_table` asks them all, with a layer of real size on this CPU: a door computes it, or refuses
it by a sentence.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from support import WORKS, general

from winogen.errors import WinogenError

TYPES = ("float32", "float64", "float16", "bfloat16", "bytes")
KERNELS = Path(__file__).parents[1] / "lab" / "winogen_lab" / "cover" / "kernels.json"
SHAPE, WEIGHT = (1, 64, 28, 28), (64, 64, 3, 3)


@dataclass(frozen=True)
class Door:
    """A way to a layer: its name, layouts, targets, and a function that asks it for a type."""

    name: str
    layouts: str
    targets: str
    ask: Callable[[str], Any]


def _weight(dtype: str) -> np.ndarray:
    numbers = np.random.default_rng(0).standard_normal(WEIGHT, np.float32) / 24
    if dtype == "bfloat16":
        import ml_dtypes

        return numbers.astype(ml_dtypes.bfloat16)
    return numbers.astype(dtype)


def _layer(dtype: str) -> None:
    import winogen

    if dtype == "bytes":
        codes = np.ones(WEIGHT, np.int8)
        winogen.QConv2d(codes, padding=1)(np.ones(SHAPE, np.uint8))
    else:
        weight = _weight(dtype)
        winogen.Conv2d(weight, padding=1)(np.ones(SHAPE, weight.dtype))


def _standalone(dtype: str) -> None:
    from winogen.conv.standalone import standalone
    from winogen.conv.standalone_quantized import standalone_quantized

    if dtype == "bytes":
        standalone_quantized(SHAPE, WEIGHT, padding=1, isa="generic")
    else:
        standalone(SHAPE, WEIGHT, padding=1, dtype=dtype, isa="generic")


def _torch(dtype: str) -> Any:
    import torch

    import winogen.torch
    from winogen.testing import every_layer

    if dtype == "bytes":
        return "torch's own layers of bytes stay as they are"
    kind = getattr(torch, dtype)
    model = torch.nn.Conv2d(64, 64, 3, padding=1).to(kind).eval()
    with every_layer():
        fast = winogen.torch.optimize(model, (torch.randn(SHAPE).to(kind),))
    return None if fast.winogen_report.segments else _reason(fast)


def _reason(model: Any) -> str:
    import winogen.torch

    return str(winogen.torch.report(model)).strip().splitlines()[0]


def _model(dtype: str) -> Any:
    import onnx
    from onnx import helper, numpy_helper

    if dtype == "bytes":
        from winogen.onnx import quantize

        samples = np.random.default_rng(1).standard_normal((4, *SHAPE), np.float32)
        return quantize(_model("float32"), list(samples))
    kinds = {"float32": "FLOAT", "float64": "DOUBLE"}
    kind = getattr(onnx.TensorProto, kinds.get(dtype, dtype.upper()))
    weight = numpy_helper.from_array(_weight(dtype), "w")
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])], "net",
        [value("x", kind, SHAPE)], [value("y", kind, (1, WEIGHT[0], *SHAPE[2:]))], [weight],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def _onnx(dtype: str) -> Any:
    import winogen.onnx
    from winogen.testing import every_layer

    with every_layer():
        made = winogen.onnx.optimize(_model(dtype))
    ours = any(node.domain == "com.winogen" for node in made.graph.node)
    return None if ours else "stays with onnxruntime"


def _network(dtype: str) -> None:
    from winogen.network import generate

    generate(_model(dtype), isa="generic")


def _wheel(dtype: str) -> str | None:
    """Its kernels are a list; others of these types are compiled where there is a compiler."""
    kinds = {one.get("kind") for one in json.loads(KERNELS.read_text("utf-8"))}
    kind = "bytes" if dtype == "bytes" else "convolution"
    if dtype in ("float32", "bytes") and kind in kinds:
        return None
    return "computed by kernels for any CPU, or compiled"


DOORS = (
    Door("`winogen.conv2d`, `Conv2d`, `QConv2d`", "NCHW, NHWC", "this CPU's", _layer),
    Door("[one layer as C](standalone.md)", "NCHW, NHWC", "all", _standalone),
    Door("[PyTorch](torch.md)", "NCHW, channels last", "this CPU's", _torch),
    Door("[ONNX](onnx.md)", "NCHW", "this CPU's", _onnx),
    Door("[a network as C](network.md)", "NCHW", "all", _network),
    Door("[a wheel](deploy.md)", "NCHW, NHWC", "avx512, avx2, sse2; neon", _wheel),
)


def asked(door: Door, dtype: str) -> str:
    """Return what a door says to a type: `WORKS`, or its sentence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            said = door.ask(dtype)
        except WinogenError as refusal:
            said = general(str(refusal))
    return WORKS if said is None else re.sub(r"\s+", " ", said).replace("|", "/")


def doors_table() -> list[str]:
    """Return the lines of the table of doors, and of what they refuse."""
    lines = [f"| door | layouts | targets | {' | '.join(TYPES)} |", "|---" * (3 + len(TYPES)) + "|"]
    sentences: list[str] = []
    for door in DOORS:
        said = []
        for dtype in TYPES:
            answer = asked(door, dtype)
            if answer != WORKS:
                if answer not in sentences:
                    sentences.append(answer)
                answer = f"({sentences.index(answer) + 1})"
            said.append(answer)
        lines.append(f"| {door.name} | {door.layouts} | {door.targets} | {' | '.join(said)} |")
    return [*lines, "", *(f"{k}. {one}" for k, one in enumerate(sentences, 1))]
