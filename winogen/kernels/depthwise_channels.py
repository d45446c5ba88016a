"""Depthwise convolution in NHWC, channels in the lanes: any kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from winogen.kernels import costs as cost
from winogen.kernels import depthwise, pixels_family
from winogen.kernels.count import Demand, Panel, PanelProduct, Stages
from winogen.kernels.depthwise import as_one_group
from winogen.kernels.geometry import (
    STRIP_FIELDS,
    TAP_FIELDS,
    is_streamed,
    lines_of_channels,
    strip_pitches,
    strip_size,
)
from winogen.kernels.variant import Buffer, Cycles, Variant
from winogen.kernels.work import Work, blocks, even
from winogen.records import Machine, Precision, Target, Tuning


class DepthwiseChannels(Variant):
    """The product is one of vectors; nothing is summed across lanes."""

    name = "depthwise_channels"
    algorithm = "direct"
    template = "depthwise_channels.c.j2"
    title = "Depthwise convolution of any kernel, channels in the lanes"
    adds_early = True
    uses = ("pixels",)
    tunable = (*uses, "non_temporal")
    buffers_used = {
        "strip": "Padded input below a block.",
        "sum": "One row of outputs.",
        "tap": "Where the taps begin.",
    }
    fields_used: Mapping[str, str] = {**STRIP_FIELDS, **TAP_FIELDS}
    skips_padding = True

    def applies(self, work: Work) -> bool:
        return work.layout == "NHWC" and work.depthwise

    def view(self, work: Work) -> Work:
        return super().view(as_one_group(work))

    def tuning(self, target: Target, precision: Precision) -> Tuning:
        return Tuning("measured on AMD EPYC (Zen 4), 2026-11", pixels=8)

    def fields(self, work: Work) -> dict[str, Any]:
        return strip_pitches(*strip_size(work), work.stride[1], work.lanes, planar=False)

    def buffers(self, work: Work) -> dict[str, Buffer]:
        lanes, size = work.lanes, work.itemsize
        strip = blocks(work.channels, lanes) * self.fields(work)["strip_plane"] + 2 * lanes
        return {
            "strip": Buffer(strip * size),
            "sum": Buffer(work.block[1] * lanes * size),
            "tap": Buffer(2 * work.taps * 8),
        }

    def unit(self, work: Work) -> tuple[Any, Any, Any]:
        return 1, work.block[1], work.lanes

    def packed_numbers(self, work: Work) -> int:
        return work.padded_channels * work.merged * work.filter_taps

    def non_temporal(self, work: Work) -> bool:
        return lines_of_channels(work) and is_streamed(work, self.adds_early)

    def count(self, work: Work) -> Stages:
        (rows, cols), buffers = work.block, self.buffers(work)
        return depthwise.count(
            work,
            self.packed_bytes(work),
            buffers,
            channels=work.padded_channels,
            vectors=rows * cols * blocks(work.channels, work.lanes),
            taps=self.taps_read(work),
        )

    def cycles(self, work: Work, machine: Machine) -> Cycles:
        share, _ = cost.busiest(work)
        into, multiply, _ = self.count(work)
        written = pixels_family.block_written(work, machine, multiply, self.non_temporal(work))
        product = share * self.product_cycles(work, machine, multiply)
        input_ = share * self.input_cycles(work, machine, into, multiply)
        return pixels_family.stored_meanwhile(machine, input_, product, share * written)

    def product_cycles(self, work: Work, machine: Machine, multiply: Demand) -> Any:
        """Cycles to multiply a block: a few pixels of a row at a time, and all their taps."""
        rows, cols = work.block
        calls = rows * blocks(cols, work.tuning.pixels) * blocks(work.channels, work.lanes)
        product = PanelProduct((Panel(even(cols, work.tuning.pixels), 1, calls),))
        return machine.costs.depthwise * multiply.steps + depthwise.around(machine, product)

    def input_cycles(self, work: Work, machine: Machine, into: Demand, multiply: Demand) -> Any:
        """Cycles to bring the pixels of a block where the product reads them."""
        return pixels_family.fill(work, machine, into)
