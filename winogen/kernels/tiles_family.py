"""What Winograd variants share: buffers of the transforms, and what those cost."""

from __future__ import annotations

from typing import Any

import numpy as np

from winogen.kernels import costs as cost
from winogen.kernels.geometry import is_streamed, lines_of_channels, tile_strip_size
from winogen.kernels.variant import Buffer, Variant
from winogen.kernels.work import Work, blocks
from winogen.records import Machine

_POINTER = 8
TILES_AT_ONCE = 4  # side by side, whose columns are transformed before their rows: they stay in L1


class Tiled(Variant):
    """Pixels become vectors of channels, columns are transformed, then rows."""

    adds_early = True
    along = (True, True)
    buffers_used = {
        "strip": "pixels or outputs, in vectors",
        "columns": "transformed columns",
        "offset": "where each tile goes",
    }

    def buffer_names(self, border: str) -> dict[str, str]:
        names = dict(self.buffers_used)
        return {**names, "pointer": "where each pixel is"} if border == "indirect" else names

    def unit(self, work: Work) -> tuple[Any, Any, Any]:
        h, w = work.transforms
        if work.layout == "NHWC":
            return h.m, w.m, work.lanes
        return 1, work.block[1] * w.m, work.lanes

    def input_size(self, work: Work) -> tuple[Any, Any]:
        """Rows and columns of padded input below a block."""
        return tile_strip_size(work)

    def lines(self, work: Work) -> Any:
        """Rows of tiles of a block's input."""
        return work.block[0]

    def tiles_at_once(self, work: Work) -> Any:
        """Tiles side by side whose columns are transformed before their rows."""
        return TILES_AT_ONCE

    def transform_buffers(self, work: Work) -> dict[str, Buffer]:
        """Return the buffers of the input and output transform."""
        h, w = work.transforms
        (rows, cols), vector = self.input_size(work), work.lanes * work.itemsize
        outputs = h.m * work.block[1] * w.m
        together = self.tiles_at_once(work) * w.m + w.n - w.m
        named = {
            "strip": Buffer(np.maximum(rows * cols, outputs) * vector),
            "columns": Buffer(h.products * together * vector),
            "offset": Buffer(self.lines(work) * work.block[1] * 8),
        }
        if work.border == "indirect":
            named["pointer"] = Buffer(rows * cols * _POINTER)
        return named

    def non_temporal(self, work: Work) -> bool:
        dense = work.layout == "NHWC" and lines_of_channels(work)
        return dense and is_streamed(work, self.adds_early)

    def input_cycles(self, work: Work, machine: Machine, spilled: Any = 0.0) -> Any:
        """Cycles of the input transform of a block of one image.

        Tiles take ``spilled`` cycles to be written where they do not stay in L2.
        """
        costs, (h, w) = machine.costs, work.transforms
        rows, cols = self.input_size(work)
        lines, tiles = self.lines(work), work.block[1]
        arrange = cost.arrange(work, costs) * rows * cols
        columns = lines * cols * cost.transform(costs, h.instructions[0], h.products)
        across = cost.transform(costs, w.instructions[0], w.products)
        across = lines * tiles * h.products * across
        arithmetic = blocks(work.channels, work.lanes) * (arrange + columns + across)
        fetched = (
            rows * cols * work.channels * work.array_itemsize / machine.read_rate(work.input_bytes)
        )
        return cost.roof(arithmetic, fetched + spilled, costs.shows)

    def output_cycles(self, work: Work, machine: Machine, spilled: Any = 0.0) -> Any:
        """Cycles of the output transform of a block of one image.

        Sums take ``spilled`` cycles to be read where they did not stay in L2.
        """
        costs, (h, w) = machine.costs, work.transforms
        tiles = work.block[0] * work.block[1]
        columns = w.products * cost.transform(costs, h.instructions[2], h.m)
        across = h.m * cost.transform(costs, w.instructions[2], w.m)
        arrange = cost.arrange(work, costs) * h.m * w.m
        vectors = blocks(work.filters, work.lanes)
        arithmetic = tiles * vectors * (columns + across + arrange)
        size = tiles * h.m * w.m * work.filters * work.array_itemsize
        stores = cost.written(work, machine, size, self.non_temporal(work))
        return cost.roof(arithmetic, stores + spilled, costs.shows)


def positions(work: Work) -> Any:
    """Products of one tile."""
    return work.transforms[0].products * work.transforms[1].products


def product_cycles(
    work: Work, machine: Machine, arithmetic: Any, filters: Any, spilled: Any
) -> Any:  # fmt: skip
    """Cycles of a block's product: filters are read once per block, and what does not stay in L2 of
    transformed tiles and sums takes ``spilled`` cycles.
    """
    traffic = filters / cost.read_again(machine, filters, work.items) + spilled
    return cost.roof(arithmetic, traffic, machine.costs.shows)
