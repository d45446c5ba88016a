"""The least that direct convolution demands at a point, counted without making its kernels.

An item multiplies and adds what it sums, reads a vector of the input for all its filters and a
vector of weights for all its windows. The epilogue comes on top, and so does a kernel that crops.
So a point whose least is too much is put aside before anything is made of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from winogen.kernels.work import round_up
from winogen.opencl.counting import DeviceRates, KernelDemand
from winogen.opencl.direct import GROUP
from winogen.opencl.scheme import DirectPoint
from winogen.opencl.space import DirectSpace


def least(space: DirectSpace, point: DirectPoint) -> list[KernelDemand]:
    """Return the least demands of the kernels that pad, and for sums of windows and of chunks."""
    problem, device, layer = space.problem, space.device, space.problem.layer
    facts, size = space.facts_of(point), space.sizes_of(point)
    one, lanes = (round_up(count, device.vector) for count in (1, point.vector))
    tiles = problem.batch * facts["tiles"]
    sums = tiles * facts["tile_windows"] * layer.filters
    block = point.filters * point.windows
    added = point.vector * one if point.dot else lanes
    each = block * added + (point.filters + point.windows * _pixel(space, point)) * lanes
    stored = one * facts["chunks"] * (1 if point.dot else point.vector)
    target = size["sums"] or size["output"]
    moved = (size["padded"] or size["input"]) + size["packed"] + (size["partial"] or target)
    summing = KernelDemand(
        sums // block * facts["window_vectors"] * each + sums * stored,
        moved,
        moved,
        tiles * layer.filters // point.filters,
        point.local_chunks * point.local_windows,
    )
    found = [summing]
    if size["padded"]:
        numbers = size["padded"] // (layer.itemsize * problem.batch)
        moved = size["input"] + size["padded"]
        found.insert(0, _moving(space, numbers, moved, 2 * one))
    if size["partial"]:
        numbers, moved = prod(problem.output_size) * layer.filters, size["partial"] + target
        found.append(_moving(space, numbers, moved, (2 * facts["chunks"] + 1) * one))
    return found


def _moving(space: DirectSpace, numbers: int, moved: int, each: int) -> KernelDemand:
    """What a kernel demands that has an item for each number of an image's array."""
    group = min(GROUP, space.device.group, space.device.items[0])
    items = round_up(numbers, group) * space.problem.batch
    return KernelDemand(items * each, moved, moved, items // group, group)


def _pixel(space: DirectSpace, point: DirectPoint) -> int:
    """Operations that a vector of the input takes at least: to read it, and to choose it or zeros.

    A row of windows that begins above the input is not certainly there. With windows of several
    rows an item may know that of some.
    """
    layer = space.problem.layer
    above = layer.padding_mode == "zeros" and layer.plane[0].before > 0 and not point.pad
    return 2 if above and point.windows <= space.facts_of(point)["windows_width"] else 1


def by_least_seconds(
    space: DirectSpace, points: Iterable[DirectPoint], rates: DeviceRates
) -> list[tuple[float, DirectPoint]]:
    """Return points with times that no prediction falls below, the least first."""
    times = (
        (sum(one.seconds(space.device, rates) for one in least(space, point)), point)
        for point in points
    )
    return sorted(times, key=lambda pair: pair[0])
