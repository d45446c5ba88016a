"""One block of memory for all intermediate arrays, shared by arrays of different times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from winogen.records.machine import LINE


class Life(NamedTuple):
    """An array: its bytes, and the first and last step that touches it."""

    size: int
    first: int
    last: int


def offsets(lives: Sequence[Life]) -> tuple[list[int], int]:
    """Return where each array begins, in bytes, and the bytes of the whole.

    Two arrays overlap in memory only if one's last step comes before the other's first. The largest
    are placed first, each in the tightest gap between others of its time.

    >>> offsets([Life(128, 0, 1), Life(128, 1, 2), Life(100, 2, 3)])
    ([0, 128, 0], 256)
    """
    begins = [0] * len(lives)
    order = sorted(range(len(lives)), key=lambda i: (-lives[i].size, lives[i].first, i))
    # Of those that are placed, by steps: thousands of arrays mostly know few of each other.
    alive, born = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    for i in order:
        life = lives[i]
        during = [*alive[life.first]]
        for step in range(life.first + 1, life.last + 1):
            during += born[step]
        taken = sorted((begins[j], begins[j] + _rounded(lives[j].size)) for j in during)
        begins[i] = _tightest(taken, _rounded(life.size))
        born[life.first].append(i)
        for step in range(life.first, life.last + 1):
            alive[step].append(i)
    total = max((b + _rounded(life.size) for b, life in zip(begins, lives)), default=0)
    return begins, total


def least(lives: Sequence[Life]) -> int:
    """Return the bytes that are alive at the same time, at most: no block can be smaller.

    >>> least([Life(128, 0, 1), Life(128, 1, 2), Life(100, 2, 3)])
    256
    """
    changes = [0] * (max((life.last for life in lives), default=0) + 2)
    for life in lives:
        changes[life.first] += life.size
        changes[life.last + 1] -= life.size
    return max(accumulate(changes))


def _tightest(taken: list[tuple[int, int]], size: int) -> int:
    """The begin of the smallest gap that is large enough; behind all else."""
    best, least, end = None, 0, 0
    for begin, behind in taken:
        gap = begin - end
        if gap >= size and (best is None or gap < least):
            best, least = end, gap
        end = max(end, behind)
    return end if best is None else best


def _rounded(size: int) -> int:
    return -(-size // LINE) * LINE
