"""What error to expect of a layer, and what it cannot exceed, from the moments of its data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from winogen.conv import Layer
    from winogen.conv.plan import Plan

from dataclasses import dataclass

import numpy as np

from winogen.codegen import joining, transforms
from winogen.kernels import general, summation
from winogen.rounding.bounds import error_bound
from winogen.rounding.data import DISTRIBUTIONS, stated_variances
from winogen.rounding.tiles import Direct
from winogen.rounding.variance import estimate
from winogen.toolchain.host import named_target


@dataclass(frozen=True)
class InputMoments:
    """What the estimate needs to know of the inputs: how they vary, and about what mean."""

    variance: float
    mean_square: float  # of the channels' means

    @classmethod
    def of(cls, x: np.ndarray, weight: np.ndarray) -> InputMoments:
        """From input (N, C, H, W); the weights only scale the error with the output."""
        wide = x.astype(np.float64)
        means = wide.mean((0, 2, 3))
        square = float((means**2).mean())
        return cls(max(float((wide**2).mean()) - square, 0.0), square)


def predicted(plan: Plan, moments: InputMoments) -> float:
    """Return the expected ||error|| / ||output|| of a plan of `conv2d`.

    The squares of error and output are linear in variance and mean square of the inputs, so two
    known distributions give them for any. Neighbours of real inputs resemble each other, unknown to
    the estimate; and padding is taken for data.
    """
    algorithm, options = _as_tile(plan)
    share = {}
    for name in ("normal", "relu"):
        known = DISTRIBUTIONS[name]
        _, variance = stated_variances(known)
        size = variance + known.input_mean**2
        # Filters vary about 0, so the mean square of outputs is proportional to that of the inputs.
        relative = estimate(algorithm, distribution=name, **options).relative_l2
        share[name] = relative**2 * size
    relu = DISTRIBUTIONS["relu"]
    varying = share["normal"]
    _, relu_variance = stated_variances(relu)
    steady = (share["relu"] - relu_variance * varying) / relu.input_mean**2
    total = moments.variance + moments.mean_square
    if not total:
        return 0.0
    squares = moments.variance * varying + moments.mean_square * max(steady, 0.0)
    return float(np.sqrt(squares / total))


def bound(plan: Plan, layer: Layer, x_max: float, w_max: float) -> float:
    """Return the largest |error| that a plan of `conv2d` can have on data of these sizes."""
    height, width = _axes(plan)
    channels = layer.channels // layer.groups
    if plan.tile is None:
        channels *= layer.kernel[0] * layer.kernel[1]
    elif plan.algorithm == "winograd1d":
        channels *= layer.kernel[0]
    return error_bound(height, width, channels, layer.dtype, x_max, w_max)


def _axes(plan: Plan) -> tuple[Any, Any]:
    """The transforms along height and width; None where there is none."""
    if plan.tile is None or plan.points is None or plan.moduli is None:
        return None, None
    taps = plan.weight_shape[2:]
    sides = zip(plan.tile, taps, plan.stride, plan.points, plan.moduli)
    height, width = (
        transforms.load(m, r, points, moduli=moduli, order=plan.order, stride=stride)
        if points or moduli or stride > 1
        else None
        for m, r, stride, points, moduli in sides
    )
    if plan.algorithm == "winograd1d":
        return None, width
    if height and width and general(plan.algorithm, plan.precision).joins:
        return joining.joined(height, width)
    return height, width


def _as_tile(plan: Plan) -> tuple:
    """(algorithm, options) of `estimate` for what a plan does to one tile."""
    _, channels, taps_h, taps_w = plan.weight_shape
    precision = plan.precision
    options: dict[str, Any] = {"filters": "float64", "fused": True, "precision": precision}
    options |= summation(plan.algorithm, named_target(plan.isa), channels, precision)
    if plan.tile is None:
        terms = channels * taps_h * taps_w
        return Direct(1, terms), {**options, "dims": 1}
    height, width = _axes(plan)
    if plan.algorithm == "winograd1d":
        rows = {"channels": channels * taps_h, "block": options["block"] * taps_h}
        return width, {**options, **rows, "dims": 1}
    one = transforms.load(1, 1)
    return (height or one, width or one), {**options, "channels": channels}
