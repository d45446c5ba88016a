"""Inputs for a model that is run to see what it does: zeros of the right sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from winogen.errors import InvalidValue
from winogen.onnx.model import Model


def sizes_of_inputs(model: Model, given: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the sizes of all inputs: those given or written in the model, 1 for an open batch.

    Raises InvalidValue where others are open.
    """
    sizes = dict(given)
    constant = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.name in given or value.name in constant:
            continue
        known = model.sizes.get(value.name, ())
        if known and all(size.known for size in known[1:]):
            sizes[value.name] = tuple(1 if not size.known else size.number for size in known)
        elif known:
            raise InvalidValue(
                f"input_shapes: got none for {value.name}, {' x '.join(map(str, known))}; "
                f"allowed: sizes for it, on the command line as --input {value.name}=1,3,224,224"
            )
    return sizes


def zeros(value: Any, model: Model) -> np.ndarray:
    """Return zeros for an input as onnxruntime describes it."""
    kinds = {"tensor(float)": "float32", "tensor(double)": "float64"}
    kind = kinds.get(value.type, value.type.removeprefix("tensor(").removesuffix(")"))
    shape = model.fixed.get(value.name) or [n if isinstance(n, int) else 1 for n in value.shape]
    return np.zeros(shape, kind)
