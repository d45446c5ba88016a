"""Points of direct convolution that are usually good: tried where nothing was measured.

They have no chance in them, and are found without a walk through the space, so that a layer that
nobody tuned can run at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product

from winogen.conv.problem import Problem, plane_of
from winogen.kernels.work import round_up
from winogen.opencl.devices import DeviceInfo
from winogen.opencl.scheme import DirectPoint
from winogen.opencl.space import DirectSpace

_MOST_SUMS = 32  # of an item, in vectors


def usual(points: DirectSpace, count: int, limit: int | None = None) -> list[DirectPoint]:
    """Return up to ``count`` points of a space, those with the most sums of an item first.

    Half of them sum a window at once, which takes no memory besides the call's arrays. Beyond a
    limit of bytes of workspace is only what needs least, where none keeps to it. There are none
    where the device has no room for any.
    """
    found = list[DirectPoint]()
    for at_once in (True, False):
        valid = filter(points.valid, _offered(points.problem, points.device, at_once))
        found += islice(valid, -(-count // 2))
    found = found[:count] or [*filter(points.valid, _least(points.problem))][:1]
    if limit is None or not found:
        return found
    most = max(limit, min(map(points.workspace_of, found)))
    return [one for one in found if points.workspace_of(one) <= most]


def _offered(problem: Problem, device: DeviceInfo, at_once: bool) -> Iterator[DirectPoint]:
    """Points in the order in which they are worth trying, valid or not."""
    layer = problem.layer
    channels, filters = layer.weight_shape[1], layer.filters // layer.groups
    rows, columns = layer.plane
    vectors = dict.fromkeys(v for v in (device.vector, 4, 1) if channels % v == 0)
    if layer.planar:
        vectors = dict.fromkeys((1,))
    blocks = [k for k in (8, 16, 4, 2, 1) if filters % k == 0]
    for k, s in product(blocks, (4, 8, 2, 1)):
        if k * s > _MOST_SUMS:
            continue
        high, wide, extra = _tile(problem, device, s)
        for v in vectors:
            whole = rows.kernel * columns.kernel * channels // v
            parts = 1 if at_once else next((n for n in (8, 4, 2, 3) if whole % n == 0), 1)
            if parts == 1 and not at_once:
                continue
            yield DirectPoint(
                tile_height=rows.reach + rows.stride * (high - 1),
                tile_width=columns.reach + columns.stride * (s * wide - 1),
                extra_height=extra[0] * rows.stride,
                extra_width=extra[1] * columns.stride,
                filters=k,
                windows=s,
                vector=v,
                chunk=whole // parts,
                local_chunks=parts,
                local_windows=high * wide,
                coalesced=int(parts > 1),
            )


def _least(problem: Problem) -> Iterator[DirectPoint]:
    """Points that ask for least: one number at a time; then few work-groups, too."""
    rows, columns = problem.layer.plane
    chunk = rows.kernel * columns.kernel * problem.layer.weight_shape[1]
    yield DirectPoint(rows.reach, columns.reach, chunk=chunk)
    high, wide = plane_of(problem.output_size)
    yield DirectPoint(
        rows.reach + rows.stride * (high - 1), columns.reach + columns.stride * (wide - 1),
        chunk=chunk,
    )  # fmt: skip


def _tile(problem: Problem, device: DeviceInfo, windows: int) -> tuple[int, int, tuple[int, int]]:
    """Return work-items of a tile along both axes, and outputs beyond the layer's.

    Those that leave least idle: outputs that nobody wants, and items of a wave without work.
    """
    outputs = plane_of(problem.output_size)

    def cost(items: tuple[int, int]) -> tuple[float, int]:
        high, wide = items
        computed = round_up(outputs[0], high) * round_up(outputs[1], wide * windows)
        return computed * round_up(high * wide, device.wave) / (high * wide), -high * wide

    sizes = [1, 2, 4, 8, 16, 32]
    high, wide = min(
        (
            items
            for items in product(sizes, sizes)
            if items[0] * items[1] <= min(64, device.group, device.items[1])
        ),
        key=cost,
    )
    beyond = (
        round_up(outputs[0], high) - outputs[0],
        round_up(outputs[1], wide * windows) - outputs[1],
    )
    return high, wide, beyond
