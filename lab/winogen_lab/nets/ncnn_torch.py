"""A net read from ncnn's files as a torch module, so that every contestant can run its weights."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from winogen.errors import InvalidValue
from winogen_lab.nets.ncnn_files import NcnnLayer, sweep


class NcnnNet(nn.Module):
    """The layers of `winogen_lab.nets.ncnn_files.read`: (N, C, H, W) to the last layer's output.

    Raises InvalidValue for what the layers' options ask for and this does not have.
    """

    def __init__(self, layers: list[NcnnLayer]):
        super().__init__()
        self.layers = layers
        self.calls = nn.ModuleList(_MODULES.get(layer.kind, _nothing)(layer) for layer in layers)

    def forward(self, x: Tensor) -> Tensor:
        return sweep(self.layers, self.calls, x)


def _nothing(layer: NcnnLayer) -> nn.Module:
    return nn.Identity()


def _refuse(layer: NcnnLayer, what: str, allowed: str) -> InvalidValue:
    return InvalidValue(f"{layer.kind} {layer.name}: got {what}; allowed: {allowed}")


def _convolution(layer: NcnnLayer) -> nn.Module:
    kernel, stride, dilation = layer.pair(1), layer.pair(3, 1), layer.pair(2, 1)
    padding = (layer.integer(14, layer.integer(4)), layer.integer(4))
    ends = (layer.integer(16, padding[0]), layer.integer(15, padding[1]))
    if ends != padding:
        raise _refuse(layer, f"paddings {padding} and {ends}", "the same at both ends")
    weight = torch.from_numpy(layer.weights["weight"].copy())
    conv: nn.Module
    if layer.kind == "Deconvolution":
        weight = weight.transpose(0, 1).contiguous()
        conv = nn.ConvTranspose2d(*weight.shape[:2], kernel, stride, padding, dilation=dilation)
    else:
        conv = nn.Conv2d(weight.shape[1], weight.shape[0], kernel, stride, padding, dilation)
    return _with_activation(layer, _filled(conv, layer, weight))


def _inner_product(layer: NcnnLayer) -> nn.Module:
    weight = torch.from_numpy(layer.weights["weight"].copy())
    linear = _filled(nn.Linear(weight.shape[1], weight.shape[0]), layer, weight)
    return _with_activation(layer, nn.Sequential(nn.Flatten(1), linear))


def _filled(module: nn.Module, layer: NcnnLayer, weight: Tensor) -> nn.Module:
    module.weight = nn.Parameter(weight)
    bias = layer.weights.get("bias")
    module.bias = None if bias is None else nn.Parameter(torch.from_numpy(bias.copy()))
    return module


def _with_activation(layer: NcnnLayer, module: nn.Module) -> nn.Module:
    kind = layer.integer(9)
    if kind == 0:
        return module
    if kind == 1:
        return nn.Sequential(module, nn.ReLU())
    if kind == 2:
        return nn.Sequential(module, nn.LeakyReLU(layer.numbers(10)[0]))
    if kind == 4:
        return nn.Sequential(module, nn.Sigmoid())
    raise _refuse(layer, f"activation {kind}", "0, 1, 2, 4")


def _prelu(layer: NcnnLayer) -> nn.Module:
    prelu = nn.PReLU(len(layer.weights["slopes"]))
    prelu.weight = nn.Parameter(torch.from_numpy(layer.weights["slopes"].copy()))
    return prelu


def _relu(layer: NcnnLayer) -> nn.Module:
    slope = layer.number(0, 0.0)
    return nn.LeakyReLU(slope) if slope else nn.ReLU()


def _interp(layer: NcnnLayer) -> nn.Module:
    modes = {1: "nearest", 2: "bilinear", 3: "bicubic"}
    if layer.integer(0) not in modes:
        raise _refuse(layer, f"mode {layer.integer(0)}", "1, 2, 3")
    scale = (layer.number(1, 1.0), layer.number(2, 1.0))
    return nn.Upsample(scale_factor=scale, mode=modes[layer.integer(0)])


def _pooling(layer: NcnnLayer) -> nn.Module:
    if layer.integer(4):
        return nn.AdaptiveAvgPool2d(1) if layer.integer(0) else nn.AdaptiveMaxPool2d(1)
    pool = nn.AvgPool2d if layer.integer(0) else nn.MaxPool2d
    return pool(layer.pair(1), layer.pair(2, 1), layer.integer(3))


class Pointwise(nn.Module):
    """Sum or product of all inputs."""

    def __init__(self, layer: NcnnLayer, product: bool):
        super().__init__()
        if layer.numbers(1) and layer.kind == "Eltwise":
            self.factors: tuple[float, ...] = layer.numbers(1)
        else:
            self.factors = ()
        self.product = product

    def forward(self, x: Tensor, *others: Tensor) -> Tensor:
        arrays = [x, *others]
        if self.factors:
            arrays = [a if f == 1.0 else a * f for a, f in zip(arrays, self.factors)]
        result = arrays[0]
        for array in arrays[1:]:
            result = result * array if self.product else result + array
        return result


def _eltwise(layer: NcnnLayer) -> nn.Module:
    if layer.integer(0) not in (0, 1):
        raise _refuse(layer, f"operation {layer.integer(0)}", "0, 1")
    return Pointwise(layer, product=layer.integer(0) == 0)


def _binary(layer: NcnnLayer) -> nn.Module:
    if layer.integer(0) not in (0, 2) or layer.integer(1):
        raise _refuse(layer, f"operation {layer.integer(0)}", "0 or 2, of two arrays")
    return Pointwise(layer, product=layer.integer(0) == 2)


class Concat(nn.Module):
    """Channels behind one another."""

    def forward(self, *arrays: Tensor) -> Tensor:
        return torch.cat(arrays, 1)


class Scale(nn.Module):
    """Channels times numbers that come with the net or as a second input (N, C)."""

    def __init__(self, layer: NcnnLayer):
        super().__init__()
        if layer.weights:
            raise _refuse(layer, "scales of its own", "scales from another layer")

    def forward(self, x: Tensor, scales: Tensor) -> Tensor:
        return x * scales.reshape(scales.shape[0], -1, 1, 1)


class Crop(nn.Module):
    """As many rows and columns as the second input has, from an offset on."""

    def __init__(self, layer: NcnnLayer):
        super().__init__()
        self.top, self.left = layer.integer(1), layer.integer(0)

    def forward(self, x: Tensor, like: Tensor) -> Tensor:
        height, width = like.shape[2:]
        right, bottom = x.shape[3] - self.left - width, x.shape[2] - self.top - height
        return functional.pad(x, (-self.left, -right, -self.top, -bottom))


_MODULES: dict[str, Callable[[NcnnLayer], nn.Module]] = {
    "Convolution": _convolution,
    "Deconvolution": _convolution,
    "InnerProduct": _inner_product,
    "PReLU": _prelu,
    "ReLU": _relu,
    "PixelShuffle": lambda layer: nn.PixelShuffle(layer.integer(0, 1)),
    "Interp": _interp,
    "Pooling": _pooling,
    "Eltwise": _eltwise,
    "BinaryOp": _binary,
    "Concat": lambda layer: Concat(),
    "Scale": Scale,
    "Crop": Crop,
}
