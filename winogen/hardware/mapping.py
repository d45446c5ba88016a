"""How a layer of any kernel, stride and grouping becomes tiles of an engine.

An engine computes tiles of F(m, r) of stride 1, and 1x1 without transforms. Along an axis a layer
becomes such ones by a rule, of which nothing is lost:

- An axis of one tap is not transformed: a tile has T outputs there. Where neither axis is, pixels
  make rows of T, each of which takes a cycle.
- "pieces": with stride s, taps s apart see inputs of their own, the polyphase parts of
  `winogen.algebra.strided`. Each part is cut into pieces of r taps, the last filled up with zeros.
  All pieces are F(m, r), so that they are added before the output transform: as passes, one
  after another, over the same sums.
- "taps": or every tap is a pass of its own, 1x1.
- "stacked": or all pieces, or taps, of a channel are channels of one pass, so that f_i is filled
  by layers of few channels. Whoever fetches inputs has to shift them.
- Taps that are dilated see every d-th output, so that these make up d maps. An axis with a stride
  and a dilation is taken tap by tap.
- Groups stand side by side, as many as f_i and f_o hold, with zeros between them: the engine adds
  all channels into all filters. A depthwise layer uses one product in max(f_i, f_o).

Lanes are "regions", tiles side by side, or "channels": L blocks of f_i channels whose sums are
added at the end, for which every lane needs weights of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

from winogen.conv.arguments import choice
from winogen.errors import InvalidValue, Unsupported

if TYPE_CHECKING:
    from winogen.conv.problem import Problem
    from winogen.hardware.engine import Engine
    from winogen.records import Axis

LAYOUTS = ("pieces", "taps", "stacked pieces", "stacked taps")
LANES = ("regions", "channels")


def blocks(count: int, size: int) -> int:
    """Return how many blocks of a size hold so many."""
    return -(-count // size)


@dataclass(frozen=True)
class Part:
    """One axis of a layer on an engine: ``pieces`` kernels of ``taps`` taps, and its tiles."""

    taps: int
    pieces: int
    outputs: int  # of a tile
    tiles: int


@dataclass(frozen=True)
class Mapping:
    """A layer on an engine: what is multiplied in which cycle, counted. A model."""

    engine: Engine
    problem: Problem
    layout: str
    lanes: str

    @cached_property
    def parts(self) -> tuple[Part, Part]:
        """The height and the width."""
        height, width = (
            _part(axis, outputs, self.engine, self.layout.endswith("taps"))
            for axis, outputs in zip(self.problem.layer.plane, self.map)
        )
        return height, width

    @cached_property
    def map(self) -> tuple[int, int]:
        """Height and width of the outputs."""
        height, width = (1, *self.problem.output_size)[-2:]
        return height, width

    @cached_property
    def transformed(self) -> bool:
        """Whether tiles are transformed along an axis; else rows of pixels are multiplied."""
        return max(part.taps for part in self.parts) > 1

    @property
    def stacked(self) -> bool:
        """Whether pieces or taps are channels of one pass."""
        return self.layout.startswith("stacked")

    @cached_property
    def pieces(self) -> int:
        """Pieces, or taps, of a filter."""
        return prod(part.pieces for part in self.parts)

    @cached_property
    def passes(self) -> int:
        """How often tiles are gone through for one sum."""
        return 1 if self.stacked else self.pieces

    @cached_property
    def groups_at_once(self) -> int:
        """Groups side by side in f_i and f_o."""
        layer, engine = self.problem.layer, self.engine
        fit = min(engine.f_i // self._channels, engine.f_o // self._filters)
        return min(max(fit, 1), layer.groups)

    @cached_property
    def _channels(self) -> int:
        """Channels of a group in a pass."""
        layer = self.problem.layer
        return layer.channels // layer.groups * (self.pieces // self.passes)

    @cached_property
    def _filters(self) -> int:
        return self.problem.layer.filters // self.problem.layer.groups

    @property
    def channels(self) -> int:
        """Channels of a pass that are added up, those of the groups side by side with them."""
        return self._channels * self.groups_at_once

    @property
    def filters(self) -> int:
        """Filters that see these channels."""
        return self._filters * self.groups_at_once

    @property
    def turns(self) -> int:
        """Sets of groups that are computed one after another."""
        return blocks(self.problem.layer.groups, self.groups_at_once)

    @cached_property
    def tiles(self) -> int:
        """Tiles of the output map of a batch; where nothing is transformed, rows of T pixels."""
        if self.transformed:
            return self.problem.batch * prod(part.tiles for part in self.parts)
        return blocks(self.pixels, self.engine.T)

    @property
    def pixels(self) -> int:
        """Outputs of a filter, of a batch."""
        return self.problem.batch * prod(self.map)

    @cached_property
    def rows(self) -> int:
        """Cycles of a tile."""
        return self.engine.T if self.transformed else 1

    @property
    def channel_blocks(self) -> int:
        """Blocks of channels that are added one after another."""
        at_once = self.engine.f_i * (self.engine.L if self.lanes == "channels" else 1)
        return blocks(self.channels, at_once)

    @property
    def filter_blocks(self) -> int:
        """Blocks of f_o filters."""
        return blocks(self.filters, self.engine.f_o)

    @property
    def tile_blocks(self) -> int:
        """Blocks of tiles: one in every lane."""
        return blocks(self.tiles, self.engine.L if self.lanes == "regions" else 1)

    @cached_property
    def steps(self) -> int:
        """How often the lanes are given tiles."""
        loops = self.passes, self.turns, self.channel_blocks, self.filter_blocks, self.tile_blocks
        return prod(loops)

    @cached_property
    def cycles(self) -> int:
        """Cycles in which something is multiplied, if nothing has to be waited for."""
        return self.steps * self.rows

    @property
    def products(self) -> int:
        """Products that the layer needs on this engine, those with zeros of its own left out."""
        layer = self.problem.layer
        one = layer.channels * self._filters * self.pieces
        return one * (self.tiles * self.engine.T**2 if self.transformed else self.pixels)

    @property
    def utilisation(self) -> float:
        """The share of the multipliers that such products keep busy: 1 iff all sizes divide."""
        return self.products / (self.cycles * self.engine.multipliers)

    @property
    def gain(self) -> float:
        """Multiplications of the definition in a cycle, over the multipliers: 2.25 at most for
        F(2x2, 3x3)."""
        return self.problem.direct_multiplications / (self.cycles * self.engine.multipliers)

    def seconds(self, clock: float) -> float:
        """Return the time of the cycles at a ``clock`` in Hz."""
        return 2 * self.cycles * self.engine.multipliers / self.engine.peak(clock)


def mapped(engine: Engine, problem: Problem, layout: str, lanes: str) -> Mapping:
    """Return a layer on an engine: see `Engine.mapping`."""
    layouts = _choices("layout", layout, LAYOUTS)
    sides = _choices("lanes", lanes, LANES)
    if problem.layer.rank > 2:
        raise Unsupported(
            f"weight: got a layer of {problem.layer.rank} axes; allowed: one or two on an engine"
        )
    if problem.batch == 0:
        raise InvalidValue("input: got a batch of 0; allowed: at least one image on an engine")
    return min(
        (Mapping(engine, problem, one, side) for one in layouts for side in sides),
        key=lambda mapping: mapping.cycles,
    )


def _choices(name: str, value: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
    choice(name, value, (*allowed, "auto"))
    return allowed if value == "auto" else (value,)


def _part(axis: Axis, outputs: int, engine: Engine, by_taps: bool) -> Part:
    """How an axis of a layer runs; ``by_taps``: nothing is transformed."""
    if by_taps or axis.kernel == 1 or (axis.stride > 1 and axis.dilation > 1):
        return Part(1, axis.kernel, engine.T, blocks(outputs, engine.T))
    pieces = sum(blocks(len(taps), engine.r) for taps in polyphase(axis))
    tiles = sum(blocks(count, engine.m) for count in _maps(axis, outputs))
    return Part(engine.r, pieces, engine.m, tiles)


def polyphase(axis: Axis) -> tuple[range, ...]:
    """Return the taps that see the same inputs of every stride."""
    from winogen.algebra.strided import strided_parts

    return strided_parts(axis.kernel, axis.stride)


def _maps(axis: Axis, outputs: int) -> Iterator[int]:
    """The outputs of each map that a dilated axis becomes."""
    for first in range(min(axis.dilation, outputs)):
        yield len(range(first, outputs, axis.dilation))
