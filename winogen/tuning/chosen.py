"""The layers to measure: of a set, of a JSON or ONNX file, of a net by its name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from winogen.errors import InvalidValue
from winogen.tuning import nets
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
    known = nets.known()
    if name_or_file in known:
        return _named(known[name_or_file].layers(name_or_file))
    if name_or_file.endswith(".onnx") and Path(name_or_file).is_file():
        return _named(layers_of_onnx(Path(name_or_file)))
    raise InvalidValue(
        f"layers: got {name_or_file!r}; allowed: {', '.join(layer_sets())}; "
        f"{nets.allowed(known)}; a JSON or ONNX file"
    )


def layers_of_onnx(file: Path) -> list[BenchLayer]:
    """Return the convolutions of an ONNX model that winogen would compute, without names."""
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
