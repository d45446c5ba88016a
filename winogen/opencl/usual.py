"""Points of direct convolution that are usually good: tried where nothing was measured.

They have no chance in them, and are found without a walk through the space, so that a layer that
nobody tuned can run at once. All follows from the device and the layer: sums of an item fill its
registers, in a block whose factors are read least often; tiles leave few outputs and items idle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, product, zip_longest
from typing import TypeVar

from winogen.conv.problem import Problem, plane_of
from winogen.kernels.work import round_up
from winogen.opencl.constraints import MOST_PRIVATE
from winogen.opencl.devices import DeviceInfo
from winogen.opencl.scheme import DirectPoint
from winogen.opencl.space import DirectSpace, divisors

T = TypeVar("T")
_MOST_FILTERS, _WINDOWS = 16, (1, 2, 4, 8)  # of an item
_MOST_ITEMS = 64  # of a group
_UNROLLED = 16  # vectors of a chunk: where there are few, a loop costs as much as they do


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


def blocks(device: DeviceInfo, filters: int, vector: int) -> list[tuple[int, int]]:
    """Return blocks of filters and windows, whose sums and factors stay in an item's registers.

    A vector of the input serves all filters of a block, a vector of weights all its windows: the
    first has the fewest of these reads for its products, of all that there is room for. Each of
    the others does with half the sums of the one before, so that there are more items.

    >>> blocks(DeviceInfo(kind="cpu", vector=16), 64, 8)
    [(4, 4), (4, 2), (2, 2), (2, 1), (1, 1)]
    """
    every = [
        (k, s)
        for k, s in product(divisors(filters, _MOST_FILTERS), _WINDOWS)
        if k * s * vector <= MOST_PRIVATE and k * s + k + s <= device.registers
    ]
    found, most = list[tuple[int, int]](), MOST_PRIVATE
    while most:
        fewer = [(k, s) for k, s in every if k * s <= most]
        best = min(fewer, key=lambda block: (1 / block[0] + 1 / block[1], block[1]))
        found.append(best)
        most = best[0] * best[1] // 2
    return found


def _offered(problem: Problem, device: DeviceInfo, at_once: bool) -> Iterator[DirectPoint]:
    """Points in the order in which they are worth trying, valid or not."""
    channels, planar = problem.layer.weight_shape[1], problem.layer.planar
    vectors = [*dict.fromkeys(v for v in (device.vector, device.vector // 2, 4, 1) if v)]
    whole = [1] if planar else [v for v in vectors if channels % v == 0]
    if at_once:
        yield from _of_vectors(problem, device, whole)
        return
    # A copy of the input has channels last, and zeros behind them until vectors divide them.
    others = [v for v in vectors if v < 2 * channels and v not in whole]
    copied = _of_vectors(problem, device, others, pad=1)
    yield from in_turns([copied, _of_vectors(problem, device, whole, in_chunks=True)])


def _of_vectors(
    problem: Problem,
    device: DeviceInfo,
    vectors: list[int],
    *,
    in_chunks: bool = False,
    pad: int = 0,
) -> Iterator[DirectPoint]:
    """Points with these vectors in turns, those with the most sums first."""
    layer, tiles = problem.layer, {s: _tile(problem, device, s) for s in _WINDOWS}
    rows, columns = layer.plane
    filters = layer.filters // layer.groups
    found = [[(v, *block) for block in blocks(device, filters, v)] for v in vectors]
    for v, k, s in in_turns(found):
        (high, wide), extra = tiles[s]
        whole = rows.kernel * columns.kernel * -(-layer.weight_shape[1] // v)
        parts = next((n for n in (8, 4, 2, 3) if whole % n == 0), 0) if in_chunks else 1
        if not parts:
            continue
        yield DirectPoint(
            tile_height=rows.reach + rows.stride * (high - 1),
            tile_width=columns.reach + columns.stride * (wide - 1),
            extra_height=extra[0] * rows.stride,
            extra_width=extra[1] * columns.stride,
            filters=k,
            windows=s,
            vector=v,
            chunk=whole // parts,
            local_chunks=parts,
            local_windows=high * wide // s,
            pad=pad,
            coalesced=int(parts > 1),
            unroll=int(whole // parts <= _UNROLLED),
        )


def in_turns(found: Sequence[Iterable[T]]) -> Iterator[T]:
    """Yield the first of each, then the second of each that has one, and so on."""
    turns = chain.from_iterable(zip_longest(*found))
    return (one for one in turns if one is not None)


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


def _tile(
    problem: Problem, device: DeviceInfo, windows: int
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the windows of a tile along both axes, and outputs beyond the layer's.

    Those that leave least idle: outputs that nobody wants, and items of a wave without work. Of
    these, tiles with many items, which read the same weights, and with little input.
    """
    outputs, (rows, columns) = plane_of(problem.output_size), problem.layer.plane
    most = min(_MOST_ITEMS, device.group, device.items[1])

    def cost(tile: tuple[int, int]) -> tuple[float, int, int]:
        high, wide = tile
        items = high * wide // windows
        computed = round_up(outputs[0], high) * round_up(outputs[1], wide)
        read = (rows.reach + rows.stride * high) * (columns.reach + columns.stride * wide)
        return computed * round_up(items, device.wave) / items, -items, read

    few = [1, 2, 4, 8, 16, 32]
    heights, widths = ({*few, *divisors(count, count)} for count in outputs)
    widths |= {windows * count for count in few}
    tile = min(
        (
            (high, wide)
            for high, wide in product(sorted(heights), sorted(widths))
            if high * wide % windows == 0 and high * wide <= most * windows
        ),
        key=cost,
    )
    high, wide = (round_up(count, size) - count for count, size in zip(outputs, tile))
    return tile, (high, wide)
