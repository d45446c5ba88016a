"""The layers of a net, as often as it has them."""

from __future__ import annotations

from typing import Any

from winogen.tuning.chosen import layers_of_onnx
from winogen.tuning.layers import BenchLayer
from winogen_lab.nets import NETS


def layers_called(net_name: str) -> list[BenchLayer]:
    """Return the layers of a net, without names, each as often as the net has it.

    Raises NotInstalled for what it needs.
    """
    net = NETS[net_name]
    if net.is_onnx:
        assert net.weights is not None
        return layers_of_onnx(net.weights.file())
    return _of_module(net.name, net.module(), net.input)


def _of_module(name: str, module: Any, shape: tuple[int, ...]) -> list[BenchLayer]:
    """The convolutions that a torch module calls, as they meet their inputs."""
    import torch

    layers: list[BenchLayer] = []

    def note(conv: Any, arguments: tuple, _: Any) -> None:
        padding = conv.padding
        if padding == "valid":
            padding = (0, 0)
        if padding == "same":
            padding = tuple(d * (k - 1) // 2 for d, k in zip(conv.dilation, conv.kernel_size))
        layers.append(
            BenchLayer(
                "",
                name,
                tuple(arguments[0].shape),
                tuple(conv.weight.shape),
                conv.stride,
                tuple(padding),
                conv.dilation,
                conv.groups,
            )
        )

    hooks = [
        one.register_forward_hook(note) for one in module.modules() if type(one) is torch.nn.Conv2d
    ]
    try:
        with torch.no_grad():
            module(torch.zeros(shape))
    finally:
        for hook in hooks:
            hook.remove()
    return layers
