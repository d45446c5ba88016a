"""The convolutions of the nets of the benchmark, as layers."""

from __future__ import annotations

from typing import Any

from winogen.extras import require
from winogen.lab.nets import NETS
from winogen.tuning.layers import BenchLayer


def layers_of_nets() -> list[BenchLayer]:
    """Return the convolutions of all nets with torch modules that can be built here.

    Raises MissingPackage without torch.
    """
    torch = require("torch", "torch")
    layers: list[BenchLayer] = []
    for net in NETS.values():
        if net.missing() is None and not net.is_onnx:
            layers += _layers(torch, net)
    return layers


def _layers(torch: Any, net: Any) -> list[BenchLayer]:
    found: list[BenchLayer] = []

    def look(module: Any, inputs: Any, output: Any) -> None:
        padding = module.padding
        if isinstance(padding, str):
            padding = tuple((size - 1) // 2 for size in module.kernel_size)
        found.append(
            BenchLayer(
                f"{net.name} {len(found)}",
                net.name,
                tuple(inputs[0].shape),
                tuple(module.weight.shape),
                tuple(module.stride),
                tuple(padding),
                tuple(module.dilation),
                module.groups,
            )
        )

    module = net.module()
    for part in module.modules():
        if isinstance(part, torch.nn.Conv2d):
            part.register_forward_hook(look)
    with torch.no_grad():
        module(torch.zeros(net.input))
    return found
