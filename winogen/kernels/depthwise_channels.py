"""Depthwise convolution in NHWC, channels in the lanes: any kernel."""

from __future__ import annotations

from typing import Any

from winogen.kernels import costs as cost
from winogen.kernels import pixels_family
from winogen.kernels.demand import Stages, without_tiles
from winogen.kernels.depthwise import as_one_group
from winogen.kernels.geometry import (
    STRIP_FIELDS,
    is_streamed,
    lines_of_channels,
    strip_pitches,
    strip_size,
)
from winogen.kernels.variant import Buffer, Cycles, Variant
from winogen.kernels.work import Work, blocks
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
        "strip": "padded input below a block",
        "sum": "one row of outputs",
        "tap": "where the taps begin",
    }
    fields_used = STRIP_FIELDS

    def applies(self, work: Work) -> bool:
        return work.layout == "NHWC" and work.depthwise

    def view(self, work: Work) -> Work:
        return as_one_group(work)

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
            "tap": Buffer(work.taps * 8),
        }

    def unit(self, work: Work) -> tuple[Any, Any, Any]:
        return 1, work.block[1], work.lanes

    def packed_numbers(self, work: Work) -> int:
        return work.padded_channels * work.taps

    def non_temporal(self, work: Work) -> bool:
        return lines_of_channels(work) and is_streamed(work, self.adds_early)

    def cycles(self, work: Work, machine: Machine) -> Cycles:
        rows, cols = work.block
        vectors = rows * cols * blocks(work.channels, work.lanes)
        share, _ = cost.busiest(work)
        stores = share * pixels_family.block_written(work, machine, self.non_temporal(work))
        product = share * self.per_vector(machine) * work.taps * vectors
        input_ = share * self.input_cycles(work, machine)
        return pixels_family.stored_meanwhile(machine, input_, product, stores)

    def per_vector(self, machine: Machine) -> float:
        """Cycles per tap and vector of outputs."""
        return 2 * machine.costs.depthwise

    def input_cycles(self, work: Work, machine: Machine) -> Any:
        """Cycles to bring the pixels of a block where the product reads them."""
        return pixels_family.fill(work, machine, work.padded_channels)[0]

    def demands(self, work: Work) -> Stages:
        strip = self.buffers(work).get("strip")
        return without_tiles(work, self.packed_bytes(work), strip, summed=1)
