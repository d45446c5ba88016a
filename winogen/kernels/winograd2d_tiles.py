"""2D Winograd of few channels in NCHW: tiles fill the lanes from the input to the output."""

from __future__ import annotations

from typing import Any

import numpy as np

from winogen.kernels import costs as cost
from winogen.kernels.count import (
    Demand,
    Move,
    Stages,
    filters_read,
    input_read,
    of_buffer,
    output_written,
)
from winogen.kernels.geometry import (
    STRIP_FIELDS,
    is_streamed,
    strip_pitches,
    tile_strip_size,
    whole_lines,
)
from winogen.kernels.pixels_family import NEAR_BYTES
from winogen.kernels.registers import loads_per_fma
from winogen.kernels.tiles_family import positions
from winogen.kernels.variant import Buffer, Cycles, Variant
from winogen.kernels.work import Work, blocks, round_up
from winogen.records import Machine, Precision, Target, Tuning
from winogen.records.machine import LINE

_UNROLLED_CHANNELS = (1, 3, 4)  # as images have them: compiled in
_LEAST_FILTERS = 8  # fewer do not pay for the input transform


class Winograd2dTiles(Variant):
    """Products never leave the registers; on the way out rows need only be interleaved."""

    name = "winograd2d_tiles"
    algorithm = "winograd2d"
    template = "winograd2d_tiles.c.j2"
    ranks = (2,)
    title = "2D Winograd convolution of few channels, tiles in the lanes"
    along = (True, True)
    largest_tile = 4  # larger ones are less accurate and, for all that they save, not faster
    layout_of = "NCHW"
    uses: tuple[str, ...] = ("pair",)
    tunable: tuple[str, ...] = ("pair", "non_temporal")
    buffers_used = {
        "v": "Transformed tiles.",
        "y": "Outputs of whole tiles.",
        "strip": "Padded input below a block.",
    }
    fields_used = {**STRIP_FIELDS, "tiles_at_once": "Tiles of a row whose V is in L1."}

    def applies(self, work: Work) -> bool:
        few = work.channels <= self.tuning(work.target, work.precision).few
        plain = few and not work.depthwise and work.dilation == (1, 1)
        return work.layout == self.layout_of and plain

    def suits(self, work: Work) -> bool:
        return work.filters >= _LEAST_FILTERS

    def fixed(self, work: Work) -> dict[str, int]:
        return {"channels": work.channels} if work.channels in _UNROLLED_CHANNELS else {}

    def tuning(self, target: Target, precision: Precision) -> Tuning:
        return Tuning("measured on AMD EPYC (Zen 4), 2026-11", pair=2, depth=16)

    def fields(self, work: Work) -> dict[str, Any]:
        return self._pitches(work) | {"tiles_at_once": self.tiles_at_once(work)}

    def _pitches(self, work: Work) -> dict[str, Any]:
        return strip_pitches(
            *tile_strip_size(work), work.transforms[1].step, work.lanes, planar=True
        )

    def tiles_at_once(self, work: Work) -> Any:
        """Tiles of a row whose V takes at most three quarters of what L1 has for the product."""
        vector = positions(work) * work.channels * work.lanes * work.itemsize
        return work.lanes * np.maximum(1, 3 * NEAR_BYTES // (4 * vector))

    def buffers(self, work: Work) -> dict[str, Buffer]:
        (h, w), lanes = work.transforms, work.lanes
        tiles = np.minimum(round_up(work.block[1], lanes), self.tiles_at_once(work))
        v = tiles * positions(work) * work.channels
        return self._buffers(work, v, work.tuning.pair * h.m * w.m * lanes)

    def _buffers(self, work: Work, v: Any, y: Any) -> dict[str, Buffer]:
        # Whole vectors are read, up to two beyond what is needed.
        strip = work.channels * self._pitches(work)["strip_plane"] + 2 * work.lanes
        numbers = {"v": v, "y": y, "strip": strip}
        return {name: Buffer(count * work.itemsize) for name, count in numbers.items()}

    def unit(self, work: Work) -> tuple[Any, Any, Any]:
        h, w = work.transforms
        return h.m, work.block[1] * w.m, work.tuning.pair

    def packed_numbers(self, work: Work) -> int:
        return work.groups * work.filters * work.channels * positions(work)

    def non_temporal(self, work: Work) -> bool:
        """Outputs are stored as they are computed where all rows are whole lines."""
        steps = (work.output.image, work.output.channel, work.output.row)
        lines = all(step * work.array_itemsize % LINE == 0 for step in steps)
        return whole_lines(work) and lines and is_streamed(work, self.adds_early)

    def input_size(self, work: Work) -> tuple[Any, Any]:
        return tile_strip_size(work)

    def count(self, work: Work) -> Stages:
        groups = work.block[0] * blocks(work.block[1], work.lanes)
        pair = min(work.tuning.pair, work.filters)
        times = blocks(work.filters, pair)
        return (
            self.transformed(work),
            self.summed(work, groups * work.filters, (1, pair), times),
            Demand(),
        )

    def transformed(self, work: Work) -> Demand:
        """Count the input transform of a block, whose tiles fill the lanes."""
        (h, w), buffers, lanes = work.transforms, self.buffers(work), work.lanes
        rows, cols = self.input_size(work)
        groups = work.channels * work.block[0] * blocks(work.block[1], lanes)
        vector, places = lanes * work.itemsize, groups * positions(work)
        strip = rows * cols * work.channels * work.itemsize
        return Demand(
            instructions=groups * (w.n * h.instructions[0] + h.products * w.instructions[0]),
            stored=places,
            moves=(
                input_read(work, self.packed_bytes(work), (rows, cols)),
                of_buffer("strip", strip, buffers["strip"], writes=True),
                of_buffer("strip", groups * w.n * h.n * vector, buffers["strip"]),
                of_buffer("V", places * vector, buffers["v"], writes=True),
            ),
        )

    def summed(self, work: Work, vectors: Any, block: tuple[Any, Any], times: Any) -> Demand:
        """Count products, which are never stored, and the output transform as a part of them.

        ``vectors``: of tiles times filters; ``block``: tiles (or vectors of them) and filters (or
        vectors of them) in the registers; ``times``: how often V is read.
        """
        (h, w), (rows, cols), v = work.transforms, work.block, self.buffers(work)["v"]
        packed, lanes = self.packed_bytes(work), work.lanes
        steps = vectors * positions(work) * work.channels
        u = filters_read(work, packed, (v,))
        groups = rows * blocks(cols, lanes) * lanes
        v_bytes = groups * positions(work) * work.channels * work.itemsize
        return Demand(
            rows * cols * positions(work) * work.channels * work.filters,
            steps,
            vectors * (w.products * h.instructions[2] + h.m * w.instructions[2]),
            steps * loads_per_fma(*block),
            stored=vectors * w.products * h.m,
            moves=(
                u,
                Move("U again", u.bytes * (rows - 1), packed, private=True),
                Move("V", times * v_bytes, v.bytes, private=True),
                output_written(work, packed),
            ),
        )

    def cycles(self, work: Work, machine: Machine) -> Cycles:
        costs, (h, w) = machine.costs, work.transforms
        share, _ = cost.busiest(work)
        into, multiply, _ = self.count(work)
        # Products need not be stored, columns must. Rows are interleaved if their tiles are powers
        # of two, else written one by one.
        placing = np.where(w.m & (w.m - 1), work.lanes / 2, (np.log2(w.m) + 1) / 4)
        groups = blocks(work.block[1], work.lanes)
        outputs = work.block[0] * groups * work.filters * h.m * w.m
        instructions = multiply.steps + multiply.instructions
        arithmetic = cost.transform(costs, instructions, multiply.stored) + outputs * placing
        # Outputs of tiles that do not fill the lanes pass through memory once more.
        copied = np.where(work.block[1] % work.lanes, outputs / groups, 0)
        arithmetic = arithmetic + 2 * costs.store * copied
        stores = cost.written(
            work, machine, work.batch * work.output_bytes, self.non_temporal(work)
        )
        stores = stores / cost.busy_threads(work)
        product = cost.roof(share * arithmetic, stores, costs.streamed)
        return Cycles(share * self.transform_cycles(work, machine, into), product, 0.0)

    def transform_cycles(self, work: Work, machine: Machine, counted: Demand) -> Any:
        """Cycles of the input transform: two loads go side by side, or two numbers of the strip."""
        vector = work.lanes * work.itemsize
        loads = (
            counted.bytes("strip") / vector + counted.bytes("strip", writes=True) / work.itemsize
        )
        arithmetic = counted.instructions / machine.vectors_per_cycle
        return loads / 2 + arithmetic + counted.stored
