"""How long layers take: as the planner predicts, and measured in turns."""

from __future__ import annotations

from statistics import median

import numpy as np

from winogen.conv import Conv2d
from winogen.conv.execute import Environment, remembered
from winogen.conv.plan import Prediction
from winogen.conv.problem import Layer
from winogen.conv.query import Query
from winogen.conv.request import Request
from winogen.conv.solvers import chosen
from winogen.lowrank.form import Form, axes_of
from winogen.records import Axis, Machine, Target
from winogen.tasks.turns import clock_of, in_turns
from winogen.toolchain import host_target
from winogen.toolchain.machine import current

# Rounds of a measurement at least and at most, its seconds, and those of a turn.
_ROUNDS, _SECONDS, _TURN = (5, 50), 0.1, 0.01


def predicted(layer: Layer, request: Request, input_shape: tuple[int, ...]) -> Prediction:
    """Return what the planner expects of a layer on this machine, the fastest way it finds.

    Nothing is compiled.
    Raises InvalidValue where nothing keeps to the limits of the request.
    """
    where = host_target(), current(), Environment.now()
    return _predicted(layer, request, input_shape, *where)


@remembered(1 << 12)
def _predicted(
    layer: Layer, request: Request, shape: tuple[int, ...], target: Target, machine: Machine,
    environment: Environment,
) -> Prediction:  # fmt: skip
    return chosen(Query.here(layer.problem(shape), request, target, machine)).prediction


def measured(
    layer: Layer, form: Form, rank: int, input_shape: tuple[int, ...], threads: int
) -> tuple[float, float]:
    """Return the median seconds of a layer as it was, by the fastest way that the planner knows,
    and of both stages, which take turns with it. Compiles their kernels.
    """
    generator = np.random.default_rng(0)

    def conv(filters: int, channels: int, axes: tuple[Axis, Axis]) -> Conv2d:
        shape = filters, channels // layer.groups, *(axis.kernel for axis in axes)
        return Conv2d(
            generator.standard_normal(shape, np.float32),
            stride=tuple(axis.stride for axis in axes),
            padding=tuple((axis.before, axis.after) for axis in axes),
            dilation=tuple(axis.dilation for axis in axes),
            groups=layer.groups,
            threads=threads,
        )

    height, width = layer.axes
    maps = rank * form.groups
    exact = conv(layer.filters, layer.channels, (height, width))
    one = conv(maps, layer.channels, axes_of(layer, form, 0))
    other = conv(layer.filters, maps, axes_of(layer, form, 1))
    x = generator.standard_normal(input_shape, np.float32)
    calls = [lambda: exact(x), lambda: other(one(x))]
    for call in calls:
        call()
    taken = in_turns(calls, clock_of(threads), _ROUNDS, _SECONDS, turn=_TURN)
    return median(taken[0]), median(taken[1])
