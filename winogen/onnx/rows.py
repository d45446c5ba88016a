"""Nodes of one axis read as nodes of two: a signal (N, C, W) is an image (N, C, 1, W)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from winogen.onnx.model import Model
from winogen.onnx.sizes import ACTIVE, Sizes, input_of, number

# What means the same with an axis of one row before the last, if its attributes have one, too.
LIFTED = ACTIVE | frozenset(
    "Add AveragePool BatchNormalization Concat Conv ConvTranspose Div GlobalAveragePool "
    "GroupNormalization InstanceNormalization MaxPool Mul Pad Slice Split Sub Sum".split()
)
# What shows that an array of three axes is a signal.
STARTS = frozenset("Conv ConvTranspose Pad BatchNormalization MaxPool AveragePool".split())
# What attributes have for the new axis; "pads" has it before and after.
_NEW = {
    "kernel_shape": 1,
    "strides": 1,
    "dilations": 1,
    "output_padding": 0,
    "output_shape": 1,
}


class Rows:
    """A model with its signals as images of one row, and no other maps; all else is the model's.

    To be asked about nodes of `LIFTED` that make signals.
    """

    def __init__(self, model: Model):
        self._model = model
        self._attributes: dict[tuple[str, ...], dict[str, Any]] = {}
        self._lifted: dict[str, tuple[Any, Any]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    @cached_property
    def sizes(self) -> dict[str, Sizes]:
        """The sizes of all signals, with a height of one."""
        known = self._model.sizes.items()
        return {name: (*sizes[:2], number(1), sizes[2]) for name, sizes in known if len(sizes) == 3}

    def constant(self, name: str) -> np.ndarray | None:
        """Return a value that never changes; None if it may. The same array every time."""
        array = self._model.constant(name)
        if array is None or array.ndim not in (2, 3):
            return array
        kept = self._lifted.get(name)
        if kept is None or kept[0] is not array:
            kept = self._lifted[name] = array, np.expand_dims(array, -2)
        return kept[1]

    def attributes(self, node: Any) -> dict[str, Any]:
        """Return the attributes of a node, for two axes."""
        key = tuple(node.output)
        if key not in self._attributes:
            values = dict(self._model.attributes(node))
            if node.op_type == "Pad":
                values = self._padding(node, values)
            for name in ("pads", *_NEW):
                if name in values:
                    values[name] = _with_row(name, values[name])
            if values.get("axis", 0) < 0:  # of the channels, as others mean something else
                values["axis"] = values["axis"] + 3 if values["axis"] == -2 else None
            self._attributes[key] = values
        return self._attributes[key]

    def _padding(self, node: Any, values: dict[str, Any]) -> dict[str, Any]:
        """What a Pad has as attributes or as inputs, as attributes."""
        if "pads" in values or len(node.input) < 2:
            return values
        pads = self._model.constant(node.input[1])
        fill = self._model.constant(name) if (name := input_of(node, 2)) else 0
        if pads is None or fill is None or np.size(fill) != 1 or len(node.input) > 3:
            return values | {"pads": ()}  # which nobody can read
        return values | {"pads": pads.tolist(), "value": float(np.reshape(fill, -1)[0])}


def _with_row(name: str, given: Any) -> list[int]:
    numbers = list(given)
    if name != "pads":
        return [*numbers[:-1], _NEW[name], *numbers[-1:]]
    half = len(numbers) // 2
    before, after = numbers[:half], numbers[half:]
    return [*before[:-1], 0, *before[-1:], *after[:-1], 0, *after[-1:]]
