"""Strips of rows, in an order of steps that leaves what lies between in a cache.

Steps that follow each other run strip by strip: each computes the rows for the next one, and no
row twice. What lies between two steps is a window of rows. The rows at its end that the next
strip reads again move to its beginning.

>>> pair = (Rows(3, 1, 1, 8, 8), Rows(3, 1, 1, 8, 8))  # two layers 3x3 of 8 rows
>>> for job in strips_of(pair, 4).jobs:
...     print(job)
Rows 0..5 of step 0 from 0..6
Rows 0..4 of step 1 from 0..5
Rows 3..5 behind step 0 move up by 3
Rows 5..8 of step 0 from 4..8
Rows 4..8 of step 1 from 3..8
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Rows(NamedTuple):
    """How rows of a step's output depend on rows of its input."""

    reach: int  # rows of padded input that an output sees
    stride: int
    padding: int  # above
    inputs: int
    outputs: int
    unit: int = 1  # outputs are computed in multiples of so many rows: of a tile's
    grows: int = 1  # rows of outputs for each of inputs, where a map is enlarged

    @property
    def all_read(self) -> bool:
        """Whether no output sees padding alone: a strip of such rows would have no input.

        >>> [Rows(3, 1, 1, 8, outputs).all_read for outputs in (8, 9, 10)]
        [True, True, False]
        """
        last = (self.outputs - 1) * self.stride // self.grows - self.padding
        return self.padding < self.reach and last < self.inputs

    def first(self, begin: int) -> int:
        """Return the first row that outputs from ``begin`` on read."""
        return min(max(0, begin * self.stride // self.grows - self.padding), self.inputs)

    def last(self, end: int) -> int:
        """Return the row behind the last that outputs before ``end`` read, or pass by."""
        if end == self.outputs:
            return self.inputs
        behind = (end - 1) * self.stride // self.grows - self.padding + max(self.reach, self.stride)
        return min(max(behind, 0), self.inputs)

    def rounded(self, end: int) -> int:
        """Return up to which row outputs are computed if rows before ``end`` are needed."""
        return min(-(-end // self.unit) * self.unit, self.outputs)


class Compute(NamedTuple):
    """Rows of outputs of one step, from rows of its input."""

    step: int
    begin: int
    end: int
    first: int
    last: int
    above: int  # rows of padding above `first`
    source: int  # where `first` lies in memory, in rows
    target: int  # and where `begin` lies

    def __str__(self) -> str:
        return f"Rows {self.begin}..{self.end} of step {self.step} from {self.first}..{self.last}"


class Move(NamedTuple):
    """Rows of the window behind a step, which move to its beginning."""

    step: int
    begin: int
    end: int
    up: int

    @property
    def rows(self) -> int:
        """How many rows they are."""
        return self.end - self.begin

    def __str__(self) -> str:
        return f"Rows {self.begin}..{self.end} behind step {self.step} move up by {self.up}"


@dataclass(frozen=True)
class Strips:
    """What is computed of one image, in order, and the rows of every window."""

    jobs: tuple[Compute | Move, ...]
    windows: tuple[int, ...]  # behind each step but the last


def strips_of(steps: Sequence[Rows], height: int) -> Strips:
    """Return the strips whose last step computes ``height`` rows at a time.

    A rest of at most half a strip joins the last one. Rows stay where they would overlap the place
    that they move to, until there is room.
    """
    jobs: list[Compute | Move] = []
    windows = [0] * (len(steps) - 1)
    done = [0] * len(steps)  # rows of outputs
    heads = [0] * (len(steps) - 1)  # the rows that windows begin with
    whole = steps[-1].outputs
    while done[-1] < whole:
        ends = [0] * len(steps)
        end = steps[-1].rounded(done[-1] + height)
        ends[-1] = whole if whole - end <= height // 2 else end
        for i in reversed(range(len(steps) - 1)):
            ends[i] = max(done[i], steps[i].rounded(steps[i + 1].last(ends[i + 1])))
        for i, (rows, begin, end) in enumerate(zip(steps, done, ends)):
            if i < len(windows):
                head = steps[i + 1].first(done[i + 1])
                up, kept = head - heads[i], max(0, begin - head)
                if kept <= up:
                    if up and kept:
                        jobs.append(Move(i, head, begin, up))
                    heads[i] = min(head, begin)
                windows[i] = max(windows[i], end - heads[i])
            if end > begin:
                first, last = rows.first(begin), rows.last(end)
                source = first - (heads[i - 1] if i else 0)
                target = begin - (heads[i] if i < len(windows) else 0)
                above = max(0, rows.padding - begin * rows.stride)
                jobs.append(Compute(i, begin, end, first, last, above, source, target))
        done = ends
    return Strips(tuple(jobs), tuple(windows))
