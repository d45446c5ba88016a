"""Convolution in NCHW whose windows do not overlap: planes of what each tap reads, side by side."""

from __future__ import annotations

from typing import Any

from winogen.kernels import pixels_family
from winogen.kernels.count import Demand, Stages, input_read, of_buffer
from winogen.kernels.planes import Planes
from winogen.kernels.variant import Buffer
from winogen.kernels.work import Work, blocks, round_up
from winogen.records import Machine

# An eighth of the lanes may be idle: filters there want strips, and outputs that are transposed.
_LEAST_FILLED = 0.875


class Patches(Planes):
    """As `Planes`, but for the copy that brings pixels beside each other."""

    name = "patches"
    template = "patches.c.j2"
    read_by_panels = "strip"
    title = "Convolution of patches that do not overlap, pixels in the lanes"
    buffers_used = {"strip": "What each tap reads.", "sum": "Sums that wait for others."}
    fields_used = {"strip_plane": "From one term of the strip to the next."}

    def applies(self, work: Work) -> bool:
        apart = all(taps <= step for taps, step in zip(work.kernel, work.stride))
        plain = work.padding == (0, 0) and work.dilation == (1, 1) and apart
        inside = all(
            (out - 1) * step + taps <= size
            for out, step, taps, size in zip(work.output_size, work.stride, work.kernel, work.size)
        )
        pixels = work.out[0] * work.out[1]
        filled = pixels >= _LEAST_FILLED * round_up(pixels, work.lanes)
        many = work.filters > work.lanes // 2 and work.stride[1] > 1 and filled
        return work.layout == "NCHW" and plain and inside and many

    def fixed(self, work: Work) -> dict[str, int]:
        return {"taps_wide": work.kernel[1], "stride_wide": work.stride[1]}

    def fields(self, work: Work) -> dict[str, Any]:
        # An odd number of vectors from one plane to the next spreads them over all cache sets.
        pixels = work.block[0] * work.block[1]
        return {"strip_plane": round_up(pixels, work.lanes) | work.lanes}

    def buffers(self, work: Work) -> dict[str, Buffer]:
        planes = self.fields(work)["strip_plane"] * work.channels * work.taps
        return {
            "strip": Buffer((planes + work.lanes) * work.itemsize),
            "sum": super().buffers(work)["sum"],
        }

    def packed_numbers(self, work: Work) -> int:
        return super().packed_numbers(work) * work.taps

    def count(self, work: Work) -> Stages:
        (rows, cols), packed, strip = (
            work.block,
            self.packed_bytes(work),
            self.buffers(work)["strip"],
        )
        size = rows * cols * work.channels * work.taps * work.itemsize
        read = rows * work.kernel[0], (cols - 1) * work.stride[1] + work.kernel[1]
        into = Demand(
            moves=(input_read(work, packed, read), of_buffer("strip", size, strip, writes=True))
        )
        times = blocks(work.filters, work.tuning.rows)
        moves = (
            *pixels_family.moved(work, packed, {"strip": strip}),
            of_buffer("strip", times * size, strip),
        )
        product = self.product(work).demand(pixels_family.multiplications(work), moves)
        return into, product, Demand()

    def brought(self, work: Work, machine: Machine, into: Demand, counted: Demand) -> Any:
        return pixels_family.fill(work, machine, into)
