"""Direct convolution of few channels in NHWC, filters in the lanes: stems that read pictures."""

from __future__ import annotations

from typing import Any

from winogen.kernels import pixels_family
from winogen.kernels.count import Demand
from winogen.kernels.direct import Direct
from winogen.kernels.geometry import strip_size
from winogen.kernels.variant import Buffer
from winogen.kernels.work import Work, round_up


class FewChannels(Direct):
    """As direct convolution, but a row of taps is one run: its columns are channels more."""

    name = "few_channels"
    template = "few_channels.c.j2"
    title = "Direct convolution of few channels, filters in the lanes"
    ranks = (1, 2)
    skips_padding = False
    formats = ("real",)
    fields_used = {"strip_row": "From one row of the strip to the next."}

    def applies(self, work: Work) -> bool:
        few = work.channels < work.lanes and work.groups == 1
        runs = work.kernel[1] > 1 and work.dilation[1] == 1
        return work.layout == "NHWC" and few and runs

    def fixed(self, work: Work) -> dict[str, int]:
        return {"row_step": work.stride[1] * work.channels}

    def fields(self, work: Work) -> dict[str, Any]:
        return {"strip_row": round_up(strip_size(work)[1] * work.channels, work.lanes)}

    def buffers(self, work: Work) -> dict[str, Buffer]:
        pixels, wide = work.block[0] * work.block[1], work.tuning.vectors * work.lanes
        strip = strip_size(work)[0] * self.fields(work)["strip_row"]
        return {
            "strip": Buffer(strip * work.itemsize),
            "sum": Buffer(pixels * wide * work.itemsize),
            "tap": Buffer(work.kernel[0] * 8),
        }

    def depth(self, work: Work) -> int:
        return work.kernel[1] * work.channels

    def filled(self, work: Work) -> Demand:
        strip = self.buffers(work)["strip"]
        return pixels_family.filled(work, self.packed_bytes(work), strip, work.channels)
