"""What all contestants get of a net, written by a process of its own into a folder.

``python -m winogen_lab.nets.files animevideov3 FOLDER`` does so, too, and adds samples.npy: more
inputs, to calibrate an 8-bit model on.

x.npy       the input, float32
y64.npy     the output in float64
state.pt    the weights, for torch
net.pt      the traced module, for ncnn's converter
net.onnx    everything, for those who read that
"""

from __future__ import annotations

import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from winogen.extras import MissingPackage
from winogen_lab.nets import NETS, Net, NotInstalled

_SEED = 20
_SAMPLES = (2, 4)  # pieces of a photograph, down and across, or as many random inputs
_OPSET = 17  # old enough for every reader, new enough for every net


def lay_out(name: str, folder: str) -> dict:
    """Write the files of net ``name``; return facts about it: output shape, GMAC, share of 3x3.

    Raises NotInstalled, and whatever torch or onnx raise.
    """
    net, place = NETS[name], Path(folder)
    x = example(net)
    np.save(place / "x.npy", x)
    if net.is_onnx:
        _lay_out_onnx(net, place, x)
    else:
        _lay_out_module(net, place, x)
    y64 = np.load(place / "y64.npy", mmap_mode="r")
    return {"output": list(y64.shape), **work(place / "net.onnx")}


def example(net: Net) -> np.ndarray:
    """Return an input: part of a photograph for trained nets, else normal numbers; float32."""
    batch, channels, height, width = net.input
    if net.is_trained:
        from winogen.demo.photograph import photograph

        photo = photograph()[:, 40 : 40 + height, 100 : 100 + width]
        return np.ascontiguousarray(np.broadcast_to(photo, net.input), np.float32)
    generator = np.random.default_rng(_SEED)
    return generator.standard_normal((batch, channels, height, width), np.float32)


def samples(net: Net) -> np.ndarray:
    """Return inputs, (count, C, H, W): pieces of a photograph for trained nets; float32."""
    _, channels, height, width = net.input
    down, across = _SAMPLES
    if not net.is_trained:
        generator = np.random.default_rng(_SEED + 1)
        return generator.standard_normal((down * across, channels, height, width), np.float32)
    from winogen.demo.photograph import photograph

    photo = photograph()
    step, stride = (
        min(size, (whole - size) // (count - 1))
        for size, whole, count in zip((height, width), photo.shape[1:], _SAMPLES)
    )
    places = [(row * step, col * stride) for row in range(down) for col in range(across)]
    return np.stack([photo[:, r : r + height, c : c + width] for r, c in places])


def load_module(net: Net, folder: str | Path) -> Any:
    """Return the torch module of a net that was laid out, with its weights, in eval mode."""
    import torch

    module = net.module()
    module.load_state_dict(torch.load(Path(folder, "state.pt"), weights_only=True))
    return module


def _lay_out_module(net: Net, folder: Path, x: np.ndarray) -> None:
    import torch

    from winogen_lab.nets.blocks import fill

    module, image = net.module(), torch.from_numpy(x)
    if not net.is_trained:
        fill(module, image, _SEED)
    torch.save(module.state_dict(), folder / "state.pt")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of deprecation: the older exporter needs no onnxscript
        torch.jit.trace(module, image).save(str(folder / "net.pt"))
        torch.onnx.export(
            module, (image,), str(folder / "net.onnx"), dynamo=False, opset_version=_OPSET,
            input_names=["x"], output_names=["y"],
        )  # fmt: skip
        np.save(folder / "y64.npy", module.double()(image.double()).numpy())


def _lay_out_onnx(net: Net, folder: Path, x: np.ndarray) -> None:
    """Fix the sizes of the input, rename the ends, and let onnx's reference compute in float64."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    from winogen.onnx.reference import in_double

    assert net.weights is not None
    model = onnx.load(str(net.weights.file()))
    graph = model.graph
    renamed = {graph.input[0].name: "x", graph.output[0].name: "y"}
    for node in graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
    graph.input[0].name, graph.output[0].name = "x", "y"
    sizes = graph.input[0].type.tensor_type.shape
    del sizes.dim[:]
    for size in net.input:
        sizes.dim.add().dim_value = size
    for size in graph.output[0].type.tensor_type.shape.dim:
        size.Clear()
    onnx.save(model, str(folder / "net.onnx"))
    (y,) = ReferenceEvaluator(in_double(model)).run(None, {"x": x.astype(np.float64)})
    np.save(folder / "y64.npy", y)


def work(path: Path) -> dict:
    """Return the multiplications of an ONNX file, and which share 3x3 layers of stride 1 have."""
    import onnx

    model = onnx.shape_inference.infer_shapes(onnx.load(str(path)))
    graph = model.graph
    shapes: dict[str, list[int]] = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            shapes[node.output[0]] = [
                size for a in node.attribute if a.HasField("t") for size in a.t.dims
            ]
    for value in (*graph.input, *graph.output, *graph.value_info):
        dims = value.type.tensor_type.shape.dim
        shapes[value.name] = [size.dim_value for size in dims]
    total = dense = 0
    for node in graph.node:
        if node.op_type not in ("Conv", "ConvTranspose", "Gemm", "MatMul"):
            continue
        spread = 0 if node.op_type == "ConvTranspose" else -1  # whose positions multiply
        ends = (shapes.get(node.input[0], []), shapes.get(node.output[0], []))
        weight = shapes.get(node.input[1], [])
        positions = int(np.prod([ends[spread][0], *ends[spread][2:]])) if ends[spread] else 0
        count = positions * int(np.prod(weight))
        total += count
        strides = next((list(a.ints) for a in node.attribute if a.name == "strides"), [1, 1])
        if node.op_type == "Conv" and weight[2:] == [3, 3] and strides == [1, 1]:
            groups = next((a.i for a in node.attribute if a.name == "group"), 1)
            dense += count if groups == 1 else 0
    return {"gmac": total / 1e9, "share_3x3": dense / total if total else 0.0}


def clean(folder: Path) -> None:
    """Empty the folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()


def main(arguments: list[str] | None = None) -> int:
    """Write the files of a net, and samples.npy; return the exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    if len(words) != 2 or words[0] not in NETS:
        names = ", ".join(NETS)
        print(f"arguments: got {' '.join(words)!r}; allowed: NET FOLDER, with NET of {names}")
        return 2
    name, folder = words[0], Path(words[1])
    folder.mkdir(parents=True, exist_ok=True)
    try:
        lay_out(name, str(folder))
    except (NotInstalled, MissingPackage) as problem:
        print(f"net: got {name}: {problem}")
        return 2
    np.save(folder / "samples.npy", samples(NETS[name]))
    print(*sorted(str(path) for path in folder.iterdir()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
