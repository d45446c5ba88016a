"""Where outputs of a Resize lie among its inputs, along each axis.

Places are computed in float32, as onnxruntime does: where one lies between two pixels, a rounding
says which is nearer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import floor
from typing import Any, NamedTuple

import numpy as np

from winogen.graph.ops import Shape
from winogen.onnx.model import Model
from winogen.onnx.quantized import Refused, given_of

_F = np.float32
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
    for one in axes_of(model, node, values, before, after):
        if (one.first, one.last) != (0, one.outputs):
            raise Refused("some of it lies beyond the input")
        places[one.axis] = rounded(one, rounding, model.opset)
    return places[2].astype(np.int32), places[3].astype(np.int32)


def rounded(one: Axis, rounding: str, opset: int) -> np.ndarray:
    """Return the input that each output along an axis is."""
    if opset < 11:  # before there were modes
        rounding = "ceil" if opset == 10 and one.scale < 1 else "floor"
    nearest = _ROUNDING[rounding](one.places.astype(np.float64))
    return np.clip(nearest, 0, one.inputs - 1).astype(int)


def axes_of(
    model: Model, node: Any, values: Mapping[str, Any], before: Shape, after: Shape
) -> list[Axis]:
    """Return the axes that change; raises Refused."""
    rank = len(before)
    chosen = [axis % rank for axis in values.get("axes", range(rank))]
    scales = _scales(model, node, values, chosen, before, after)
    mode = values.get("coordinate_transformation_mode", "half_pixel")
    if model.opset < 11:
        mode = "asymmetric"
    roi = np.zeros(2 * len(chosen), np.float32)
    if mode == "tf_crop_and_resize":
        found = given_of(model, node, 1, "roi")
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
        found = given_of(model, node, 1 if old else 2, "scales")
    if found is not None and found.size:
        if found.size != len(chosen):
            raise Refused(f"it has {found.size} scales for {len(chosen)} axes")
        found = found.astype(np.float32)
        for axis, scale in zip(chosen, found):
            if after[axis] != floor(_F(before[axis]) * scale):
                raise Refused(f"of {before[axis]} times {scale:.9g}, rounded, nobody is sure")
        return found
    sizes = given_of(model, node, 3, "sizes")
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
