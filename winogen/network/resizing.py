"""Resize by any factor: along each axis, which numbers an output is made of, and their weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from winogen.network.loops import (
    Along,
    Bilinear,
    Halves,
    Loops,
    Move,
    Operand,
    Piece,
    Resample,
    Shape,
)
from winogen.onnx.model import Model
from winogen.onnx.quantized import Refused
from winogen.onnx.resizing import Axis, axes_of, rounded

_F = np.float32
_MODES = ("nearest", "linear", "cubic")


def resized(model: Model, node: Any, x: Operand, shape: Shape) -> list[Callable[[Operand], Loops]]:
    """Return what makes the steps of a Resize or Upsample, each of the result before it.

    Raises Refused.
    """
    values = model.attributes(node)
    mode = values.get("mode", "nearest")
    if values.get("antialias", 0):
        raise Refused("antialias")
    if mode not in _MODES:
        raise Refused(f"mode {mode}")
    rounding = values.get("nearest_mode", "round_prefer_floor")
    axes = axes_of(model, node, values, x.shape, shape)
    fill = None
    if any(one.first > 0 or one.last < one.outputs for one in axes):
        fill = float(values.get("extrapolation_value", 0.0))
    if any(one.first >= one.last for one in axes):
        raise Refused("all of it lies beyond the input")
    if mode == "nearest":
        return [lambda x: _nearest(x, axes, shape, rounding, model.opset, fill)]
    if mode == "linear" and len(shape) == 4 and {one.axis for one in axes} <= {2, 3} and axes:
        return [lambda x: _bilinear(x, axes, shape, fill)]
    axes = [one for one in axes if _is_moved(one)]
    if not axes:
        return [lambda x: _nearest(x, [], shape, "floor", model.opset, None)]
    # What makes less comes first: so the arrays between are as small as they can be.
    axes.sort(key=lambda one: one.outputs / one.inputs)
    coefficient, outside = values.get("cubic_coeff_a", -0.75), values.get("exclude_outside", 0)
    steps: list[Callable[[Operand], Loops]] = []
    for number, one in enumerate(axes):
        if mode == "linear":
            places, weights = _linear(one)
        else:
            places, weights = _cubic(one, coefficient, bool(outside))
        last = number == len(axes) - 1
        done = axes[: number + 1]
        steps.append(_step(one, done, places, weights, shape, fill, last))
    return steps


def _step(
    one: Axis, done: list[Axis], places: np.ndarray, weights: np.ndarray, shape: Shape,
    fill: float | None, last: bool,
) -> Callable[[Operand], Loops]:  # fmt: skip
    def make(x: Operand) -> Loops:
        made = list(x.shape)
        made[one.axis] = len(places)
        begin = [0] * len(shape)
        if last:
            made = list(shape)
            for axis in done:
                begin[axis.axis] = axis.first
        return Resample(
            x, one.axis, places, weights, tuple(made), tuple(begin), fill if last else None
        )

    return make


def _is_moved(one: Axis) -> bool:
    here = np.arange(one.inputs)
    return one.outputs != one.inputs or not np.array_equal(one.places, here)


def _nearest(
    x: Operand, axes: list[Axis], shape: Shape, rounding: str, opset: int, fill: float | None
) -> Move:
    origin, target = [], []
    known = {one.axis: one for one in axes}
    for axis, (count, outputs) in enumerate(zip(x.shape, shape)):
        one = known.get(axis)
        if one is None:
            origin.append(Along(count, axis))
            target.append(Along(outputs, axis))
            continue
        places = rounded(one, rounding, opset)
        table = tuple(map(int, places[one.first : one.last]))
        origin.append(Along(len(table), axis, 1, 0, table))
        target.append(Along(len(table), axis, 1, one.first))
    return Move((Piece(x, tuple(origin), tuple(target)),), shape, fill)


def _linear(one: Axis) -> tuple[np.ndarray, np.ndarray]:
    places = np.clip(one.places[one.first : one.last], 0, one.inputs - 1)
    low = np.floor(places).astype(np.int32)
    high = np.minimum(low + 1, one.inputs - 1).astype(np.int32)
    share = (places - low).astype(np.float64)
    share[low == high] = 0
    return np.stack([low, high], 1), np.stack([1 - share, share], 1)


def _bilinear(x: Operand, axes: list[Axis], shape: Shape, fill: float | None) -> Bilinear:
    known, begin, halves = {one.axis: one for one in axes}, [0] * 4, []
    for axis in (2, 3):
        one, count = known.get(axis), x.shape[axis]
        places = np.arange(count, dtype=np.float32)
        if one is not None:
            begin[axis], places = one.first, np.clip(one.places[one.first : one.last], 0, count - 1)
        low = np.floor(places).astype(np.int32)
        high = np.minimum(low + 1, count - 1).astype(np.int32)
        behind, before = places - low.astype(np.float32), high.astype(np.float32) - places
        behind[low == high] = before[low == high] = _F(0.5)
        halves.append(Halves(np.stack([low, high], 1), np.stack([before, behind], 1)))
    rows, columns = halves
    return Bilinear(x, rows, columns, shape, tuple(begin), fill)


def _cubic(one: Axis, a: float, outside: bool) -> tuple[np.ndarray, np.ndarray]:
    places = one.places[one.first : one.last].astype(np.float64)
    low = np.floor(places)
    s = places - low
    weights = np.stack(
        [
            ((a * (s + 1) - 5 * a) * (s + 1) + 8 * a) * (s + 1) - 4 * a,
            ((a + 2) * s - (a + 3)) * s * s + 1,
            ((a + 2) * (1 - s) - (a + 3)) * (1 - s) * (1 - s) + 1,
            ((a * (2 - s) - 5 * a) * (2 - s) + 8 * a) * (2 - s) - 4 * a,
        ],
        1,
    )
    taps = low[:, None].astype(np.int64) + np.arange(-1, 3)
    if outside:
        weights = np.where((taps < 0) | (taps >= one.inputs), 0, weights)
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(taps, 0, one.inputs - 1).astype(np.int32), weights
