"""What a layer computes, in float64 by numpy: what generated programs are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from winogen.conv.epilogue import finished
from winogen.conv.phases import ordinary
from winogen.conv.problem import Layer, Problem
from winogen.conv.transposed_problem import TransposedProblem
from winogen.records import Axis, Epilogue

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
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    layer = asked.layer if isinstance(asked, Problem) else asked.layer.sample

    def planes(array: np.ndarray) -> np.ndarray:
        return array if layer.planar else np.moveaxis(array, -1, 1)

    x, weights = planes(wide["input"]), wide["weights"]
    if isinstance(asked, TransposedProblem):
        x, weights, layer = _as_ordinary(asked, x, weights)
    ends = [(axis.before, axis.after) for axis in layer.axes]
    padded = np.pad(x, [(0, 0), (0, 0), *ends], _MODES[layer.padding_mode])
    filters, channels = layer.filters // layer.groups, layer.channels // layer.groups
    sums = np.zeros((asked.batch, layer.filters, *asked.output_size))
    for taps in product(*map(range, layer.kernel)):
        places = tuple(
            slice(first, first + axis.stride * (count - 1) + 1, axis.stride)
            for tap, axis, count in zip(taps, layer.axes, asked.output_size, strict=True)
            for first in (tap * axis.dilation,)
        )
        for group in range(layer.groups):
            into = slice(group * filters, (group + 1) * filters)
            seen = slice(group * channels, (group + 1) * channels)
            inputs: np.ndarray = padded[(slice(None), seen, *places)]
            factors: np.ndarray = weights[(into, slice(None), *taps)]  # type: ignore[arg-type]
            sums[:, into] += np.einsum("mc,nc...->nm...", factors, inputs)
    output = np.empty_like(sums)
    add, after = (planes(wide[one]) if one in wide else None for one in ("add", "add_after"))
    store = finished(epilogue, wide.get("bias"), wide.get("slopes"), add, after, output)
    for image, own in enumerate(sums):
        store(own, image, slice(0, layer.filters), tuple(slice(0, n) for n in asked.output_size))
    return output if layer.planar else np.moveaxis(output, 1, -1)


def _as_ordinary(
    asked: TransposedProblem, input: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, Layer]:
    """A transposed layer as its definition has it: taps in reverse, on inputs amid zeros."""
    layer, sample = asked.layer, asked.layer.sample
    at, cut, whole = [slice(None)] * 2, [slice(None)] * 2, [*input.shape[:2]]
    along = zip(layer.stride, layer.dilation, sample.kernel, layer.ends, asked.size)
    for (s, d, k, (before, _), size), outputs in zip(along, asked.output_size):
        reach = d * (k - 1)
        last = before + outputs + reach  # that an output sees
        at.append(slice(reach, reach + s * size, s))
        cut.append(slice(before, last))
        whole.append(max(reach + s * (size - 1) + 1, last))
    stuffed = np.zeros(whole)
    stuffed[tuple(at)] = input
    axes = tuple(Axis(k, 1, d) for k, d in zip(sample.kernel, layer.dilation))
    flipped = np.flip(ordinary(weights, sample.groups), tuple(range(2, weights.ndim)))
    return stuffed[tuple(cut)], flipped, replace(sample, axes=axes)
