"""Where the outputs of a problem are stored: as they lie, or as phases of a transposed layer.

A kernel computes pixels and filters of a convolution. With an `Interleaving` the filters of a group
are those of every phase, one phase behind the other, and each phase has outputs so many apart. All
of that is layout operations on the output, so that whichever kernel is the last stores to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd

from winogen.codegen.devices.expressions import Expr
from winogen.conv.problem import Pair, Problem, Spread, plane_of
from winogen.opencl.maps import IndexView


@dataclass(frozen=True)
class Interleaving(Spread):
    """Phases of a transposed layer on a device: see `winogen.opencl.phases`."""

    # Along each axis, from the outputs of one phase that sees inputs to those of the next.
    apart: Pair = (1, 1)


def in_plane(problem: Problem) -> Problem:
    """Return a problem of signals as one of planes that are a row. All numbers lie as they did."""
    layer = problem.layer
    if layer.rank > 1:
        return problem
    plane = replace(layer, axes=layer.plane, layout="NCHW" if layer.planar else "NHWC")
    size, output_size = plane_of(problem.size), plane_of(problem.output_size)
    return replace(problem, layer=plane, size=size, output_size=output_size)


@lru_cache(maxsize=1024)
def stored(problem: Problem) -> Problem:
    """Return a problem with the filters and the outputs of the array that is written."""
    spread = problem.spread
    if spread is None:
        return problem
    layer = replace(problem.layer, filters=spread.lanes * problem.layer.groups)
    return replace(problem, layer=layer, output_size=spread.whole, spread=None)


def image_view(array: str, problem: Problem, channels: int, size: Pair) -> IndexView:
    """Return an array of images in the layout of a problem as N, height, width, channels."""
    if problem.layer.planar:
        return IndexView.of(array, problem.batch, channels, *size).transpose(0, 2, 3, 1)
    return IndexView.of(array, problem.batch, *size, channels)


@lru_cache(maxsize=1024)
def output_view(problem: Problem) -> IndexView:
    """Return the output as N, height, width, filters of what the kernels compute."""
    target, spread = stored(problem), problem.spread
    view = image_view("output", problem, target.layer.filters, plane_of(target.output_size))
    if spread is None:
        return view
    assert isinstance(spread, Interleaving)
    sizes = zip(spread.step, spread.apart, spread.crop, spread.whole, problem.output_size)
    for axis, (step, apart, crop, whole, pixels) in zip((1, 4), sizes):
        between = gcd(step, apart)
        reach = apart * (step // between - 1) + between
        view = view.pad(axis, crop, step * (pixels - 1) + reach - crop - whole)
        view = view.slide(axis, reach, step).slide(axis + 1, between, apart)
    # N, (pixels, phases, outputs that see nothing) of rows, the same of columns, filters
    view = view.split(7, spread.lanes).transpose(0, 1, 4, 7, 2, 3, 5, 6, 8)
    for _ in range(5):
        view = view.join(3)
    return view


def phase_filters(problem: Problem) -> int:
    """Return how many filters of a group are neighbours in the output."""
    layer = problem.layer
    return problem.spread.lanes if problem.spread else layer.filters // layer.groups


def filter_stored(problem: Problem, filter: Expr) -> Expr:
    """Return which filter of the output it is, of those that the kernels compute."""
    spread, layer = problem.spread, problem.layer
    if spread is None:
        return filter
    own = filter % spread.lanes
    if layer.groups == 1:
        return own
    return filter // (layer.filters // layer.groups) * spread.lanes + own
