"""Depthwise convolution in NCHW: rows of planes in the lanes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from winogen.kernels import costs as cost
from winogen.kernels import depthwise, pixels_family
from winogen.kernels.count import Demand, Panel, PanelProduct, Stages
from winogen.kernels.geometry import extent, taps_inside
from winogen.kernels.variant import Buffer, Cycles, Variant
from winogen.kernels.work import Work, blocks, round_up
from winogen.records import Machine, Precision, Target, Tuning
from winogen.records.machine import L1_BYTES

# Rows of taps, at most: a column of them is unrolled, and a bit stands for each row of the input.
_MOST_ROWS = 31


class DepthwisePlanes(Variant):
    """A vector of pixels is loaded once for all the rows of outputs that it takes part in."""

    name = "depthwise_planes"
    algorithm = "direct"
    template = "depthwise_planes.c.j2"
    rows_at_once = 32  # which share rows of the input, and what is known of columns
    title = "Depthwise convolution of planes, pixels in the lanes"
    uses = ("rows", "vectors")
    tunable = uses
    buffers_used = {
        "strip": "Padded input below a block.",
        "mask": "Lanes of the image that the taps read.",
    }
    fields_used = {
        "strip_row": "From one row of the strip to the next.",
        "strip_plane": "From one plane of the strip to the next.",
    }

    def applies(self, work: Work) -> bool:
        (high, wide), (down, right) = work.stride, work.dilation
        strides = high == wide and (high == 1 or (high == 2 and down == right == 1))
        # One row alone has too few sums to hide how long an addition takes.
        rows = work.kernel[0] <= _MOST_ROWS and (work.kernel[0] > 1 or work.out[0] > 1)
        return work.layout == "NCHW" and work.depthwise and strides and rows

    def view(self, work: Work) -> Work:
        """Return the work with several channels to a group, for small planes are soon done."""
        rows, cols = work.output_size
        most = max(1, L1_BYTES // (rows * cols * work.itemsize))
        most = min(most, blocks(work.groups, 4 * work.threads))
        count = max(size for size in range(1, most + 1) if work.groups % size == 0)
        return replace(work, groups=work.groups // count, channels=count, filters=count)

    def fixed(self, work: Work) -> dict[str, int]:
        return {
            "kernel": work.kernel[0],
            "stride": work.stride[0],
            "in_place": int(self.in_place(work)),
            "picks_late": int(self.picks_late(work)),
        }

    def tuning(self, target: Target, precision: Precision) -> Tuning:
        rows = 7 if target.registers >= 32 else 4
        return Tuning("measured on Intel Xeon (Granite Rapids), 2026-11", rows=rows, vectors=2)

    def fields(self, work: Work) -> dict[str, Any]:
        # Of a row of less than a vector, too, a vector is read for each tap.
        cols = np.maximum(work.block[1], work.lanes) * work.stride[1]
        row = round_up(cols + (work.kernel[1] - 1) * work.dilation[1], work.lanes)
        return {"strip_row": row, "strip_plane": extent(work)[0] * row | work.lanes}

    def buffers(self, work: Work) -> dict[str, Buffer]:
        if self.in_place(work):
            masks = blocks(work.block[1], work.lanes) * work.stride[1] * work.kernel[1]
            return {
                "strip": Buffer(0),
                "mask": Buffer(masks * work.target.load_mask),
            }
        # The zeros behind the last row may end a vector behind it.
        numbers = work.channels * self.fields(work)["strip_plane"] + work.lanes
        return {"strip": Buffer(numbers * work.itemsize), "mask": Buffer(0)}

    def unit(self, work: Work) -> tuple[Any, Any, Any]:
        return work.tuning.rows, work.block[1], work.channels

    def packed_numbers(self, work: Work) -> int:
        return work.groups * work.filters * work.taps

    def taps_read(self, work: Work) -> float:
        if not self.in_place(work):
            return work.taps
        return taps_inside(work, 0) * taps_inside(work, 1)

    def count(self, work: Work) -> Stages:
        """Count what a register block loads besides: of input, and the filter."""
        (rows, cols), (high, wide), step = work.block, work.kernel, work.stride[0]
        buffers = {} if self.in_place(work) else {"strip": self.buffers(work)["strip"]}
        # Taps beside the image keep their lanes, those above and below it take no time.
        inside = taps_inside(work, 0) / high if self.in_place(work) else 1.0
        late, taps = self.picks_late(work), inside * work.taps
        vectors = blocks(cols, work.lanes)
        together: Any = work.tuning.vectors  # in a register block
        if late:  # twice as many columns are computed
            together = np.where(2 * cols <= work.lanes, 1, 2)
            vectors = vectors * together
        apart = np.minimum(work.dilation[0], rows)
        runs = apart * blocks(blocks(rows, apart), work.tuning.rows)  # of rows
        calls = work.channels * runs * blocks(vectors, together)
        sums = work.channels * rows * vectors
        into, multiply, output = depthwise.count(
            work,
            self.packed_bytes(work),
            buffers,
            channels=work.channels,
            vectors=sums,
            taps=self.taps_read(work),
        )
        seen = work.channels * vectors * ((rows - runs) * step + runs * high)  # of each column
        columns = wide if late else step * blocks(wide, step)  # of taps, of whole pairs of vectors
        loaded = seen * columns * inside
        split = 0 if step == 1 else sums if late else seen * wide * inside
        # Where masks have registers of their own a load takes one without another instruction, but
        # for the one that widens it.
        takes_another = work.precision.narrow or not work.target.masks
        masked = loaded if self.in_place(work) and takes_another else 0
        besides = Demand(
            steps=(taps - self.taps_read(work)) * sums,
            instructions=masked + split,
            loads=loaded + calls * taps,
            product=PanelProduct((Panel(sums / calls, 1, calls),)),
        )
        return into, multiply + besides, output

    def cycles(self, work: Work, machine: Machine) -> Cycles:
        costs, (share, _) = machine.costs, cost.busiest(work)
        into, multiply, _ = self.count(work)
        step = np.maximum(
            (multiply.steps + multiply.instructions) / machine.vectors_per_cycle,
            multiply.loads / costs.loads,
        )
        arithmetic = step + depthwise.around(machine, multiply.product)
        product = share * pixels_family.multiply(work, machine, multiply, arithmetic)
        stores = share * pixels_family.block_written(work, machine, multiply, False)
        if self.in_place(work):
            input_ = pixels_family.fetched(work, machine, multiply)
        else:
            input_ = pixels_family.fill(work, machine, into)
        return pixels_family.stored_meanwhile(machine, share * input_, product, stores)

    def in_place(self, work: Work) -> bool:
        """Whether the image is read where it lies: zeros around it are masked."""
        numbers = work.precision  # which are widened where they are read, if need be
        widens = not numbers.narrow or (work.target.masks and numbers.itemsize <= 2)
        return bool(work.target.load_mask) and widens and work.padding_mode == "zeros"

    def picks_late(self, work: Work) -> bool:
        """Whether every lane is computed, and those of outputs are picked at last.

        So they are where a pair of vectors has no more columns than one, and where it takes four
        instructions to part even and odd columns: vectors of 256 bits shuffle within their halves.
        """
        few = work.out[1] <= work.lanes // 2
        return work.stride[0] == 2 and (few or work.target.vector_bytes == 32)
