"""Sizes that several variants share: strips of padded input, packed filters, whole cache lines."""

from __future__ import annotations

from typing import Any

from winogen.kernels.work import Work, blocks, round_up
from winogen.records.machine import LINE

STRIP_FIELDS = {
    "strip_phase": "of the strip: from one phase",
    "strip_row": "... row",
    "strip_plane": "... and (block of) channels to the next",
}


def strip_size(work: Work) -> tuple[Any, Any]:
    """Rows and columns of padded input that a block reads."""
    rows, cols = (
        (count - 1) * s + (k - 1) * d + 1
        for count, s, k, d in zip(work.block, work.stride, work.kernel, work.dilation)
    )
    return rows, cols


def tile_strip_size(work: Work) -> tuple[Any, Any]:
    """The same of a block of tiles."""
    h, w = work.transforms
    rows, cols = work.block
    return rows * h.m + h.n - h.m, cols * w.m + w.n - w.m


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
    return whole_lines(work) and work.filters * work.array_itemsize % LINE == 0 and dense


def is_streamed(work: Work, adds_early: bool) -> bool:
    """Whether outputs go past the caches: they are final before the store, and too many for a cache
    to hold the outputs of an earlier call.
    """
    whole = work.groups * work.filters * work.output_size[0] * work.output_size[1]
    many = work.batch * whole * work.array_itemsize >= work.tuning.non_temporal
    return work.epilogue.ends_early(adds_early) and many
