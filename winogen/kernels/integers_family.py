"""Regions whose products are of integers: V and U are rounded, and products summed exactly.

The tiles of a chunk of channels are transformed in float32, a few at a time. Each of their
positions has a step of its own, by which its numbers become integers of at most 15 bits. Filters
have a step for each position, so large that no sum of a chunk leaves its 32 bits. Between chunks
sums are of float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from winogen.kernels import costs as cost
from winogen.kernels import tuning
from winogen.kernels.regions_family import Regions
from winogen.kernels.tiles_family import TILES_AT_ONCE, positions
from winogen.kernels.variant import Buffer
from winogen.kernels.work import Work, blocks
from winogen.records import Costs, Machine, Precision, Target, Tuning
from winogen.records.tuning import PREFETCHING

_PLACE = 24  # bytes of where a tile goes
_AT_ONCE = 10 << 10  # bytes of tiles before they are rounded: a part of L1, beside their words
CHUNK = 32  # channels whose products are summed in integers
# Instructions that multiply and add two vectors of words, where one does not.
_INSTRUCTIONS = {"madd": 2, "smlal": 2, "": 6}
_ROUNDING = 12  # instructions that round a vector of channels, and find its norm


class RegionsOfIntegers(Regions):
    """What differs from kernels whose products are of floating point numbers."""

    uses = ("rows", "vectors", "band")
    tunable = (*uses, *PREFETCHING, "non_temporal")
    buffers_used = {
        **Regions.buffers_used,
        "steps": "what 1 is in a chunk of a tile",
        "some": "tiles before they are rounded",
        "place": "where each of them goes",
    }
    fields_used = {**Regions.fields_used, "steps_step": "of steps: likewise"}

    def computes(self, precision: Precision) -> bool:
        asked = Precision.of(precision.arrays, products="int16")
        return precision == asked and precision.transforms == "float32"

    def extensions(self, target: Target) -> tuple[str, ...]:
        return target.dot_extensions

    def fixed(self, work: Work) -> dict[str, int]:
        return {"word": 2, "chunk": CHUNK, "tiles_at_once": int(self.tiles_at_once(work))}

    def tiles_at_once(self, work: Work) -> Any:
        """Tiles side by side that are transformed before they are rounded: they stay in L1."""
        return np.clip(_AT_ONCE // (positions(work) * CHUNK * work.itemsize), 1, TILES_AT_ONCE)

    def tuning(self, target: Target, precision: Precision) -> Tuning:
        return tuning.regions_of_integers(target)

    def depth(self, work: Work) -> int:
        return CHUNK

    def summation(self, tuning: Tuning, channels: int) -> dict[str, int]:
        return {"block": CHUNK, "chains": 1}

    def sizes_fit(self, work: Work, tuning: Tuning) -> bool:
        return tuning.band % tuning.vectors == 0

    def fields(self, work: Work) -> dict[str, Any]:
        lanes, tiles = work.lanes, work.images * self.lines(work) * work.block[1]
        words = blocks(work.channels, 2 * lanes) * lanes
        # One vector between positions keeps them off the same cache sets.
        return {
            **super().fields(work),
            "v_step": tiles * words + lanes,
            "steps_step": tiles * blocks(work.channels, CHUNK) + lanes,
        }

    def buffers(self, work: Work) -> dict[str, Buffer]:
        size, some = positions(work), self.tiles_at_once(work) * positions(work)
        steps = self.fields(work)["steps_step"]
        buffers = super().buffers(work)
        together = CHUNK // work.lanes  # vectors of channels of a chunk
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

    def product_arithmetic(self, work: Work, costs: Costs, rows: Any) -> Any:
        instructions = 1 if self.extensions(work.target) else _INSTRUCTIONS[work.target.dots]
        return cost.product_of_integers(work, costs, rows, CHUNK, self.taps_of(work), instructions)

    def input_cycles(self, work: Work, machine: Machine, spilled: Any = 0.0) -> Any:
        vectors = self.lines(work) * work.block[1] * blocks(work.channels, work.lanes)
        # Positions lie in pages of their own, which the fewer tiles at once come to more often.
        each = _ROUNDING * 4 / self.tiles_at_once(work)
        rounding = vectors * positions(work) * each * machine.costs.instruction
        return super().input_cycles(work, machine, spilled) + rounding

    def packed_numbers(self, work: Work) -> int:
        whole, rest = divmod(work.channels, 2 * work.lanes)
        words = whole * work.lanes + min(rest, work.lanes)
        rows = self.taps_of(work) * words + 1
        return work.groups * work.padded_filters * positions(work) * rows * 2
