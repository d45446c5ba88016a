"""What a layer computes, in float64 by numpy: what generated programs are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import prod
from typing import Any

import numpy as np

from winogen.conv.epilogue import finished
from winogen.conv.problem import Problem
from winogen.conv.transposed_problem import TransposedProblem
from winogen.records import Epilogue

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


def reference(
    asked: Problem | TransposedProblem, epilogue: Epilogue, arrays: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Return the output of a problem in float64, in the layout of the layer.

    ``arrays``: input, weights and, as far as there are any, bias, slopes, add and add_after.
    """
    planar = str(asked.shapes["layout"]).startswith("NC")
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}

    def planes(array: np.ndarray) -> np.ndarray:
        return array if planar else np.moveaxis(array, -1, 1)

    given = planes(wide["input"]), wide["weights"]
    sums = _sums(asked, *given) if isinstance(asked, Problem) else _scattered(asked, *given)
    output = np.empty_like(sums)
    add, after = (planes(wide[one]) if one in wide else None for one in ("add", "add_after"))
    store = finished(epilogue, wide.get("bias"), wide.get("slopes"), add, after, output)
    for image, own in enumerate(sums):
        store(own, image, slice(0, len(own)), tuple(slice(0, n) for n in own.shape[1:]))
    return output if planar else np.moveaxis(output, 1, -1)


def _sums(problem: Problem, input: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The sums of a convolution, channels first."""
    layer, groups = problem.layer, problem.layer.groups
    ends = [(axis.before, axis.after) for axis in layer.axes]
    padded = np.pad(input, [(0, 0), (0, 0), *ends], _MODES[layer.padding_mode])
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
    return sums


def _scattered(problem: TransposedProblem, input: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The sums of a transposed layer: by each tap every input is added to an output."""
    layer, groups = problem.layer, problem.layer.sample.groups
    channels, filters = input.shape[1] // groups, weights.shape[1]
    befores = [before for before, _ in layer.ends]
    along = [*zip(layer.stride, layer.dilation, layer.sample.kernel, befores)]
    # As far as any tap reaches, and any output.
    size = [
        max(s * (n - 1) + d * (k - 1) + 1, before + count)
        for (s, d, k, before), n, count in zip(along, problem.size, problem.output_size)
    ]
    sums = np.zeros((problem.batch, groups * filters, *size))
    for taps in product(*map(range, layer.sample.kernel)):
        places = tuple(
            slice(d * tap, d * tap + s * (n - 1) + 1, s)
            for tap, (s, d, _, _), n in zip(taps, along, problem.size)
        )
        for group in range(groups):
            into = slice(group * filters, (group + 1) * filters)
            seen = slice(group * channels, (group + 1) * channels)
            factors: np.ndarray = weights[(seen, slice(None), *taps)]  # type: ignore[arg-type]
            added = np.einsum("cm,nc...->nm...", factors, input[:, seen])
            sums[(slice(None), into, *places)] += added
    kept: Any = tuple(slice(b, b + n) for b, n in zip(befores, problem.output_size))
    return sums[(slice(None), slice(None), *kept)]
