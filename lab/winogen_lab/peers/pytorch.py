"""PyTorch on the CPU (oneDNN): plain modules, packed weights, torch.compile; and whole nets."""

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
    """NCHW and channels-last modules in inference mode; of ordinary layers of two axes also oneDNN
    with prepacked weights.
    """
    import torch

    torch.set_num_threads(threads)
    modules: dict[str, Callable[[], Way]] = {
        "NCHW": partial(_module, layer, x, weight, torch.contiguous_format)
    }
    if layer.rank == 1:  # for which it has no other formats
        return modules
    last = torch.channels_last if layer.rank == 2 else torch.channels_last_3d
    modules["channels-last"] = partial(_module, layer, x, weight, last)
    if layer.rank == 3 or layer.transposed:
        return modules
    return modules | {
        "packed, NCHW": partial(_packed, layer, x, weight, torch.contiguous_format),
        "packed, channels-last": partial(_packed, layer, x, weight, torch.channels_last),
    }


def net(net: Net, folder: Path, threads: int) -> dict[str, Callable[[], Way]]:
    """Module by module, batch normalisation folded, activations channels-last."""

    def build() -> Way:
        module, image = prepared(net, folder, threads)
        return of_module(module, image)

    return {"channels-last": build}


def compiled(net: Net, folder: Path, threads: int) -> dict[str, Callable[[], Way]]:
    """What torch.compile makes of the module with frozen weights: folded, packed, fused."""

    def build() -> Way:
        import torch
        import torch._inductor.config as inductor

        inductor.freezing = True
        module, image = prepared(net, folder, threads, fold=False)
        return of_module(torch.compile(module), image)

    return {"frozen, channels-last": build}


def prepared(net: Net, folder: Path, threads: int, fold: bool = True) -> tuple[Any, Any]:
    """Return a net's module in eval mode and its input, both channels-last.

    ``fold``: batch normalization goes into the weights.
    """
    import torch

    from winogen_lab.nets.files import load_module

    torch.set_num_threads(threads)
    module = load_module(net, folder)
    if fold and any(isinstance(m, torch.nn.BatchNorm2d) for m in module.modules()):
        from torch.fx.experimental.optimization import fuse

        module = fuse(module)  # right here, where no convolution is used twice
    image = torch.from_numpy(np.load(folder / "x.npy"))
    module = module.requires_grad_(False).to(memory_format=torch.channels_last)
    return module, image.contiguous(memory_format=torch.channels_last)


def of_module(module: Any, image: Any) -> Way:
    """A call of a module without gradients."""
    import torch

    def run() -> Any:
        with torch.no_grad():
            return module(image)

    return Way(run, _numpy)


def _module(layer: BenchLayer, x: np.ndarray, weight: np.ndarray, memory_format: Any) -> Way:
    import torch

    conv = getattr(torch.nn, layer.class_name)(
        layer.input[1],
        layer.filters,
        layer.weight[2:],
        **{**layer.options, "padding": layer.padding},
        bias=False,
    ).eval()
    with torch.no_grad():
        conv.weight.copy_(torch.from_numpy(weight))
    conv = conv.to(memory_format=memory_format)
    data = torch.from_numpy(x).contiguous(memory_format=memory_format)

    def run() -> Any:
        with torch.inference_mode():
            return conv(data)

    return Way(run, _numpy)


def _packed(layer: BenchLayer, x: np.ndarray, weight: np.ndarray, memory_format: Any) -> Way:
    """What torch.compile makes of a frozen module, without its guards and wrappers."""
    import torch

    data = torch.from_numpy(x).contiguous(memory_format=memory_format)
    stride, padding, dilation = list(layer.stride), list(layer.padding), list(layer.dilation)
    packed = torch._C._nn.mkldnn_reorder_conv2d_weight(
        torch.from_numpy(weight).to_mkldnn(),
        padding,
        stride,
        dilation,
        layer.groups,
        list(layer.input),
    )
    convolve = torch.ops.mkldnn._convolution_pointwise
    options: tuple = (None, padding, stride, dilation, layer.groups, "none", [], "")

    def run() -> Any:
        with torch.inference_mode():
            return convolve(data, packed, *options)

    return Way(run, _numpy)


def _numpy(y: Any) -> np.ndarray:
    return y.contiguous().numpy()
