"""Sizes that several variants share: strips of padded input, packed filters, whole cache lines."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

import numpy as np

from winogen.kernels.work import Pair, Work, blocks, even, round_up
from winogen.records.axis import Axis, Strides
from winogen.records.machine import LINE

STRIP_FIELDS = {
    "strip_phase": "From one phase of the strip to the next.",
    "strip_row": "From one row of the strip to the next.",
    "strip_plane": "From one channel, or block, to the next.",
}


TAP_FIELDS = {
    "filter_taps": "Taps of a whole filter.",
    "filter_row": "Taps of a row of a filter.",
    "first_tap": "The first tap that is computed with.",
}


def trimmed(work: Work) -> Work:
    """Return the work without the taps that read nothing but zeros around the image.

    The filters are packed with all taps, so that maps of any size share them.
    """
    if work.padding_mode != "zeros" or work.deep:
        return work
    axes = [
        Axis(*numbers) for numbers in zip(work.kernel, work.stride, work.dilation, work.padding)
    ]
    height, width = (
        axis.inside(size, outputs) for axis, size, outputs in zip(axes, work.size, work.output_size)
    )
    if (len(height), len(width)) == work.kernel:
        return work
    padding = tuple(
        axis.before - taps[0] * axis.dilation for axis, taps in zip(axes, (height, width))
    )
    dilation = tuple(
        axis.dilation if len(taps) > 1 else 1 for axis, taps in zip(axes, (height, width))
    )
    return replace(
        work,
        kernel=(len(height), len(width)),
        dilation=cast(Pair, dilation),
        padding=cast(Pair, padding),
        whole_kernel=work.kernel,
        first=(height[0], width[0]),
    )


def phases(work: Work) -> Work:
    """Return the work of a dilated layer as an ordinary one for each phase of its rows and columns.

    Phases count as images. Outputs of one phase read inputs of the same phase, padding apart, and
    the largest phases are the first.
    """
    if work.dilation == (1, 1):
        return work
    high, wide = work.dilation

    def smaller(pair: Pair) -> Pair:
        return int(blocks(pair[0], high)), int(blocks(pair[1], wide))

    def spread(strides: Strides) -> Strides:
        return replace(strides, row=strides.row * high, pixel=strides.pixel * wide)

    _, rows, _, cols = work.part
    rows, cols = smaller((rows, cols))
    return replace(
        work,
        batch=work.batch * high * wide,
        size=smaller(work.size),
        output_size=smaller(work.output_size),
        part=(0, rows, 0, cols),
        padding=smaller(work.padding),
        dilation=(1, 1),
        output=spread(work.output),
        add=spread(work.add),
        add_after=spread(work.add_after),
        phased=work,
    )


# With fewer pixels, and two vectors of filters, a register block has too few sums to keep two
# multiply-adds a cycle busy, each of which takes four cycles.
_FEW_PIXELS = 4
# Panels are cut where the taps change if that leaves at most this part of the work.
_WORTH_A_CUT = 0.95


def taps_inside(work: Work, axis: int) -> float:
    """Rows or columns of taps with which an output reads the image, on average."""
    if work.padding_mode != "zeros":
        return work.kernel[axis]
    return float(_inside(*_along(work, axis)).sum(axis=1).mean())


def deep_taps_inside(work: Work) -> float:
    """Taps along the depth with which an output reads the volume, on average."""
    deep = work.deep
    if deep is None or work.padding_mode != "zeros":
        return work.deep_taps
    axis = deep.stride, deep.kernel, deep.dilation, deep.before, deep.size
    return float(_inside(0, deep.outputs, *axis).sum(axis=1).mean())


def skips_columns(work: Work) -> bool:
    """Whether the pixels of a row are cut where the columns of taps change that read the image.

    It does not depend on how the work is cut.
    """
    if work.padding_mode != "zeros" or work.deep:
        return False
    return steps_of_columns(work) <= _WORTH_A_CUT


def steps_of_columns(work: Work) -> float:
    """Return the steps of the panels of a row that are cut where taps change, as a part of all."""
    return _part_of_steps(work.tuning.rows, *_along(work, 1))


@lru_cache(maxsize=256)
def _part_of_steps(rows: int, *axis: int) -> float:
    inside = _inside(*axis)
    changes = np.flatnonzero((inside[1:] != inside[:-1]).any(axis=1)) + 1
    runs = np.split(inside, changes)
    cut = sum(_steps(len(run), rows) * int(run[0].sum()) for run in runs)
    return cut / (_steps(len(inside), rows) * inside.shape[1])


def _steps(pixels: int, rows: int) -> int:
    """Steps of the panels of so many neighbouring pixels, for a tap, in steps of one pixel."""
    high = even(pixels, rows)
    whole, rest = divmod(pixels, high)
    return whole * max(high, _FEW_PIXELS) + (max(rest, _FEW_PIXELS) if rest else 0)


def _along(work: Work, axis: int) -> tuple[int, ...]:
    """What says which taps read the image along an axis: equal for all ways to cut a layer."""
    begin, end = work.part[2 * axis : 2 * axis + 2]
    axes = work.stride, work.kernel, work.dilation, work.padding, work.size
    return begin, max(end, begin + 1), *(pair[axis] for pair in axes)


def _inside(
    begin: int, end: int, stride: int, taps: int, dilation: int, padding: int, size: int
) -> np.ndarray:
    """Whether each output along an axis reads the image with each tap, as (outputs, taps)."""
    at = np.arange(begin, end)[:, None] * stride + np.arange(taps) * dilation - padding
    return (at >= 0) & (at < size)


def extent(work: Work) -> tuple[Any, Any]:
    """Rows and columns of padded input between the first and the last that a block reads."""
    rows, cols = (
        (count - 1) * s + (k - 1) * d + 1
        for count, s, k, d in zip(work.block, work.stride, work.kernel, work.dilation)
    )
    return rows, cols


def strip_size(work: Work) -> tuple[Any, Any]:
    """Rows and columns of the strip below a block: no rows between distant taps.

    Of volumes it has the rows of every plane that the taps along the depth read.
    """
    rows = (work.block[0] - 1) * work.stride[0] + 1  # that one row of taps reads
    spread = np.minimum(work.dilation[0], rows)
    return (rows + (work.kernel[0] - 1) * spread) * work.deep_taps, extent(work)[1]


def tile_strip_size(work: Work) -> tuple[Any, Any]:
    """The same of a block of tiles."""
    h, w = work.transforms
    rows, cols = work.block
    return (rows - 1) * h.step + h.n, (cols - 1) * w.step + w.n


def strip_pitches(rows: Any, cols: Any, step: Any, lanes: int, planar: bool) -> dict[str, Any]:
    """Return the pitches of a strip whose columns are split into ``step`` phases.

    Planes of single channels begin their rows at a cache line, and leave room for the vector of
    zeros behind the last row. An odd number of lines from one to the next spreads them over all
    cache sets.
    """
    columns = blocks(cols, step)
    phase = round_up(columns, lanes) if planar else columns * lanes
    row = phase * step
    plane = round_up(rows * row, lanes) + (lanes if planar else 0)
    return {"strip_phase": phase, "strip_row": row, "strip_plane": plane | lanes}


# Columns of a row of planes whose numbers become narrow ones at a time: they stay in L1.
ROW_SEGMENT = 64


def gemm_filters(work: Work, positions: int = 1, taps: int = 1) -> int:
    """Numbers of filters packed for the GEMM."""
    return work.groups * work.padded_filters * positions * taps * work.channels


def whole_lines(work: Work) -> bool:
    """Whether vectors are whole cache lines, as non-temporal stores need."""
    return work.target.masks and work.lanes * work.array_itemsize == LINE


def lines_of_channels(work: Work) -> bool:
    """Whether every pixel of the output is made of whole lines."""
    dense = work.output.pixel * work.array_itemsize % LINE == 0
    filters = work.spread.lanes if work.spread and work.spread.lanes else work.filters
    return whole_lines(work) and filters * work.array_itemsize % LINE == 0 and dense


def is_streamed(work: Work, adds_early: bool) -> bool:
    """Whether outputs go past the caches: they are final before the store, and too many for a cache
    to hold the outputs of an earlier call.
    """
    whole = work.groups * work.filters * work.output_size[0] * work.output_size[1]
    many = work.batch * whole * work.array_itemsize >= work.tuning.non_temporal
    return work.epilogue.ends_early(adds_early) and many
