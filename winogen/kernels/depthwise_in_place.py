"""Depthwise convolution in NHWC of whole vectors of channels: the image is read where it lies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from winogen.kernels import pixels_family
from winogen.kernels.count import Demand
from winogen.kernels.depthwise_strip import DepthwiseStrip
from winogen.kernels.geometry import taps_inside
from winogen.kernels.variant import Buffer
from winogen.kernels.work import Work
from winogen.records import Machine

# Channels of a group of which several share the lanes: a shuffle brings each to its group's lanes.
_MERGED = (2, 4, 8)


class DepthwiseInPlace(DepthwiseStrip):
    """Pixels are read where they lie; taps that are outside of the image are masked."""

    name = "depthwise_in_place"
    template = "depthwise_in_place.c.j2"
    widens_arrays = False  # they are read where they lie
    title = "Depthwise convolution in place, channels in the lanes"
    buffers_used = {}
    fields_used = {}

    def applies(self, work: Work) -> bool:
        # A dilated kernel is one of neighbours among the columns that lie as far apart.
        near = work if work.stride[1] > 1 else replace(work, dilation=(1, 1))
        if work.channels == work.filters in _MERGED and work.channels < work.lanes:
            near = replace(near, groups=work.groups * work.channels, channels=1, filters=1)
        whole = near.groups % work.lanes == 0
        return super().applies(near) and whole and work.padding_mode == "zeros"

    def fields(self, work: Work) -> dict[str, Any]:
        return {}

    def buffers(self, work: Work) -> dict[str, Buffer]:
        return {}

    def taps_read(self, work: Work) -> float:
        return taps_inside(work, 0) * taps_inside(work, 1)

    def input_cycles(self, work: Work, machine: Machine, into: Demand, multiply: Demand) -> Any:
        return pixels_family.fetched(work, machine, multiply)
