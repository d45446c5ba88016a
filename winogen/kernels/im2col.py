"""im2col: a patch matrix is copied together, and multiplied with the filters."""

from __future__ import annotations

from typing import Any

from winogen.kernels.count import Demand, of_buffer
from winogen.kernels.direct import Direct
from winogen.kernels.geometry import STRIP_FIELDS
from winogen.kernels.variant import Buffer
from winogen.kernels.work import Work


class Im2col(Direct):
    """As direct convolution, but for the copy of what the micro-kernel reads."""

    name = "im2col"
    algorithm = "im2col"
    template = "im2col.c.j2"
    title = "Convolution as patch matrix times filters (im2col + GEMM)"
    auto = False
    skips_padding = False
    formats = ("real",)
    operand = "patch"
    buffers_used = {**Direct.buffers_used, "patch": "What every pixel sees."}
    fields_used = {**STRIP_FIELDS, "patch_numbers": "Numbers of one patch."}

    def fields(self, work: Work) -> dict[str, Any]:
        return {**super().fields(work), "patch_numbers": work.padded_channels * work.taps}

    def buffers(self, work: Work) -> dict[str, Buffer]:
        pixels = work.block[0] * work.block[1]
        # A vector more: whole ones are written.
        numbers = pixels * work.padded_channels * work.taps + work.lanes
        return {**super().buffers(work), "patch": Buffer(numbers * work.itemsize)}

    def filled(self, work: Work) -> Demand:
        (rows, cols), buffers, copied = work.block, self.buffers(work), super().filled(work)
        strip = copied.bytes("strip", writes=True)
        patch = rows * cols * work.padded_channels * work.taps * work.itemsize
        moves = (
            of_buffer("strip", strip, buffers["strip"]),
            of_buffer("patch", patch, buffers["patch"], writes=True),
        )
        return copied + Demand(moves=moves)
