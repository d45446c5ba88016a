"""What a step computes, as a problem, and the ways to compute it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from winogen.conv import arguments
from winogen.conv.one_call import OneCall
from winogen.conv.problem import Layer, Problem, Seams
from winogen.conv.quantized import QConv2d
from winogen.conv.request import Request
from winogen.conv.stock import only
from winogen.errors import CompilerNotFound, InvalidValue
from winogen.graph.choose import Way, error_of, way_of_piece, ways
from winogen.graph.lower import Step
from winogen.graph.ops import QConv
from winogen.graph.places import Buffer, Place
from winogen.graph.settings import Settings
from winogen.graph.shapes import Shape, array_shape
from winogen.tasks.idle import give_way


def problem_of(step: Step, buffers: Mapping[Buffer, Shape], settings: Settings) -> Problem:
    """Return the problem of a step that is a convolution, on slices of buffers."""
    op = step.op.conv
    shape = array_shape(step.shape, settings.layout)
    layout = arguments.LAYOUTS[len(shape) - 2][settings.layout == "NHWC"]
    layer = Layer.of(op.weight.shape, settings.dtype, layout=layout, **op.options)

    def around(place: Place | None) -> int:
        return 0 if place is None else buffers[place.buffer][1]

    places = (step.input, step.output, step.add, step.add_after)
    return layer.problem(shape).sewn(Seams(*map(around, places)))


def ways_of(problem: Problem, settings: Settings, before: int = 0) -> tuple[Way, ...]:
    """Return the ways to compute the folded problem of a step: see `Problem.folded`.

    ``before``: of its samples, those of pieces before, where the layer itself has padding.
    """
    give_way()
    request = request_of(problem, settings)
    target, most = settings.target, settings.most_error
    if settings.pieces:
        return (way_of_piece(problem, before, request, target, settings.machine),)
    options = partial(ways, problem, request, target, settings.machine, most)
    if settings.familiar is not None:
        with suppress(CompilerNotFound, InvalidValue):  # these kernels cannot
            found = options(only(settings.familiar))
            if most is None or error_of(problem, found[0].candidate, target) <= most:
                return found
    return options()


def request_of(problem: Problem, settings: Settings) -> Request:
    """Return what is asked for of the problem of a step."""
    return Request.of(
        problem.layer,
        algorithm=settings.algorithm,
        threads=settings.threads,
        tolerance=settings.tolerance,
        workspace_limit=settings.workspace_limit,
        filter_dtype=settings.filter_dtype,
    )


def bytes_of(op: QConv, settings: Settings) -> QConv2d:
    """Return what computes a quantized convolution."""
    names = ("layout", "threads", "algorithm")
    options = {**op.options, **{name: getattr(settings, name) for name in names}}
    return QConv2d(op.weight, op.bias, **options)


def ways_of_bytes(op: QConv, shape: Shape, settings: Settings) -> list[OneCall]:
    """Return the ways to compute it for inputs of this shape (N, C, H, W), the fastest first."""
    conv = bytes_of(op, settings)
    return conv.ranked(
        array_shape(shape, settings.layout), op.x_dtype, settings.target, settings.machine
    )
