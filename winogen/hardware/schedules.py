"""In which order an engine goes through a layer: what stays, and what comes and goes.

A step is T rows of a tile, in every lane, of one block of channels times one block of filters. The
loops of a schedule say which comes next; the innermost changes most often.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from winogen.conv.arguments import choice

if TYPE_CHECKING:
    from winogen.hardware.mapping import Mapping

# What is stationary -> loops from the outermost, within each set of groups. "sums" goes through
# passes and channels: what is added to the same outputs.
SCHEDULES = {
    "OS": ("tiles", "filters", "sums"),  # outputs stay until they are done
    "IS": ("tiles", "sums", "filters"),  # inputs stay until all filters have seen them
    "WS": ("filters", "sums", "tiles"),  # weights stay until all tiles have seen them
}


class Step(NamedTuple):
    """Blocks that meet for the cycles of a tile, counted from 0."""

    turn: int  # of the groups side by side
    piece: int  # the pass
    channels: int
    filters: int
    tiles: int

    @property
    def input(self) -> tuple[int, ...]:
        """What names the transformed inputs of the step."""
        return self.turn, self.piece, self.channels, self.tiles

    @property
    def weights(self) -> tuple[int, ...]:
        """What names its filters."""
        return self.turn, self.piece, self.channels, self.filters

    @property
    def sums(self) -> tuple[int, ...]:
        """What names the sums that it adds to."""
        return self.turn, self.filters, self.tiles


def loops(schedule: str) -> tuple[str, str, str]:
    """Return the loops of a schedule from the outermost; raises InvalidType and InvalidValue."""
    return SCHEDULES[choice("schedule", schedule, tuple(SCHEDULES))]


def steps(mapping: Mapping, schedule: str) -> Iterator[Step]:
    """Yield the steps of a layer in the order of a schedule: "OS", "IS" or "WS"."""
    order = loops(schedule)
    counts = {
        "tiles": mapping.tile_blocks,
        "filters": mapping.filter_blocks,
        "sums": mapping.passes * mapping.channel_blocks,
    }
    outer, middle, inner = (range(counts[name]) for name in order)
    for turn in range(mapping.turns):
        for first in outer:
            for second in middle:
                for third in inner:
                    at = dict(zip(order, (first, second, third)))
                    channels, piece = divmod(at["sums"], mapping.passes)
                    yield Step(turn, piece, channels, at["filters"], at["tiles"])
