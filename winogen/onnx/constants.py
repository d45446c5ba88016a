"""The constants of a model that is being written: equal ones once, and by their old names."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from winogen.onnx.model import Model, fresh


class Constants:
    """What the nodes of winogen's read.

    ``tensors``: by name, those to be written.
    """

    def __init__(self, model: Model, taken: set[str]):
        """``taken``: names of anything, to which those of new constants are added."""
        self._model, self._taken = model, taken
        self.tensors: dict[str, Any] = {}
        self._known = _originals(model)

    def name(self, array: np.ndarray, key: str, what: str) -> str:
        """Return the name of a constant, ``what`` of the layer ``key`` if it is new."""
        array = np.ascontiguousarray(array).reshape(np.shape(array))
        alike = self._known[_outline(array)]
        same = (name for name, other in alike if other.tobytes() == array.tobytes())
        name = next(same, "")
        if not name:
            name = fresh(f"{key}.{what}", self._taken)
            alike.append((name, array))
        if name not in self.tensors:
            self.tensors[name] = self._model.onnx.numpy_helper.from_array(array, name)
        return name


def _originals(model: Model) -> dict[Any, list[tuple[str, np.ndarray]]]:
    """The model's own weights with their names: what was not folded keeps its name."""
    names: dict[Any, list[tuple[str, np.ndarray]]] = defaultdict(list)
    for node in model.graph.node:
        for name in node.input[1:] if node.op_type == "Conv" else ():
            array = model.constant(name) if name else None
            if array is not None and name not in model.constant_nodes:
                names[_outline(array)].append((name, array))
    return names


def _outline(array: np.ndarray) -> tuple[Any, ...]:
    """What equal arrays have in common, and others hardly ever."""
    return array.shape, array.dtype.str, array.ravel()[:16].tobytes()
