"""What a layer computes, in float64 by numpy: what generated programs are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import prod
from typing import Any

import numpy as np

from winogen.conv.epilogue import finished
from winogen.conv.problem import Problem

_MODES: dict[str, Any] = {
    "zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap",
}  # fmt: skip


def numbers_of(problem: Problem, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Return normal numbers for arrays of these shapes by name, always the same.

    Sums of products have a spread near 1. Numbers are those that the layer's type has.
    """
    generator = np.random.default_rng(0)
    terms = prod(problem.layer.weight_shape[1:])
    arrays = {}
    for name, shape in shapes.items():
        values = generator.standard_normal(shape)
        values *= terms**-0.5 if name == "weights" else 0.25 if name == "slopes" else 1
        arrays[name] = values.astype(problem.layer.dtype)
    return arrays


def reference(problem: Problem, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the output of a problem in float64, in the layout of the layer.

    ``arrays``: input, weights and, as far as there are any, bias, slopes, add and add_after.
    """
    layer = problem.layer
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}

    def planes(array: np.ndarray) -> np.ndarray:
        return array if layer.planar else np.moveaxis(array, -1, 1)

    ends = [(axis.before, axis.after) for axis in layer.axes]
    padded = np.pad(planes(wide["input"]), [(0, 0), (0, 0), *ends], _MODES[layer.padding_mode])
    weights, groups = wide["weights"], layer.groups
    filters, channels = layer.filters // groups, layer.channels // groups
    sums = np.zeros((problem.batch, layer.filters, *problem.output_size))
    for taps in product(*map(range, layer.kernel)):
        places = tuple(
            slice(first, first + axis.stride * (count - 1) + 1, axis.stride)
            for tap, axis, count in zip(taps, layer.axes, problem.output_size, strict=True)
            for first in (tap * axis.dilation,)
        )
        for group in range(groups):
            into = slice(group * filters, (group + 1) * filters)
            seen = slice(group * channels, (group + 1) * channels)
            inputs: np.ndarray = padded[(slice(None), seen, *places)]
            factors: np.ndarray = weights[(into, slice(None), *taps)]  # type: ignore[arg-type]
            sums[:, into] += np.einsum("mc,nc...->nm...", factors, inputs)
    output = np.empty_like(sums)
    add, after = (planes(wide[one]) if one in wide else None for one in ("add", "add_after"))
    store = finished(problem.epilogue, wide.get("bias"), wide.get("slopes"), add, after, output)
    for image, own in enumerate(sums):
        store(own, image, slice(0, layer.filters), tuple(slice(0, n) for n in problem.output_size))
    return output if layer.planar else np.moveaxis(output, 1, -1)
