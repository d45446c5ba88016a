"""A picture through a net piece by piece: less memory, and something to see meanwhile."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Step = Callable[[int, int, str], None]


class Span(NamedTuple):
    """Rows or columns of one tile: what it reads, and which of them its result is used for."""

    begin: int
    end: int
    first: int
    last: int


def spans(length: int, most: int, margin: int) -> list[Span]:
    """Return spans of one size, at most ``most``, whose inner parts cover 0 ... length.

    What a span shares with the next is twice ``margin``; at the borders there is no margin, so
    that a net pads there what it would pad of the whole. ``most`` has to exceed 2 * ``margin``.

    >>> spans(10, 6, 1)
    [Span(begin=0, end=6, first=0, last=5), Span(begin=4, end=10, first=5, last=10)]
    """
    if length <= most:
        return [Span(0, length, 0, length)]
    count = math.ceil((length - 2 * margin) / (most - 2 * margin))
    size = math.ceil((length - 2 * margin) / count) + 2 * margin
    begins = [min(k * (size - 2 * margin), length - size) for k in range(count)]
    edges = [0, *(begin + margin for begin in begins[1:]), length]
    return [
        Span(begin, begin + size, first, last)
        for begin, first, last in zip(begins, edges, edges[1:])
    ]


def first_tile(picture: np.ndarray, most: int, margin: int) -> np.ndarray:
    """Return the first of the tiles that `in_tiles` takes, (1, C, h, w): they have one shape."""
    row, column = (spans(length, most, margin)[0] for length in picture.shape[1:])
    return np.ascontiguousarray(picture[None, :, : row.end, : column.end])


def in_tiles(
    net: Callable[[np.ndarray], np.ndarray],
    picture: np.ndarray,
    *,
    most: int,
    margin: int,
    step: Step = lambda done, total, name: None,
) -> np.ndarray:
    """Return what ``net`` makes of a picture (C, H, W), tile by tile of at most ``most`` squared.

    ``net`` takes (1, C, h, w) and enlarges by a whole factor. With a margin of as many pixels as an
    output of it depends on to each side, the result is that of the whole picture. ``step(done,
    total, "")`` is told of every tile.
    """
    rows, columns = (spans(length, most, margin) for length in picture.shape[1:])
    result: np.ndarray | None = None
    for number, (row, column) in enumerate((r, c) for r in rows for c in columns):
        step(number, len(rows) * len(columns), "")
        tile = picture[None, :, row.begin : row.end, column.begin : column.end]
        tile = np.ascontiguousarray(tile)
        y = net(tile)[0]
        f = y.shape[-1] // tile.shape[-1]
        if result is None:
            height, width = picture.shape[1:]
            result = np.empty((len(y), f * height, f * width), y.dtype)
        result[:, f * row.first : f * row.last, f * column.first : f * column.last] = y[
            :,
            f * (row.first - row.begin) : f * (row.last - row.begin),
            f * (column.first - column.begin) : f * (column.last - column.begin),
        ]
    assert result is not None
    return result
