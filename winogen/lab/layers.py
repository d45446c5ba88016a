"""The layers to measure: of a set, of a JSON or ONNX file, of a net of the benchmark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from winogen.errors import InvalidValue
from winogen.tuning.layers import BenchLayer, layer_sets, load_layers


def chosen_layers(name_or_file: str, only: str | None = None) -> list[BenchLayer]:
    """Return the different layers of a set, a net or a file whose names contain ``only``.

    Raises InvalidValue for what is none of these, NotInstalled for what a net needs.
    """
    layers = [one for one in _of(name_or_file) if only is None or only in one.name]
    if not layers:
        raise InvalidValue(
            f"only: got {only!r}; allowed: text in the name of a layer of {name_or_file}"
        )
    return layers


def _of(name_or_file: str) -> Iterable[BenchLayer]:
    if name_or_file in layer_sets() or name_or_file.endswith(".json"):
        return load_layers(name_or_file)
    from winogen.lab.nets import NETS

    if name_or_file in NETS:
        return _named(layers_called(name_or_file))
    if name_or_file.endswith(".onnx") and Path(name_or_file).is_file():
        return _named(_of_onnx(Path(name_or_file)))
    raise InvalidValue(
        f"layers: got {name_or_file!r}; allowed: {', '.join(layer_sets())}; a net: "
        f"{', '.join(NETS)}; a JSON or ONNX file"
    )


def layers_called(net_name: str) -> list[BenchLayer]:
    """Return the layers of a net, without names, each as often as the net has it.

    Raises NotInstalled for what it needs.
    """
    from winogen.lab.nets import NETS

    net = NETS[net_name]
    if net.is_onnx:
        assert net.weights is not None
        return _of_onnx(net.weights.file())
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


def _of_onnx(file: Path) -> list[BenchLayer]:
    """The convolutions of an ONNX model that winogen would compute."""
    from winogen.onnx.report import convolutions

    layers = []
    for problem in convolutions(file):
        layer = problem.layer
        before, after = layer.padding[::2], layer.padding[1::2]
        if before != after or layer.dtype != "float32":
            continue  # a layer of the benchmark has equal padding at both ends
        layers.append(
            BenchLayer(
                "",
                file.stem,
                (problem.batch, layer.channels, *problem.size),
                layer.weight_shape,
                layer.stride,
                before,
                layer.dilation,
                layer.groups,
            )
        )
    return layers


def _named(layers: Iterable[BenchLayer]) -> list[BenchLayer]:
    """Each different layer once, called after its net and shape."""
    different = dict.fromkeys(layers)
    counts = Counter(map(_name, different))
    return [
        replace(one, name=name if counts[name] == 1 else f"{name}-p{_by_axis(one.padding)}")
        for one, name in zip(different, map(_name, different))
    ]


def _name(one: BenchLayer) -> str:
    _, channels, *size = one.input
    text = f"{one.net}-{'x'.join(map(str, (*size, channels)))}-{one.weight[0]}"
    text += f"-k{_by_axis(one.weight[2:])}"
    for letter, value in (("s", one.stride), ("d", one.dilation)):
        if set(value) != {1}:
            text += f"-{letter}{_by_axis(value)}"
    return text + (f"-g{one.groups}" if one.groups > 1 else "")


def _by_axis(values: Iterable[int]) -> str:
    return "x".join(map(str, dict.fromkeys(values)))
