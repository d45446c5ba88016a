"""Depthwise convolution in NHWC by kernels of a usual size, through a strip."""

from __future__ import annotations

from typing import Any

import numpy as np

from winogen.kernels import costs as cost
from winogen.kernels import depthwise, pixels_family
from winogen.kernels.count import Demand, Move, Panel, PanelProduct, Stages
from winogen.kernels.depthwise import is_usual
from winogen.kernels.depthwise_channels import DepthwiseChannels
from winogen.kernels.geometry import STRIP_FIELDS
from winogen.kernels.variant import Buffer
from winogen.kernels.work import Work, blocks
from winogen.records import Machine


class DepthwiseStrip(DepthwiseChannels):
    """A pixel is loaded once for all the outputs of a row that it takes part in."""

    name = "depthwise_strip"
    template = "depthwise_strip.c.j2"
    adds_early = False
    title = "Depthwise convolution through a strip, channels in the lanes"
    buffers_used = {"strip": "Padded input below a block."}
    fields_used = STRIP_FIELDS
    skips_padding = False

    def applies(self, work: Work) -> bool:
        return super().applies(work) and is_usual(work, axis=1)

    def fixed(self, work: Work) -> dict[str, int]:
        return {"kernel": work.kernel[1], "stride": work.stride[1], "merged": work.merged}

    def buffers(self, work: Work) -> dict[str, Buffer]:
        return {"strip": super().buffers(work)["strip"]}

    def unit(self, work: Work) -> tuple[Any, Any, Any]:
        return 1, work.tuning.pixels, work.lanes

    def count(self, work: Work) -> Stages:
        """Count filters and pixels, too, that the micro-kernel loads once for a row of taps."""
        into, multiply, output = super().count(work)
        (rows, cols), (high, wide) = work.block, work.kernel
        inside = self.taps_read(work) / work.taps
        apart = np.minimum(work.dilation[1], cols)
        runs = apart * blocks(blocks(cols, apart), work.tuning.pixels)  # of pixels, in a row
        calls = rows * runs * blocks(work.channels, work.lanes)
        pixels = cols / runs
        seen = high * ((pixels - 1) * work.stride[1] + wide) * inside * calls
        filters = work.taps * work.merged * inside * calls
        number, channels = work.lanes * work.itemsize, work.padded_channels * work.itemsize
        row = (cols - 1) * work.stride[1] + (wide - 1) * work.dilation[1] + 1
        again = (
            Move("input again", seen * number, high * row * channels, private=True),
            Move("U again", filters * number, self.packed_bytes(work), private=True),
        )
        loaded = Demand(
            instructions=seen * work.merged if work.merged > 1 else 0,  # channels to their groups
            loads=seen + filters,
            moves=again,
            product=PanelProduct((Panel(pixels, 1, calls),)),
        )
        return into, multiply + loaded, output

    def product_cycles(self, work: Work, machine: Machine, multiply: Demand) -> Any:
        """Cycles of the micro-kernel; what does not stay in L1 comes from L2."""
        costs = machine.costs
        far = sum(
            np.where(move.size > pixels_family.NEAR_BYTES, move.bytes, 0)
            for move in multiply.moves
            if move.what.endswith(" again")
        )
        done = multiply.steps + multiply.instructions
        step = np.maximum(done / machine.vectors_per_cycle, multiply.loads / costs.loads)
        near = cost.roof(step, far / machine.l2_rate, costs.shows)
        return near + depthwise.around(machine, multiply.product)
