"""Layers of a net that somebody names: known nets, layer sets, files of JSON and ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from winogen.errors import InvalidValue
from winogen.hardware.nets import NETS, layers

if TYPE_CHECKING:
    from winogen.conv.problem import Problem


def net_layers(name_or_file: str) -> list[Problem]:
    """Return the convolutions of a net, each as often as it has it, of one image or its batch.

    A name is one of `winogen.hardware.nets.NETS` or of a layer set, a file JSON of layers or ONNX.
    Raises InvalidValue for what is none of these, and for transposed layers.

    >>> len(net_layers("resnet50")), len(net_layers("thesis27"))
    (53, 27)
    """
    from winogen.tuning.layers import layer_sets, load_layers

    if name_or_file in NETS:
        return list(layers(name_or_file))
    if Path(name_or_file).suffix == ".onnx":
        from winogen.onnx.report import convolutions

        problems = [problem for problem in convolutions(name_or_file) if problem.layer.rank < 3]
        if not problems:
            raise InvalidValue(
                f"net: got {name_or_file}, without convolutions of one or two axes; allowed: some"
            )
        return problems
    if name_or_file not in layer_sets() and Path(name_or_file).suffix != ".json":
        sets = ", ".join(one for one in layer_sets() if one not in NETS)
        raise InvalidValue(
            f"net: got {name_or_file!r}; allowed: {', '.join(NETS)}; a layer set: {sets}; a JSON "
            "or ONNX file"
        )
    return [layer.problem() for layer in load_layers(name_or_file)]
