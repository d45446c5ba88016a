"""Resize by any factor: along each axis, which numbers an output is made of, and their weights.

Places are computed in float32, as onnxruntime does: where one lies between two pixels, a rounding
says which is nearer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import floor
from typing import Any, NamedTuple

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

_F = np.float32
_MODES = ("nearest", "linear", "cubic")
# Of float32 in float64: adding a half rounds nothing then.
_TIE = 1e-6  # nearer to the middle between two pixels, onnxruntime takes it for the middle
_ROUNDING: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(_tied(x) - 0.5),
    "round_prefer_ceil": lambda x: np.floor(_tied(x) + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _tied(x: np.ndarray) -> np.ndarray:
    middle = np.floor(x) + 0.5
    return np.where(np.abs(x - middle) < _TIE, middle, x)


class Axis(NamedTuple):
    """An axis that changes: where each output lies among the inputs."""

    axis: int
    inputs: int
    outputs: int
    scale: np.float32
    places: np.ndarray  # float32
    first: int  # outputs before and from `last` on lie beyond the inputs, and are filled
    last: int


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
    axes = _axes(model, node, values, x.shape, shape)
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
        places = _rounded(one, rounding, opset)
        table = tuple(map(int, places[one.first : one.last]))
        origin.append(Along(len(table), axis, 1, 0, table))
        target.append(Along(len(table), axis, 1, one.first))
    return Move((Piece(x, tuple(origin), tuple(target)),), shape, fill)


def nearest_places(
    model: Model, node: Any, before: Shape, after: Shape
) -> tuple[np.ndarray, np.ndarray]:
    """Return of each row and column of a map which one of the input it is; raises Refused."""
    values = model.attributes(node)
    if values.get("mode", "nearest") != "nearest":
        raise Refused("it computes new numbers")
    if len(before) != 4 or before[:2] != after[:2]:
        raise Refused("it enlarges other axes than height and width")
    rounding = values.get("nearest_mode", "round_prefer_floor")
    places = [np.arange(size) for size in before]
    for one in _axes(model, node, values, before, after):
        if (one.first, one.last) != (0, one.outputs):
            raise Refused("some of it lies beyond the input")
        places[one.axis] = _rounded(one, rounding, model.opset)
    return places[2].astype(np.int32), places[3].astype(np.int32)


def _rounded(one: Axis, rounding: str, opset: int) -> np.ndarray:
    if opset < 11:  # before there were modes
        rounding = "ceil" if opset == 10 and one.scale < 1 else "floor"
    nearest = _ROUNDING[rounding](one.places.astype(np.float64))
    return np.clip(nearest, 0, one.inputs - 1).astype(int)


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


# ---- where outputs lie -------------------------------------------------------------------------


def _axes(model: Model, node: Any, values: Mapping[str, Any], before: Shape, after: Shape) -> Any:
    rank = len(before)
    chosen = [axis % rank for axis in values.get("axes", range(rank))]
    scales = _scales(model, node, values, chosen, before, after)
    mode = values.get("coordinate_transformation_mode", "half_pixel")
    if model.opset < 11:
        mode = "asymmetric"
    roi = np.zeros(2 * len(chosen), np.float32)
    if mode == "tf_crop_and_resize":
        found = _given(model, node, 1, "roi")
        if found is None:
            raise Refused("it has no roi")
        roi = found
    axes = list[Axis]()
    if before == after:  # onnxruntime copies, whatever the scales are
        return axes
    for number, axis in enumerate(chosen):
        inputs, outputs, scale = before[axis], after[axis], scales[number]
        region = roi[number], roi[number + len(chosen)]
        if scale == 1:  # here, too
            continue
        places = _places(mode, inputs, outputs, scale, region)
        first, last = 0, outputs
        if mode == "tf_crop_and_resize":
            within = np.flatnonzero((places >= 0) & (places <= inputs - 1))
            first, last = (int(within[0]), int(within[-1]) + 1) if within.size else (0, 0)
        axes.append(Axis(axis, inputs, outputs, scale, places, first, last))
    return axes


def _scales(
    model: Model, node: Any, values: Mapping[str, Any], chosen: list[int], before: Shape,
    after: Shape,
) -> np.ndarray:  # fmt: skip
    old = model.opset < 11
    if "scales" in values:
        found: np.ndarray | None = np.asarray(values["scales"], np.float32)
    else:
        found = _given(model, node, 1 if old else 2, "scales")
    if found is not None and found.size:
        if found.size != len(chosen):
            raise Refused(f"it has {found.size} scales for {len(chosen)} axes")
        found = found.astype(np.float32)
        for axis, scale in zip(chosen, found):
            if after[axis] != floor(_F(before[axis]) * scale):
                raise Refused(f"of {before[axis]} times {scale:.9g}, rounded, nobody is sure")
        return found
    sizes = _given(model, node, 3, "sizes")
    if sizes is None:
        raise Refused("it has neither scales nor sizes")
    wanted = [_F(size) / _F(before[axis]) for size, axis in zip(sizes, chosen)]
    policy = values.get("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return np.array(wanted, np.float32)
    one = min(wanted) if policy == "not_larger" else max(wanted)
    for axis in chosen:
        if after[axis] != floor(float(one * _F(before[axis])) + 0.5):
            raise Refused(f"sizes by keep_aspect_ratio_policy {policy} are not what onnx infers")
    return np.full(len(chosen), one, np.float32)


def _given(model: Model, node: Any, place: int, what: str) -> np.ndarray | None:
    if place >= len(node.input) or not node.input[place]:
        return None
    array = model.constant(node.input[place])
    if array is None:
        raise Refused(f"its {what} may change from call to call")
    return np.asarray(array).reshape(-1)


def _places(
    mode: str, inputs: int, outputs: int, scale: np.float32, region: tuple[Any, Any]
) -> np.ndarray:
    """Where outputs lie among inputs, in float32 step by step."""
    at = np.arange(outputs, dtype=np.float32)
    half = _F(0.5)
    if mode == "asymmetric":
        return at / scale
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and outputs > 1):
        return (at + half) / scale - half
    if mode == "pytorch_half_pixel":
        return at * 0
    if mode == "tf_half_pixel_for_nn":
        return (at + half) / scale
    if mode == "align_corners":
        return at * _F(inputs - 1) / _F(max(outputs - 1, 1)) if outputs > 1 else at * 0
    if mode == "half_pixel_symmetric":
        whole = scale * _F(inputs)
        offset = _F(inputs) / 2 * (1 - _F(outputs) / whole)
        exact = float(offset) + ((at + 0.5).astype(np.float64) / float(scale) - 0.5)
        return exact.astype(np.float32)
    if mode == "tf_crop_and_resize":
        start, end = map(_F, region)
        if outputs == 1:
            return np.array([half * (start + end) * _F(inputs - 1)], np.float32)
        step = (end - start) * _F(inputs - 1)
        return start * _F(inputs - 1) + at * step / _F(outputs - 1)
    raise Refused(f"coordinate_transformation_mode {mode}")
