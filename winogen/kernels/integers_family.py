"""Regions whose products are of integers: V and U are rounded, and products summed exactly.

The tiles of a chunk of channels are transformed in float32, a few at a time. Each of their
positions has a step of its own, by which its numbers become integers of at most 15 bits, or of 7.
Filters have a step for each position, so large that no sum of a chunk leaves its 32 bits. Between
chunks sums are of float32.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from winogen.kernels import costs as cost
from winogen.kernels import tuning
from winogen.kernels.count import Demand, PanelProduct
from winogen.kernels.regions_family import Regions
from winogen.kernels.tiles_family import TILES_AT_ONCE, positions
from winogen.kernels.variant import Buffer
from winogen.kernels.work import Work, blocks
from winogen.records import Machine, Precision, Target, Tuning
from winogen.records.tuning import PREFETCHING

_PLACE = 24  # bytes of where a tile goes
_AT_ONCE = 10 << 10  # bytes of tiles before they are rounded: a part of L1, beside their words
# Instructions that multiply and add two vectors of words, where one does not.
_INSTRUCTIONS = {"madd": 2, "smlal": 2, "dot_i16x8": 2, "": 6}
_OF_FOUR = 12  # the same of words of four numbers
# Instructions by which a vector of channels is squared and added to others, scaled and rounded, and
# joined to another; by which vectors become one whose lanes are the sums of each; by which a lane
# gets the inverse root of its sum; and by which the words of a chunk and their step find their
# places: addresses, a request of the line, the step in all lanes and in memory.
_ROUNDING, _LANES_SUMMED, _ROOT, _PLACED = 4, 3, 20, 6


class RegionsOfIntegers(Regions):
    """What differs from kernels whose products are of floating point numbers."""

    formats = ("int16",)
    word, chunk = 2, 32  # numbers of a word, and channels whose products are summed in integers
    uses = ("rows", "vectors", "band")
    tunable = (*uses, *PREFETCHING, "non_temporal")
    buffers_used = {
        **Regions.buffers_used,
        "steps": "What 1 is in a chunk of a tile.",
        "some": "Tiles before they are rounded.",
        "place": "Where each of these tiles goes.",
    }
    fields_used = {**Regions.fields_used, "steps_step": "From one position of steps to the next."}

    def fixed(self, work: Work) -> dict[str, int]:
        return super().fixed(work) | {
            "word": self.word,
            "chunk": self.chunk,
            "tiles_at_once": int(self.tiles_at_once(work)),
        }

    def tiles_at_once(self, work: Work) -> Any:
        """Tiles side by side that are transformed before they are rounded: they stay in L1."""
        size = positions(work) * self.chunk * work.itemsize
        return np.clip(_AT_ONCE // size, 1, TILES_AT_ONCE)

    def tuning(self, target: Target, precision: Precision) -> Tuning:
        return tuning.regions_of_integers(target)

    def depth(self, work: Work) -> int:
        return self.chunk

    def words(self, work: Work) -> int:
        """Words of the channels of a tile, or of a filter."""
        whole, rest = divmod(work.channels, self.word * work.lanes)
        return int(whole * work.lanes + min(rest, work.lanes))

    def summation(self, tuning: Tuning, channels: int) -> dict[str, int]:
        return {"block": self.chunk, "chains": 1}

    def sizes_fit(self, work: Work, tuning: Tuning) -> bool:
        return tuning.band % tuning.vectors == 0

    def fields(self, work: Work) -> dict[str, Any]:
        lanes, tiles = work.lanes, work.images * self.lines(work) * work.block[1]
        words = blocks(work.channels, self.word * lanes) * lanes
        # One vector between positions keeps them off the same cache sets.
        return {
            **super().fields(work),
            "v_step": tiles * words + lanes,
            "steps_step": tiles * blocks(work.channels, self.chunk) + lanes,
        }

    def buffers(self, work: Work) -> dict[str, Buffer]:
        size, some = positions(work), self.tiles_at_once(work) * positions(work)
        steps = self.fields(work)["steps_step"]
        buffers = super().buffers(work)
        together = self.chunk // work.lanes  # vectors of channels of a chunk
        for name in {"strip", "columns", "pointer"} & buffers.keys():
            buffers[name] = Buffer(buffers[name].bytes * together)
        places = blocks(some, work.lanes)  # LANES of them have a vector of steps
        vectors = places * (work.lanes * together + 2)
        return {
            **buffers,
            "offset": Buffer(self.tiles_at_once(work) * 8),
            "steps": Buffer(size * steps * work.itemsize, shared=work.split),
            "some": Buffer(vectors * work.lanes * work.itemsize),
            "place": Buffer(self.tiles_at_once(work) * _PLACE),
        }

    def product(self, work: Work) -> PanelProduct:
        rows, times = self.rows_of_products(work)
        fused = work.target.multiplying(work.precision.format)
        usual = _INSTRUCTIONS[work.target.dots] if self.word == 2 else _OF_FOUR
        taps = self.taps_of(work)
        return PanelProduct(
            cost.register_blocks(work, rows),
            taps * self.words(work),
            # Sums become floats after every chunk of channels and every tap.
            rounds=taps * blocks(work.channels, self.chunk),
            times=positions(work) * times,
            more=0 if fused else usual - 1,
        )

    def product_price(self, work: Work, machine: Machine, counted: PanelProduct) -> Any:
        return cost.product_of_integers(machine, counted)

    def rounding(self, work: Work) -> Demand:
        places = work.images * self.lines(work) * work.block[1] * positions(work)
        vectors, steps = blocks(work.channels, work.lanes), blocks(work.channels, self.chunk)
        each = vectors * _ROUNDING + steps * (_LANES_SUMMED + _ROOT / work.lanes + _PLACED)
        # They were stored as floats before; now come words and steps.
        return Demand(instructions=places * each, stored=places * (vectors / self.word + steps))

    def input_cycles(
        self, work: Work, machine: Machine, counted: Demand, spilled: Any = 0.0
    ) -> Any:
        words = self.rounding(work)  # nothing is fetched meanwhile
        tiles = replace(
            counted,
            instructions=counted.instructions - words.instructions,
            stored=counted.stored - words.stored,
        )
        rounding = cost.transform(machine.costs, words.instructions, words.stored)
        return super().input_cycles(work, machine, tiles, spilled) + rounding

    def spilled(
        self, work: Work, machine: Machine, filters: Any, v_bytes: Any, y_bytes: Any
    ) -> tuple[Any, Any]:
        """The part of tiles and sums that something else pushes out of L2 before they are read.

        From when a tile is written until it is read, the others are written, pixels and the strip
        pass by, and of the filters and sums those of the positions before its own: on average half.
        So the part grows from nothing, where a whole block has room, to all.
        """
        outputs = work.images * work.block[0] * work.block[1]
        for transform in work.transforms:
            outputs = outputs * transform.m
        pixels = outputs * (work.channels + work.filters) * work.array_itemsize
        strip = self.buffers(work)["strip"].bytes if work.layout == "NCHW" else 0
        needed = filters + v_bytes + y_bytes + pixels + strip
        part = np.clip((needed - machine.l2_room) / (filters + y_bytes), 0, 1)
        return part, part

    def filled(self, work: Work) -> Any:
        """The tiles of an image over those of whole blocks: at the edges they are smaller."""
        part: Any = 1
        for size, transform, block, count in zip(work.out, work.transforms, work.block, work.grid):
            part = part * blocks(size, transform.m) / (block * count)
        return part

    def packed_numbers(self, work: Work) -> int:
        rows = self.taps_of(work) * self.words(work) + self.rows_beside(work)
        return work.groups * work.padded_filters * positions(work) * rows * self.word

    def rows_beside(self, work: Work) -> int:
        """Rows of packed filters that are no words of channels: the steps."""
        return 1
