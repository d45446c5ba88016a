"""Where outputs and weights lie: as kernels compute them, or as a transposed layer has them.

A kernel computes pixels and filters of a convolution. With an `Interleaving` the filters of a group
are those of every phase, one phase behind the other, and each phase has outputs so many apart. All
of that is layout operations on the output, so that whichever kernel is the last stores to it, and
on the weights, so that the kernel that packs them reads those of the layer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd

from winogen.codegen.devices.expressions import Expr
from winogen.codegen.devices.statements import DeviceArray
from winogen.conv.problem import Pair, Problem, Spread, plane_of
from winogen.opencl.maps import IndexView


@dataclass(frozen=True)
class Interleaving(Spread):
    """Phases of a transposed layer on a device: see `winogen.opencl.phases`."""

    # Along each axis, from the outputs of one phase that sees inputs to those of the next.
    apart: Pair = (1, 1)
    taps: Pair = (1, 1)  # of the layer
    before: Pair = (0, 0)  # its padding, before the first output


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


def weight_array(problem: Problem) -> DeviceArray:
    """Return the weights of a call: (M, C/groups, KH, KW), or (C, M/groups, KH, KW)."""
    layer, spread = problem.layer, problem.spread
    shape = (*layer.weight_shape[:2], *(axis.kernel for axis in layer.plane))
    if isinstance(spread, Interleaving):
        shape = (layer.channels, spread.lanes, *spread.taps)
    return DeviceArray("weights", shape, "float32", "weights")


@lru_cache(maxsize=1024)
def weight_view(problem: Problem) -> IndexView:
    """Return the weights as filters, channels and taps of what the kernels compute.

    Taps k, k + n, ... of an axis with n phases that see inputs are those of a phase, in reverse. Of
    a phase that sees nothing, and beyond the last tap, there are zeros.
    """
    layer, spread = problem.layer, problem.spread
    view = IndexView.of("weights", *weight_array(problem).shape)
    if not isinstance(spread, Interleaving):
        return view
    view = view.split(0, layer.channels // layer.groups)
    along = zip((4, 3), layer.plane[::-1], spread.step[::-1], spread.apart[::-1])
    for axis, (at, one, step, apart) in enumerate(along):
        between = gcd(step, apart)
        phases, taps = step // between, spread.taps[1 - axis]
        view = view.pad(at, 0, one.kernel * phases - taps).split(at, phases).reverse(at)
        view = view.split(at + 1, 1).pad(at + 2, 0, between - 1)
    # groups, channels, filters, (taps, phases, those that see nothing) of rows, of columns
    view = view.transpose(0, 4, 5, 7, 8, 2, 1, 3, 6)
    for _ in range(5):
        view = view.join(0)
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
