"""Depthwise convolution in NHWC by kernels of a usual size, through a strip."""

from __future__ import annotations

from typing import Any

from winogen.kernels.depthwise import is_usual
from winogen.kernels.depthwise_channels import DepthwiseChannels
from winogen.kernels.geometry import STRIP_FIELDS
from winogen.kernels.variant import Buffer
from winogen.kernels.work import Work
from winogen.records import Machine


class DepthwiseStrip(DepthwiseChannels):
    """A pixel is loaded once for all the outputs of a row that it takes part in."""

    name = "depthwise_strip"
    template = "depthwise_strip.c.j2"
    adds_early = False
    title = "Depthwise convolution through a strip, channels in the lanes"
    buffers_used = {"strip": "padded input below a block"}
    fields_used = STRIP_FIELDS
    skips_padding = False

    def applies(self, work: Work) -> bool:
        return super().applies(work) and is_usual(work, axis=1)

    def fixed(self, work: Work) -> dict[str, int]:
        return {"kernel": work.kernel[1], "stride": work.stride[1]}

    def buffers(self, work: Work) -> dict[str, Buffer]:
        return {"strip": super().buffers(work)["strip"]}

    def unit(self, work: Work) -> tuple[Any, Any, Any]:
        return 1, work.tuning.pixels, work.lanes

    def per_vector(self, machine: Machine) -> float:
        return machine.costs.depthwise
